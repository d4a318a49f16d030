"""Exact arithmetic beside a simulated kernel: what each output is as a polynomial of the inputs, and how it was summed."""
