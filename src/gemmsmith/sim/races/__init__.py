"""Which accesses nothing orders: clocks of threads, what was accessed, and the races found in it."""
