"""Products that a plain one does not describe: what they compute is found as a formula, and held to it."""
