"""Causes of a fault, named only after the change that they imply was made in a copy and cured it."""
