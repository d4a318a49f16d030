"""What threads wait for: barriers of warps, blocks and clusters, mbarriers, products and launches in flight."""
