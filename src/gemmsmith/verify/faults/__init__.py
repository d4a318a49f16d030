"""Faults in the source's own words: races, accesses, wrong outputs."""
