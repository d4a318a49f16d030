"""What a kernel is: source, specification, configuration, signature."""
