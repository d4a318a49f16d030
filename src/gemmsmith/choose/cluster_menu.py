"""The configurations of wgmma_cluster that are worth considering: thousands, so they are legal by construction.

Asking the kernel whether each is legal would take seconds. Tiles come with as many stages as fit beside the staging of
outputs. The number of slices of K depends on the problem: ``useful_slices``; so do whether a cluster divides K,
``one_wave_of_parts``, and whether it may have eight blocks, ``worth_eight``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.columns import Column, Shapes, Tiles, ceil
from gemmsmith.choose.waves import Chip, tile_grid, used_sms
from gemmsmith.gpus import architecture
from gemmsmith.kernel.renamed import DIRECT, TMA
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW, WARPGROUP
from gemmsmith.problem import ceil_div

NAME = "wgmma_cluster"
# Rows of a tile, its consumer warpgroups, and the most accumulators of a thread that leave room for everything else.
_ROWS = ((64, 1, 128), (128, 1, 160), (128, 2, 128), (192, 3, 96), (256, 2, 208))
_CLUSTERS = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (2, 2))
_CLUSTERS_OF_EIGHT = ((2, 4), (4, 2))  # only for some problems: ``worth_eight``
_STAGES = range(2, 14)
_GROUPS = (4, 8, 16)
# Of small tiles by cluster, other than 8: clusters that start one after another should share the operand that is not
# multicast. In clusters of two rows that is the first one, so tiles run along rows of tiles: 4.5 % less time than in
# groups of eight in the mean of 24 products of one wave on an H200, and never more; in clusters of four rows 5 % less.
_ONE_GROUP = {(4, 1): 1, (4, 2): 1, (2, 1): 1, (1, 2): 16}
_PARTS = (2, 4)  # of K, in a cluster; eight were never the fastest of 26 shapes
_LEAST_STAGES_TO_SEND = 5  # with fewer, what sending saves is lost to waiting for k-tiles
_LARGEST_CLUSTER = 8
_LEAST_PARTED = 64 * 64  # outputs of a tile whose K is divided in a cluster
_LEAST_OUTPUTS = 64 * 32  # of a tile
_NARROW = (8, 16)  # columns of tiles for few rows or columns
_CLUSTERS_OF_NARROW = ((1, 1), (2, 1), (4, 1))
_GROUPED_OUTPUTS = 128 * 128  # of a tile with several orders
_TAIL = 128
_MOST_SLICES = 16
_GPCS = 8  # each takes eight clusters of two
_LEAST_STEPS = 4  # k-tiles of a slice: fewer are not worth the reduction
_SHORT_K = 256  # up to here, clusters of eight lose more than they save where rows are half aligned
_SMS_IN_EIGHTS = 120  # of an H200, that clusters of eight can use


def cluster_configs(layout: str, legal_stages: tuple[int, ...]) -> Iterator[dict[str, int]]:
    """Values of all parameters, in the kernel's order. SLICES is 2 where K has slices: the problem decides how many."""
    for swap in (0, 1):
        k_major = layout[0] == "N" if swap else layout[1] == "T"  # the operand of wgmma's columns
        for rows, consumers, most in _ROWS:
            for width in range(16 if swap else 64, 257, 8 if swap else 16):
                if rows * width > most * WARPGROUP * consumers or rows * width < _LEAST_OUTPUTS:
                    continue
                for cluster in _CLUSTERS + _CLUSTERS_OF_EIGHT:
                    yield from _of_tile(swap, rows, consumers, width, cluster, k_major, legal_stages)


