"""Why is a kernel as fast as it is? Occupancy, and what limits it."""
