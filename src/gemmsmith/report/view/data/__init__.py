"""What each view draws, chosen from a trace."""
