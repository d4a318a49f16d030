"""Host code that puts one product of a batch into each block along y or z of the grid, where CUDA has 65,535, though a
comment says that any number of products may be given.

Without such words nothing is said: few batches are so large.
"""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.host.launched_products import launched
from gemmsmith.verify.oracles.promises import says_any_batch
from gemmsmith.verify.verdict import Verdict

_MOST = 65_535  # blocks along y, and along z


def too_many_products(spec: KernelSpec, problem: Problem, like: Verdict) -> Verdict | None:
    """The verdict on a batch of which the grid is too large, with the facts of ``like``; None if host code has a grid
    for it, does not launch it, or promises nothing."""
    launch = spec.geometry
    if not isinstance(launch, UserLaunch) or launch.site is None or not spec.batched or not says_any_batch(spec):
        return None
    batch = spec.signature.batch_of(problem, _MOST + 1)
    asked = launched(spec, batch)
    if asked.excluded is not None or asked.unread is not None:
        return None
    try:
        grid, _ = launch.site.extent(0, launch.own_sizes(batch))
    except (GemmsmithError, RecursionError):
        return None
    axis = next((axis for axis, blocks in zip("yz", grid[1:], strict=False) if blocks == _MOST + 1), "")
    if not axis:
        return None
    reason = (f"host code: the launch at {launch.site.site.shown()} has a block along {axis} for each product, where a "
              f"GPU allows {_MOST:,}; with more the launch fails, and C keeps what it held")  # fmt: skip
    return replace(like, problem=batch, reasons=(reason,), repeat=like.repeat.partition(" --trial ")[0])
