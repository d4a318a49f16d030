"""Many independent tasks, on this machine's cores or on a Ray cluster: see docs/cluster.md."""
