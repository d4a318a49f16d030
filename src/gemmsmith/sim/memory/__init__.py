"""Global, shared, local and texture memory, and the copies that engines make between them."""
