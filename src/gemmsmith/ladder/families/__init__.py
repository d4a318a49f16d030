"""What rungs of one family have in common: parameters, constraints, launches, tensor maps."""
