"""Launches with grid and block swapped: ``<<<block, grid>>>``.

The block is then computed from M and N, and the grid is a number of threads that no size changes.
"""

from __future__ import annotations

import math

from gemmsmith.errors import GemmsmithError
from gemmsmith.gpus import cuda_limits
from gemmsmith.userfile.kernels.kernel_facts import SAMPLE, problem_sizes
from gemmsmith.userfile.launches.launch_values import SiteValues

_GRID, _BLOCK = 0, 1


def is_exchanged(site: SiteValues) -> bool:
    """Whether the block grows with M and with N and the grid, of more than one block, with neither.

    A block with a thread for each output counts no tiles: each block of such a launch has a small product of its own.
    """
    own = problem_sizes(SAMPLE)
    try:
        grid, block = (site.extent(place, own)[0] for place in (_GRID, _BLOCK))
        if math.prod(block) >= own["M"] * own["N"]:
            return False
        larger = [{**own, role: 2 * own[role]} for role in ("M", "N")]
        grows = all(site.extent(_BLOCK, sizes)[0] != block for sizes in larger)
        return grows and math.prod(grid) > 1 and all(site.extent(_GRID, sizes)[0] == grid for sizes in larger)
    except (GemmsmithError, RecursionError):
        return False


def fits_own_sizes(site: SiteValues) -> bool:
    """Whether host code has numbers for M and N, for which a GPU has such a block."""
    try:
        return math.prod(site.extent(_BLOCK, {})[0]) <= cuda_limits().threads_per_block
    except (GemmsmithError, RecursionError):
        return False
