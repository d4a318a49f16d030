"""Launches of any kernel: its parameters, its arguments, the memory they live in, and the result."""
