"""Experiments over parameters and sizes."""
