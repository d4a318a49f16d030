"""A user's kernel: its entry, its parameters, what kinds are refused."""
