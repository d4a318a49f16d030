"""Why a kernel is as fast as it is: counters, occupancy, roofline, time model, diagnosis."""
