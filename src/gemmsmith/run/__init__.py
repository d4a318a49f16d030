"""Devices: the protocol, CUDA, guarded memory, tensors of other libraries, baselines."""
