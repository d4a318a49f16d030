"""What a user's kernel computes: which parameter means what, in which layout, under which launch."""
