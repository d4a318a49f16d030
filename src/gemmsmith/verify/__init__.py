"""Is the result right? References, error bounds, guarded launches, verdicts."""
