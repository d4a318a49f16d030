"""Kernels and launches in Python files."""