def _of_tile(swap: int, rows: int, consumers: int, width: int, cluster: tuple[int, int], k_major: bool,
             legal_stages: tuple[int, ...]) -> Iterator[dict[str, int]]:  # fmt: skip
    columns = width if k_major else ceil_div(width, BOX) * BOX
    stage = BOX_ROW * (rows + columns) + 16
    staging = consumers * (128 * width if swap else max(64 * width, BOX_ROW * np.gcd(width, BOX)))
    parted = [parts for parts in _PARTS if parts * cluster[0] * cluster[1] <= _LARGEST_CLUSTER]
    parted = parted if rows * width >= _LEAST_PARTED else []
    for staged, slices, parts in ((int(staging), 1, 1), (0, 2, 1), *((0, 1, parts) for parts in parted)):
        room = architecture(90).smem_per_block - staged - 16
        sent = _sent_bytes(rows, width, consumers, parts)
        fits = [[n for n in legal_stages if n in _STAGES and n * stage <= room - bytes_] for bytes_ in (0, sent)]
        send = int(parts > 1 and rows == BOX * consumers and max(fits[1], default=0) >= _LEAST_STAGES_TO_SEND)
        stages = fits[send]
        if not stages or (parts > 1 and not send and 4 * rows * width > max(stages) * BOX_ROW * (rows + width)):
            continue
        tails = (0, _TAIL) if staged and not swap and width % BOX == 0 and width > _TAIL else (0,)
        small = has_one_order(rows, width)
        groups = _GROUPS if staged and not small else (_ONE_GROUP.get(cluster, 8) if small else 8,)
        for tail in tails:
            for group in groups:
                yield _values(rows, width, max(stages), consumers, cluster, group, swap, bool(staged), tail=tail,
                              slices=slices, parts=parts, send=send)  # fmt: skip


def _values(rows: int, width: int, stages: int, consumers: int, cluster: tuple[int, int], group: int, swap: int,
            staged: bool, *, tail: int = 0, slices: int = 1, parts: int = 1, depth: int = 1, send: int = 0
            ) -> dict[str, int]:  # fmt: skip
    """All parameters, in the kernel's order; ``staged``: whether outputs leave by TMA."""
    return {"BM": rows, "BN": width, "STAGES": stages, "CONSUMERS": consumers, "CLUSTER_M": cluster[0],
            "CLUSTER_N": cluster[1], "GROUP": group, "STORE_MODE": TMA if staged else DIRECT,
            "STORE_BOXES": int(staged), "TAIL_BN": tail, "SWAP": swap, "SLICES": slices, "CLUSTER_K": parts,
            "DEPTH": depth, "SEND": send, "SLICE_ORDER": 0}  # fmt: skip


def narrow_configs(layout: str, legal_stages: tuple[int, ...]) -> Iterator[dict[str, int]]:
    """The same for few rows or columns (``Shapes.are_few``), in tiles that are hardly wider: as many rows of the long
    operand in flight as shared memory holds, in stages of one or two k-tiles."""
    for swap, (rows, consumers, _), width in itertools.product((0, 1), _ROWS, _NARROW):
        if not swap and width % 16:
            continue  # not legal
        k_major = layout[0] == "N" if swap else layout[1] == "T"
        staging = consumers * 128 * width if swap else 0
        for cluster, depth in itertools.product(_CLUSTERS_OF_NARROW, (1, 2)):
            stage = depth * BOX_ROW * (rows + (width if k_major else BOX)) + 16
            stages = [n for n in legal_stages if n * stage <= architecture(90).smem_per_block - staging - 16]
            group = _ONE_GROUP.get(cluster, 8)
            yield _values(rows, width, max(stages), consumers, cluster, group, swap, bool(swap), depth=depth)


def has_one_order(rows: int, width: int) -> bool:
    """Whether the menu has one GROUP for such tiles: small ones are for products of few waves, where the order hardly
    matters."""
    return rows * width < _GROUPED_OUTPUTS


def _sent_bytes(rows: int, width: int, consumers: int, parts: int) -> int:
    """Of a block for the sums that others send it, with barriers: what the kernel's formula says."""
    share = ceil_div(rows * width, 4 * WARPGROUP * consumers * parts) * 4 * WARPGROUP * 4
    return (parts - 1) * consumers * share + 32


