"""Which launches test a kernel, in which order, and at which sizes it is right."""
