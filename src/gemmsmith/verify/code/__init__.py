"""What a kernel's compiled code and text tell: decisions, guards, edges, the path of one thread."""
