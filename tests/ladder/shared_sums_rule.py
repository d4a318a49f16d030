"""What simt_best must compute, bit for bit: sums of teams, sharers and a cluster's blocks, each by fma in ascending k,
added in order.

Written from the rule alone: where a tile is shared, and where in K, is computed here once more, k-tile by k-tile.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gemmsmith.fills import Array
from gemmsmith.kernel.config import Config
from gemmsmith.problem import Problem
from gemmsmith.verify.oracles.fma import F32, fma32, mul32


def shared_sums_reference(problem: Problem, a: Array, b: Array, c: Array, *, config: Config) -> F32:
    """C of one product, in tiles of BM x BN."""
    scaled = np.zeros(problem.c_shape, np.float32)
    if problem.alpha != 0 and problem.k > 0:
        left, right = a.T if problem.trans_a else a, b.T if problem.trans_b else b
        k_tiles = -(-problem.k // config["BK"])
        for number, (rows, columns) in enumerate(tiles_in_order(problem, config)):
            total = None
            for begin, end in cuts(problem, config, number, k_tiles):
                part = _of_teams(left[rows], right[:, columns], range(begin * config["BK"], end * config["BK"]), config)
                total = part if total is None else fma32(np.ones(1), total, part)
            assert total is not None
            scaled[rows, columns] = mul32(np.full(1, problem.alpha), total)
    return scaled if problem.beta == 0 else fma32(np.full(1, problem.beta), c, scaled)


def tiles_in_order(problem: Problem, config: Config) -> list[tuple[slice, slice]]:
    """Down strips of GROUP rows of tiles, column by column within one."""
    bm, bn, group = config["BM"], config["BN"], config["GROUP"]
    down, across = -(-problem.m // bm), -(-problem.n // bn)
    places = [
        (i, j) for top in range(0, down, group) for j in range(across) for i in range(top, min(top + group, down))
    ]
    return [(slice(i * bm, (i + 1) * bm), slice(j * bn, (j + 1) * bn)) for i, j in places]


def cuts(problem: Problem, config: Config, number: int, k_tiles: int) -> list[tuple[int, int]]:
    """Begin and end, in k-tiles, of the parts of a tile."""
    tiles, sharers, parts = len(tiles_in_order(problem, config)), config["SHARERS"], config["CLUSTER_K"]
    if parts > 1:  # of a cluster's blocks; some may be empty
        return [(k_tiles * part // parts, k_tiles * (part + 1) // parts) for part in range(parts)]
    shared = tiles % sharers if sharers and sharers * problem.batch <= 1024 else 0
    if number < tiles - shared:
        return [(0, k_tiles)]
    length, start = shared * k_tiles, (number - (tiles - shared)) * k_tiles
    lengths = min(sharers, length)
    inside = {length * n // lengths - start for n in range(lengths)}
    bounds = sorted({0, k_tiles} | {cut for cut in inside if 0 < cut < k_tiles})
    return list(pairwise(bounds))


def _of_teams(left: Array, right: Array, ks: range, config: Config) -> F32:
    """Team t has the steps t, t + TEAMS, ... of every k-tile; their sums are added to the first team's in order."""
    total: F32 | None = None
    for team in range(config["TEAMS"]):
        part = np.zeros((left.shape[0], right.shape[1]), np.float32)
        for k in ks[team :: config["TEAMS"]]:
            if k < left.shape[1]:
                part = fma32(left[:, k, None], right[None, k, :], part)
        total = part if total is None else fma32(np.ones(1), total, part)
    assert total is not None
    return total
