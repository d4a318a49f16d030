"""Tools that record a program's CUDA calls, kernels and copies: CUPTI, torch's profiler, Nsight Systems."""
