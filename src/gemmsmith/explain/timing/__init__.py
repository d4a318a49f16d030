"""The time of a launch, from the cycle model of one SM: waves, launches, the clock, stall reasons, what-ifs."""
