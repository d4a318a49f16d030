"""Users' own CUDA files: entry, signature, launch site, host code, includes."""
