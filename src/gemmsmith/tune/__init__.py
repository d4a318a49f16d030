"""Tuning: the fastest kernel and configuration for a shape, by timing candidates. choose/ says which are candidates."""
