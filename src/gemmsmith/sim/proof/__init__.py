"""Exact arithmetic beside a simulated kernel: which polynomial of the inputs each output is, and how it was summed."""
