"""Which kernel and configuration computes a problem: candidates, cost model, tuned winners, precision, tables."""
