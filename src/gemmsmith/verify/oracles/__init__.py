"""What a result should be, how far rounding may take it from that, and what can be proven of it."""
