"""A winner that was measured with another number of rows, where its tiles cover both products alike.

There a configuration takes as long as it was measured to. With more rows nothing else takes less than it took with
fewer, so what won still wins. With fewer rows another configuration may do with fewer tiles: the winner is used unless
the cost model expects the best to gain more than 1.5 %. It is not used for less than half as many rows where these are
few: 48 rows' winner at 4x12288x4096 takes 31.9 µs, 96 rows of B and 16 of A 25.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from gemmsmith.choose import narrow
from gemmsmith.choose.candidates import ranked
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.key import ShapeKey, alignment, alignment_if_tight, contiguous, is_fastest
from gemmsmith.choose.models import Winners
from gemmsmith.choose.table import Entry
from gemmsmith.choose.waves import Chip
from gemmsmith.problem import ceil_div

_FEW, _ALIKE = 64, 16  # rows; up to 16 take as long as one
_GAINS = 0.985  # of the predicted best time with more rows: below this another configuration is taken


def winner_of_rows(key: ShapeKey, winners: Winners, best: Callable[[ShapeKey], float]) -> Entry | None:
    """Of the entries that differ in rows only and have as many tiles, the one with the nearest number; None if there is
    none, or if fewer rows allow a faster one. ``best`` gives the least predicted time of a product."""
    near = [(abs(math.log(other.m / key.m)), other, entry) for other, entry in winners.items()
            if other.n == key.n and other.k == key.k and has_as_many_tiles(key, other, entry)]  # fmt: skip
    for _, other, entry in sorted(near, key=lambda each: each[0]):
        too_many = key.m <= _FEW and other.m > max(_ALIKE, 2 * key.m)
        if key.m >= other.m or (not too_many and best(key) >= best(other) * _GAINS):
            return entry
    return None


def has_as_many_tiles(key: ShapeKey, other: ShapeKey, entry: Entry) -> bool:
    """Whether products differ in rows only, load alike, and have the same tiles in this configuration."""
    alike = (key.kind, key.out_bytes, key.layout, key.n, key.k, key.batch) == (
        other.kind, other.out_bytes, other.layout, other.n, other.k, other.batch
    )  # fmt: skip
    if not alike or alignment_if_tight(contiguous(key)) != alignment_if_tight(contiguous(other)):
        return False
    config = dict(entry.config)
    side, cluster = ("BN", "CLUSTER_N") if config.get("SWAP") else ("BM", "CLUSTER_M")
    rows = config[side] * config.get(cluster, 1)
    return ceil_div(key.m, rows) == ceil_div(other.m, rows)


@cache
def least_seconds(key: ShapeKey, chip: Chip, constants: Constants) -> float:
    """The least predicted time of a product."""
    problem = contiguous(key)
    found = ranked(problem, chip, constants, within=1.0, deterministic=not is_fastest(key))
    few = narrow.streaming(problem, chip, alignment(problem))
    return min([each.seconds for each in found[:1]] + ([few.seconds] if few is not None else []), default=math.inf)
