"""Tuning: the fastest kernel and configuration for a shape, by timing candidates."""
