"""Other people's CUDA files."""
