"""CUDA C++ as text, tokens and syntax trees: declarations, arrays, constants, accesses."""
