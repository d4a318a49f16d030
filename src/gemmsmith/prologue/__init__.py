"""What is launched before a kernel: copies of operands, splits into parts, a zeroed workspace."""
