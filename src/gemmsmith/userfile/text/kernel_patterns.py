"""What the text of a kernel says about its launch."""

from __future__ import annotations

import re

# Blocks that take one tile after another: from a counter, or in a loop that starts at the block's number and steps on.
BLOCKS_TAKE_TILES = re.compile(
    r"=\s*atomic(?:Add|Inc)\s*\(|=[^=;]*\bfetch_add\s*\("
    r"|\bfor\s*\([^;]*?\b(\w+)\s*=\s*blockIdx\s*\.\s*[xyz]\s*;[^;]*;[^;{}]*?\b\1\s*\+="
)
EQUALS_NUMBER = re.compile(r"\b\w+\s*==\s*\d{2,}\b")
GRID_SYNC = re.compile(r"\bthis_grid\s*\(.*\bsync\s*\(", re.S)  # cooperative groups: grid.sync(), cg::sync(grid)
BLOCK_INDEX = re.compile(r"blockIdx|group_index|this_grid|this_cluster|%(?:cluster_)?ctaid")
CLUSTER_DIMS = re.compile(r"__cluster_dims__\s*\(((?:[^()]|\([^()]*\))*)\)")
