"""Timelines of CUDA programs."""
