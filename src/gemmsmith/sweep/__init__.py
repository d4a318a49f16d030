"""Experiments that vary parameters."""
