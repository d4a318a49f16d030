"""Grid, block and dynamic shared memory of a launch, checked with the caller's words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gemmsmith.errors import UsageError
from gemmsmith.gpus import cuda_limits, largest_smem
from gemmsmith.kernel.geometry import Dim3, Geometry

GridLike = int | Sequence[int]


def launch_geometry(
    grid: GridLike, block: GridLike, smem: int = 0, cooperative: bool = False, cluster: GridLike = 1
) -> Geometry:
    """The geometry of a launch; raises ``UsageError`` for one that no GPU can launch."""
    blocks, threads = _extents("grid", grid), _extents("block", block)
    most = cuda_limits()
    total = threads[0] * threads[1] * threads[2]
    if total > most.threads_per_block:
        raise UsageError(
            f"block={_shown(threads)} has {total} threads", f"a block has at most {most.threads_per_block}"
        )
    if threads[2] > most.block_z:
        raise UsageError(f"block={_shown(threads)} has {threads[2]} threads along z", f"{most.block_z} are the most")
    if blocks[0] > most.grid_x or max(blocks[1:]) > most.grid_yz:
        raise UsageError(
            f"grid={_shown(blocks)} is too large", f"x: at most {most.grid_x}; y and z: at most {most.grid_yz}"
        )
    if isinstance(smem, bool) or not isinstance(smem, (int, np.integer)) or smem < 0:
        raise UsageError(
            f"smem={smem!r} is not a number of bytes", "give the bytes of dynamic shared memory, 0 or more"
        )
    if smem > largest_smem():
        raise UsageError(f"smem={smem} bytes exceed the {largest_smem()} that a block has on any GPU")
    together = _extents("cluster", cluster)
    _check_cluster(blocks, together)
    return Geometry(blocks, threads, int(smem), together, cooperative=bool(cooperative))


def with_cluster(geometry: Geometry, name: str, compiled: Dim3 | None) -> Geometry:
    """The geometry with the cluster that the kernel was compiled with (``__cluster_dims__``), or the caller's."""
    if compiled is None:
        return replace(geometry, cluster_at_launch=geometry.cluster != (1, 1, 1))
    if geometry.cluster not in ((1, 1, 1), compiled):
        raise UsageError(f"cluster={_shown(geometry.cluster)}, and {name} has __cluster_dims__{_shown(compiled)}",
                         "leave cluster out")  # fmt: skip
    _check_cluster(geometry.grid, compiled)
    return replace(geometry, cluster=compiled)


def check_block(geometry: Geometry, name: str, required: Dim3 | None, largest: Dim3 | None) -> None:
    """Refuse a block that the kernel was not compiled for: CUDA would not launch it."""
    if required is not None and geometry.block != required:
        raise UsageError(f"block={_shown(geometry.block)}, and {name} is compiled for {_shown(required)} (.reqntid)",
                         f"give block={_shown(required)}")  # fmt: skip
    most = math.prod(largest) if largest is not None else geometry.threads
    if geometry.threads > most:
        raise UsageError(f"block={_shown(geometry.block)} has {geometry.threads} threads; {name} is compiled for at "
                         f"most {most} (__launch_bounds__, .maxntid)", "give a smaller block")  # fmt: skip


def _check_cluster(blocks: Dim3, cluster: Dim3) -> None:
    together, most = cluster[0] * cluster[1] * cluster[2], cuda_limits().cluster_blocks
    if together > most:
        raise UsageError(f"cluster={_shown(cluster)} has {together} blocks", f"a cluster has at most {most}")
    if any(extent % side for extent, side in zip(blocks, cluster, strict=True)):
        raise UsageError(f"grid={_shown(blocks)} does not consist of clusters of {_shown(cluster)}",
                         "make each part of the grid a multiple of the cluster's")  # fmt: skip


def _extents(what: str, given: GridLike) -> Dim3:
    parts = [given] if isinstance(given, (int, np.integer)) else list(given) if _is_list(given) else []
    if not 1 <= len(parts) <= 3 or not all(isinstance(part, (int, np.integer)) for part in parts):
        raise UsageError(f"{what}={given!r} is not a number or up to three", f"write {what}=256 or {what}=(32, 8)")
    values = [int(part) for part in parts] + [1] * (3 - len(parts))
    if min(values) < 1:
        raise UsageError(f"{what}={given!r} launches nothing: each part must be at least 1")
    return values[0], values[1], values[2]


def _is_list(given: object) -> bool:
    return isinstance(given, (tuple, list, np.ndarray))


def _shown(size: Dim3) -> str:
    return "(" + ", ".join(map(str, size)) + ")"