def useful_slices(shape: Shapes, tiles: Tiles, chip: Chip) -> Column:
    """Slices that fill the GPU once, for configurations with slices; 1 where tiles alone fill half of it."""
    t = tiles
    rows, cols = np.where(t.swap > 0, shape.n, shape.m), np.where(t.swap > 0, shape.m, shape.n)
    down = ceil(ceil(rows / t.bm) / t.cluster_m) * t.cluster_m
    across = ceil(ceil(cols / t.bn) / t.cluster_n) * t.cluster_n
    fill = np.floor(used_sms(tiles, chip) / (down * across * shape.batch))
    deep = np.floor(ceil(shape.k / BOX) / _LEAST_STEPS)
    result: Column = np.where(t.slices > 1, np.maximum(1, np.minimum(np.minimum(fill, deep), _MOST_SLICES)), t.slices)
    return result


def slices_by_gpc(shape: Shapes, tiles: Tiles) -> NDArray[np.bool_]:
    """Where slices are numbered by GPC: where 64 clusters of two are launched, and the clusters of a slice share both
    operands. On an H200 4 to 11 % less time at six such configurations where each GPC gets whole slices, though the
    launch is without PDL, and within 1 % at two; 7 % more where they share one operand. Where a slice is spread over
    several GPCs 3 % less time in the mean of short and long samples, most of it under the power cap: 512x1024x32768 in
    four slices, 1024x1024x16384 in two."""
    grid = tile_grid(shape, tiles)
    whole = (tiles.slices > 1) & (tiles.cluster_m * tiles.cluster_n == 2) & (grid.work == 2 * 8 * _GPCS)
    result: NDArray[np.bool_] = whole & (grid.down >= 2 * tiles.cluster_m) & (grid.across >= 2 * tiles.cluster_n)
    return result


def one_wave_of_parts(shape: Shapes, tiles: Tiles, chip: Chip) -> NDArray[np.bool_]:
    """False where the blocks that divide K in a cluster do not all run at once, or have too little of K."""
    grid = tile_grid(shape, tiles)
    fits = (grid.work <= used_sms(tiles, chip)) & (ceil(shape.k / BOX) >= _LEAST_STEPS * tiles.cluster_k)
    result: NDArray[np.bool_] = (tiles.cluster_k == 1) | fits
    return result


def worth_eight(shape: Shapes, tiles: Tiles) -> NDArray[np.bool_]:
    """Where clusters of eight are considered. Where rows of both operands start on 16 bytes but not all on 32, and K is
    long: TMA needs 3 ns for each such row, and only multicast saves rows. And where one wave holds all tiles of an
    aligned product: of 40 such products on an H200 a cluster of eight won at 14, taking up to 19 % less time, and at
    all six where the corrected model predicts that. In several waves one won at four of 23, taking 3 % less at most."""
    slow = (np.asarray(shape.half_aligned_a) > 0) & (np.asarray(shape.half_aligned_b) > 0)
    slow = slow & (np.asarray(shape.k) > _SHORT_K)
    aligned = np.asarray(shape.unaligned_a + shape.unaligned_b + shape.unaligned_c) == 0
    in_one_wave = shape.m * shape.n * shape.batch <= _SMS_IN_EIGHTS * tiles.bm * tiles.bn
    in_one_wave = in_one_wave & aligned & (tiles.slices == 1) & (tiles.cluster_k == 1)
    result: NDArray[np.bool_] = (tiles.cluster_m * tiles.cluster_n < _LARGEST_CLUSTER) | slow | in_one_wave
    return result


def is_cluster_menu(parameters: Mapping[str, object]) -> bool:
    """Whether a kernel has the parameters of this menu."""
    return {"SWAP", "SLICES", "CLUSTER_K", "CLUSTER_M", "GROUP", "TAIL_BN", "DEPTH", "SEND", "SLICE_ORDER"} <= set(
        parameters
    )
