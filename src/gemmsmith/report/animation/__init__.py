"""A small animation for each step of the ladder, drawn from a recorded launch: SVG that moves without a script."""
