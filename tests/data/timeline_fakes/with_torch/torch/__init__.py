"""A stand-in for torch: its profiler, which exports a recorded trace."""

from torch import profiler as profiler

__version__ = "0.0"
