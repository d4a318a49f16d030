"""Record one launch on the simulator as a ``LaunchTrace``."""
