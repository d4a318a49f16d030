"""Numbers as the GPU computes them, over NumPy arrays: rounding, conversions, special functions, tensor cores."""
