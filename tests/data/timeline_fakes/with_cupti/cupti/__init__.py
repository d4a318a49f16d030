"""A stand-in for NVIDIA's cupti-python: the part of its activity API that a timeline uses."""
