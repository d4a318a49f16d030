"""The ladder: one .cu per rung and its specification."""
