"""Exercises, and published worklogs revisited."""
