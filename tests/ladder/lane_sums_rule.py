"""What gemv must compute, bit for bit: sums of lanes, warps and a cluster's blocks, each by fma in ascending k, added
in a fixed order.

Written from the rule alone. ``config`` has ALIGNED as the operands allow it.
"""

from __future__ import annotations

import numpy as np

from gemmsmith.fills import Array
from gemmsmith.kernel.config import Config
from gemmsmith.problem import Problem
from gemmsmith.verify.oracles.fma import F32, fma32, mul32

WARP = 32


def lane_sums_reference(problem: Problem, a: Array, b: Array, c: Array, *, config: Config) -> F32:
    """C of one product."""
    scaled = np.zeros(problem.c_shape, np.float32)
    if problem.alpha != 0 and problem.k > 0:
        left, right = a.T if problem.trans_a else a, b.T if problem.trans_b else b
        k_major = problem.trans_b if config["BM"] < config["BN"] else not problem.trans_a
        parts, step = _parts(config, k_major)
        steps, blocks = -(-problem.k // step), config["CLUSTER_K"]
        total: F32 | None = None
        for rank in range(blocks):
            begin, end = (steps * i // blocks * step for i in (rank, rank + 1))
            sums = [_of_part(left, right, range(begin, min(end, problem.k)), part, parts, config, k_major)
                    for part in range(parts)]  # fmt: skip
            block = _in_turn(sums)
            total = block if total is None else _added(total, block)
        assert total is not None
        scaled = mul32(np.full(1, problem.alpha), total)
    return scaled if problem.beta == 0 else fma32(np.full(1, problem.beta), c, scaled)


def _parts(config: Config, k_major: bool) -> tuple[int, int]:
    """Parts that a block has, and the k of one round."""
    rows = max(config["BM"], config["BN"])
    warps = rows // config["ROWS"] * config["WARPS_K"]
    step = 128 * config["WARPS_K"] * config["LOADS"] // config["ROWS"]
    lanes = min(WARP, rows // 4 if config["ALIGNED"] else rows)
    return (config["WARPS_K"] if k_major else warps * (WARP // lanes)), step


def _of_part(left: Array, right: Array, ks: range, part: int, parts: int, config: Config, k_major: bool) -> F32:
    """Chunks take turns among the parts. Of K-major operands a chunk is 128 of k, of which lanes have four each."""
    if not k_major:
        return _serial(left, right, ks[part::parts])
    lanes: list[list[int]] = [[] for _ in range(WARP)]
    for k in ks:
        chunk, at = divmod(k - ks.start, 128)
        if chunk % parts == part:
            lanes[at // 4 if config["ALIGNED"] else at % WARP].append(k)
    sums = [_serial(left, right, each) for each in lanes]
    while len(sums) > 1:  # lanes that differ in the highest bit first
        half = len(sums) // 2
        sums = [_added(one, other) for one, other in zip(sums[:half], sums[half:], strict=True)]
    return sums[0]


def _serial(left: Array, right: Array, ks: list[int] | range) -> F32:
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for k in ks:
        total = fma32(left[:, k, None], right[None, k, :], total)
    return total


def _in_turn(sums: list[F32]) -> F32:
    total = sums[0]
    for each in sums[1:]:
        total = _added(total, each)
    return total


def _added(one: F32, other: F32) -> F32:
    return fma32(np.ones(1), one, other)
