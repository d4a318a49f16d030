"""Timing kernels and baselines on a GPU."""
