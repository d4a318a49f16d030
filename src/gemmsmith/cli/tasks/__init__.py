"""Parts of commands that run on workers: what the driver sends, and the function that does it."""
