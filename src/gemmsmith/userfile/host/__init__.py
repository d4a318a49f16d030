"""What host code says: values, conditions, loops, tensor maps, allocations."""
