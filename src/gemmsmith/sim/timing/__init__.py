"""Time from machine code: the instruction streams of the warps of one SM, and a cycle model that runs them."""
