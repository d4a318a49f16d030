"""Drawings of one rung, as charts: its tiles, its pipeline, its costliest access. All from facts of the rung."""
