"""From tensors to launches."""
