"""The tables in README.md and docs/, each a function that reads a record in ``benchmarks/results/``."""
