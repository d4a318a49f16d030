"""Finding the fastest kernel for a shape."""
