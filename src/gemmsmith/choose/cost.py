"""How long a Hopper kernel takes, predicted: for shapes that nobody has timed, and to decide what to time first.

    launch + repack + (tiles in waves over the SMs: steps of k × the slowest of tensor cores, L2, load latency;
                       split sums added up; outputs) or the memory bus, whichever is longer

The arithmetic is that of the kernels; ten constants are free (``Constants``) and come from a fit to measured times
(fit.py). Only the order of predictions for one shape matters for the choice; the fit's error is kept with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.gpus import GPU
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.renamed import DIRECT
from gemmsmith.ladder.families.hopper import BOX
from gemmsmith.ladder.families.hopper_store import box_width, staged_boxes
from gemmsmith.problem import Problem

Column = NDArray[np.float64]

TILE_ENDS = 24  # columns that take as long as the beginning and end of a tile; narrow_end.cuh says the same
STEP_BYTES = 128  # of k in one stage: the width of the swizzle, 64 elements of 16 bits
_STEP_K = 64
_WGMMA_ROWS, _WGMMA_K = 64, 16
# Operands of wgmma come out of shared memory at 128 bytes a clock: 2 KB of A and 32 bytes a column of B.
_SMEM_CLOCKS, _SMEM_CLOCKS_A_COLUMN = 16.0, 0.25
_SMS_OF_LARGE_CLUSTERS = 120 / 132  # an H200 holds 30 clusters of four: the SMs of some GPCs are no multiple of four
_SUMS_OF_A_TILE = 64 * 64  # the reduction of so many is what the constant is for
_MEETING = 4.5e-6  # seconds: counters are cleared by a launch, and the last cluster finds the others' sums in memory
# What odd shapes cost besides, set by hand to times of an H200 of 2026-11-15 (docs/performance.md, odd shapes).
_LOOSE_BYTES = 5e10  # a second, of a loose operand, into one SM: 48 times of six shapes, within 14 %
_SHIFTED = 3e-7  # seconds until threads have the low operand's part of a stage: 16x4096x4095, DEPTH 2 and 4
_SECTORS = 0.35  # of 128 bytes that start anywhere, what the first and last sectors of 32 have besides
_COPYING = 1.5e-6  # seconds that copies of operands take besides moving them: 1024x1024x1019 beside 1024 cubed
_ENDS = 512.0  # columns of C that cost as much as the ends of a line: tiles of 192x176, staged 16 columns at a time
_PIECES = 7e-7  # seconds until the last piece of a tile has left: 1024x1021x1024 beside 1024 cubed
_FROM_REGISTERS = 36.0  # times as much again, element by element from registers: 4096x4097x1024
_ONE_BY_ONE = 3.0  # the same of sums that blocks of a cluster share, which are stored along rows
# Set by hand to times of an H200 as well, of 26 shapes and twelve configurations of each.
_CLUSTER = 7e-7  # seconds that a launch of clusters takes longer: 0.5 to 1.1 µs in six shapes of 8 to 40 µs
_HALF_ALIGNED = 3e-9  # seconds for 128 bytes of a half-aligned row: 2.9 to 3.1 where 4104 cubed waits for nothing else
_SHARPNESS = 4.0  # of the soft maximum: two equal limits cost 19 % more than one, as they never overlap perfectly
_OTHER_REGISTERS = 80  # a consumer thread, besides its sums
_MOST_RESIDENT = 8


@dataclass(frozen=True)
class Chip:
    """What the model knows of a GPU without measuring."""

    sms: int
    smem_per_sm: int
    registers_per_sm: int
    l2_bytes: int
    flops_per_clock: int = 4096  # 16-bit, dense, of one SM: H100 data sheet, 989.4 TFLOPS / 132 SMs / 1.83 GHz


@dataclass(frozen=True)
class Constants:
    """The free constants, in seconds and bytes per second. The defaults are estimates, to start a fit from.

    clock      of the tensor cores under load: 770 TFLOPS, what cuBLAS reached in bf16 on an H200, / 132 / 4096
    dram       bytes/s of the memory: the H200's copy bandwidth, measured
    l2         bytes/s out of the L2, all SMs together: about 1.3 times the memory's
    ingress    bytes/s into one SM: 64 bytes a clock
    latency    from asking for a tile to having it: about 2000 clocks of TMA and memory
    step       barriers of one stage: about 20 clocks
    tile       of a tile, besides its steps and its output: the pipeline drains, the next tile begins
    store      bytes/s out of one SM
    launch     a kernel after another in a CUDA graph
    reduction  of 64 x 64 split sums: they are sent, and the last block of the cluster is waited for
    """

    clock: float = 1.42e9
    dram: float = 4.3e12
    l2: float = 5.6e12
    ingress: float = 1.1e11
    latency: float = 1.1e-6
    step: float = 1e-8
    tile: float = 5e-7
    store: float = 2.5e10
    launch: float = 2e-6
    reduction: float = 1e-6


CONSTANTS = tuple(field.name for field in fields(Constants))
H200_DRAM_GBS = 4800.0  # data sheet: other memories are taken to reach the same part of theirs


def chip_of(gpu: GPU, sms: int = 0) -> Chip:
    """The chip of a GPU in the table; ``sms`` where the driver counts others."""
    return Chip(sms or gpu.sms, gpu.smem_per_sm, gpu.registers_per_sm, gpu.l2_bytes)


def with_memory_of(constants: Constants, gpu: GPU) -> Constants:
    """An H200's constants for a GPU with the same SMs and another memory (H100)."""
    return replace(constants, dram=constants.dram * gpu.dram_gbs / H200_DRAM_GBS)


@dataclass(frozen=True)
class Shapes:
    """Problems as columns of numbers, or as one number each.

    unaligned  bytes of A and B that must be copied first, or be taken loose; those of C are written in pieces
    half       1 where rows of A or B start on 16 bytes, but not all on 32
    across     1 where rows of A or B, as stored, run across k
    """

    m: Any
    n: Any
    k: Any
    batch: Any
    out_bytes: Any
    unaligned_a: Any
    unaligned_b: Any
    unaligned_c: Any
    half_a: Any = 0.0
    half_b: Any = 0.0
    across_a: Any = 0.0
    across_b: Any = 0.0


@dataclass(frozen=True)
class Tiles:
    """Configurations as columns of numbers."""

    bm: Column
    bn: Column
    stages: Column
    depth: Column
    consumers: Column
    cluster_m: Column
    cluster_n: Column
    group: Column
    split: Column
    clusters: Column
    ordered: Column
    swap: Column
    loose: Column
    persistent: Column
    span: Column  # columns that are staged at once on their way to C; 0: none are
    box: Column  # columns of what the copy engine stores at once
    narrow: Column  # columns of the tiles at the right end of C; 0: there are no others

    def unaligned(self, shapes: Shapes) -> tuple[Any, Any]:
        """Bytes of the high and of the low operand, where their rows do not start on 16 bytes."""
        a, b = shapes.unaligned_a, shapes.unaligned_b
        return np.where(self.swap > 0, b, a), np.where(self.swap > 0, a, b)

    def copied(self, shapes: Shapes) -> Any:
        """Bytes that each configuration must have copied first."""
        high, low = self.unaligned(shapes)
        return np.where(self.loose > 0, 0, high) + np.where(self.loose > 1, 0, low)

    def spares_copies(self, shapes: Shapes) -> NDArray[np.bool_]:
        """Whether an operand is loose for the sake of the copy, rather than for nothing."""
        high, low = self.unaligned(shapes)
        result: NDArray[np.bool_] = np.choose(self.loose.astype(int), (True, high > 0, low > 0))
        return result


# What a kernel does that has no such parameter: the file's own order of tiles is that of one row after another.
_ABSENT = {"STAGES": 1, "DEPTH": 1, "CONSUMERS": 1, "CLUSTER_M": 1, "CLUSTER_N": 1, "GROUP": 1, "SPLIT": 1,
           "CLUSTERS": 1, "DETERMINISTIC": 1, "SWAP": 0, "UNALIGNED_OPERANDS": 0}  # fmt: skip


def tiles_of(configs: Sequence[Mapping[str, int]]) -> Tiles:
    """Columns of configurations; a kernel with GROUP is persistent, one without starts a block for every tile."""

    def column(name: str) -> Column:
        return np.array([config.get(name, _ABSENT.get(name, 0)) for config in configs], np.float64)

    persistent = np.array(["GROUP" in config for config in configs], np.float64)
    span, box = (np.array([of(config) for config in configs], np.float64) for of in (_span, _box))
    return Tiles(column("BM"), column("BN"), column("STAGES"), column("DEPTH"), column("CONSUMERS"),
                 column("CLUSTER_M"), column("CLUSTER_N"), column("GROUP"), column("SPLIT"), column("CLUSTERS"),
                 column("DETERMINISTIC"), column("SWAP"), column("UNALIGNED_OPERANDS"), persistent, span, box,
                 column("TAIL_BN"))  # fmt: skip


def _span(config: Mapping[str, int]) -> int:
    if config.get("STORE_MODE") == DIRECT:
        return 0
    if "STORE_MODE" not in config or config["BN"] % 16:  # a kernel that stages in another way, or no such tile
        return config.get("BN", 1)
    whole = Config(tuple(config.items()))
    return staged_boxes(whole) * box_width(whole)


def _box(config: Mapping[str, int]) -> int:
    if not config.get("STORE_MODE") or config["BN"] % 16:
        return BOX
    return box_width(Config(tuple(config.items())))


def shape_of(problem: Problem, alignment: int = 0) -> Shapes:
    """One problem; ``alignment`` has bit 0 set where rows of A do not start on 16 bytes, bit 1 for B, bit 2 for C, and
    bit 3 where those of A start on 16 bytes but not all on 32, bit 4 for B."""
    (many_a, many_b, _), size, of_c = problem.copies, problem.dtype.itemsize, problem.out_dtype.itemsize
    return Shapes(problem.m, problem.n, problem.k, problem.batch, of_c,
                  many_a * problem.m * problem.k * size * (alignment & 1),
                  many_b * problem.n * problem.k * size * (alignment >> 1 & 1),
                  problem.batch * problem.m * problem.n * of_c * (alignment >> 2 & 1),
                  alignment >> 3 & 1, alignment >> 4 & 1, int(problem.trans_a), int(not problem.trans_b))  # fmt: skip


def predicted_seconds(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants) -> Column:
    """Seconds of each configuration on its problem, launched from a CUDA graph with cold caches."""
    c, t = constants, tiles
    rows, cols = np.where(t.swap > 0, shapes.n, shapes.m), np.where(t.swap > 0, shapes.m, shapes.n)
    down = _ceil(_ceil(rows / t.bm) / t.cluster_m) * t.cluster_m
    across = _ceil(_ceil(cols / t.bn) / t.cluster_n) * t.cluster_n
    work = down * across * shapes.batch * t.split * t.clusters
    steps = np.maximum(1, _ceil(_ceil(shapes.k / (_STEP_K * t.depth)) / (t.split * t.clusters))) * t.depth

    sms = _used_sms(tiles, chip)
    resident = np.where(t.persistent > 0, 1, _resident(tiles, chip))
    together = np.minimum(resident, _ceil(work / sms))  # blocks that share an SM
    waves = _ceil(work / (sms * resident))
    busy = np.minimum(sms, work)
    tile = _tile_seconds(shapes, tiles, chip, constants, together, busy, steps)
    on_sms = c.latency + waves * tile
    if np.any(t.narrow):
        narrow = replace(tiles, bn=np.where(t.narrow > 0, t.narrow, t.bn))
        wide, after = _waves_of_either_width(shapes, tiles, chip)
        mixed = wide * tile + after * _tile_seconds(shapes, narrow, chip, constants, together, busy, steps)
        on_sms = np.where(t.narrow > 0, c.latency + mixed, on_sms)

    inputs = (rows + cols) * shapes.k * 2.0 * shapes.batch
    written = rows * cols * shapes.batch * shapes.out_bytes
    traffic = np.maximum(inputs, _streamed(shapes, tiles, rows, cols, down, across, sms * resident, chip)) + written
    repacked = t.copied(shapes)
    repack = np.where(repacked > 0, _COPYING + c.launch + 2.0 * repacked / c.dram, 0.0)
    met = np.where(t.clusters > 1, _MEETING, 0.0) + np.where(t.cluster_m * t.cluster_n > 1, _CLUSTER, 0.0)
    total: Column = c.launch + met + _soft_maximum(on_sms, traffic / c.dram) + repack
    return total


def _tile_seconds(shapes: Shapes, tiles: Tiles, chip: Chip, constants: Constants, together: Column, busy: Column,
                  steps: Column) -> Column:  # fmt: skip
    """Of all ``steps`` of a tile, its sums and its outputs; ``together`` share an SM, and ``busy`` SMs the L2."""
    c, t = constants, tiles
    full_rate = 2 * _WGMMA_ROWS * _WGMMA_K * t.bn / chip.flops_per_clock
    clocks = np.maximum(full_rate, _SMEM_CLOCKS + _SMEM_CLOCKS_A_COLUMN * t.bn)
    mma = t.bm / _WGMMA_ROWS * (_STEP_K / _WGMMA_K) * clocks / c.clock * together
    fetched = STEP_BYTES * (t.bm / t.cluster_n + t.bn / t.cluster_m) * together * busy
    arriving = STEP_BYTES * (t.bm + t.bn) * together
    ahead = np.maximum(1, t.stages - 1) * t.depth  # slices on their way while one stage is multiplied
    step = _soft_maximum(mma, fetched / c.l2, arriving / c.ingress, c.latency / ahead)
    step = np.maximum(step, _half_aligned(shapes, tiles) * together) + c.step / t.depth
    # A loose operand comes by loads of threads, in whole sectors of its lines, and goes through registers.
    lines = STEP_BYTES * t.bm * (1.0 + _SECTORS / t.depth) * together * np.minimum(1.0, shapes.k / _STEP_K)
    step = step + np.where(t.loose > 0, lines / _LOOSE_BYTES, 0.0) + np.where(t.loose > 1, _SHIFTED / t.depth, 0.0)
    outputs = t.bm * t.bn * together
    stored = outputs / t.split * shapes.out_bytes / c.store
    # In pieces of 16 bytes, with up to eight elements one by one for every line that is staged; or all one by one.
    staged = np.where(t.span > 0, _ENDS / np.maximum(t.span, 1.0), _FROM_REGISTERS)
    pieces = np.where(t.persistent > 0, stored * staged + _PIECES, stored * np.where(t.swap, 0.0, _ONE_BY_ONE))
    # The copy engine takes as long for a row of a narrow box as for one of 64 columns.
    of_16_bits = np.asarray(shapes.out_bytes) == 2
    boxes = stored * np.where(of_16_bits, BOX / t.box, 1.0)
    stored = np.where(of_16_bits & (np.asarray(shapes.unaligned_c) > 0), stored + pieces, boxes)
    # Sums of a kernel that splits go through shared memory, its own and its neighbours'.
    added = np.where(t.persistent > 0, 0.0, outputs * 4.0 / c.ingress)
    added = added + np.where(t.split > 1, c.reduction * outputs / _SUMS_OF_A_TILE, 0.0)
    added = added + np.where(
        t.clusters > 1, outputs / t.split * 4.0 * np.where(t.ordered > 0, t.clusters, 1.0) / c.ingress, 0.0
    )
    result: Column = steps * step + c.tile + added + stored
    return result


def _used_sms(tiles: Tiles, chip: Chip) -> Column:
    """Those that whole clusters leave."""
    cluster = tiles.cluster_m * tiles.cluster_n * tiles.split  # the parts of a split are a cluster as well
    usable = np.where(cluster > 2, chip.sms * _SMS_OF_LARGE_CLUSTERS, chip.sms)
    result: Column = np.floor(usable / cluster) * cluster
    return result


def has_narrow_tiles(shapes: Shapes, tiles: Tiles, chip: Chip) -> NDArray[np.bool_]:
    """Whether a configuration computes any of its problem in narrow tiles."""
    result: NDArray[np.bool_] = (tiles.narrow > 0) & (_waves_of_either_width(shapes, tiles, chip)[1] > 0)
    return result


def _waves_of_either_width(shapes: Shapes, tiles: Tiles, chip: Chip) -> tuple[Column, Column]:
    height = _ceil(_ceil(shapes.m / tiles.bm) / tiles.cluster_m) * shapes.batch
    return _two_widths(tiles, shapes.n, height, _used_sms(tiles, chip) / (tiles.cluster_m * tiles.cluster_n))


def _two_widths(tiles: Tiles, cols: Any, height: Column, clusters: Column) -> tuple[Column, Column]:
    """Waves of wide and of narrow tiles, as narrow_end.cuh divides ``cols`` columns of C into them: the least time of
    ``clusters`` that take tiles in turn, where a column of clusters' tiles has ``height`` of them."""
    span, narrow = tiles.bn * tiles.cluster_n, np.where(tiles.narrow > 0, tiles.narrow, tiles.bn)
    workers = np.minimum(np.floor(clusters), height * _ceil(cols / (narrow * tiles.cluster_n)))
    waves = _ceil(_ceil(cols / span) * height / workers)
    best, after, least = waves, np.zeros_like(waves), waves * (tiles.bn + TILE_ENDS)
    for fewer in (1, 2, 3):
        wide = np.floor(np.maximum(0, waves - fewer) * workers / height)
        rest = _ceil(np.maximum(0, cols - wide * span) / (narrow * tiles.cluster_n))
        first = _ceil(wide * height / workers)
        then = _ceil((wide + rest) * height / workers) - first
        time = first * (tiles.bn + TILE_ENDS) + then * (narrow + TILE_ENDS)
        better = (time < least) & (fewer <= waves)
        best, after = np.where(better, first, best), np.where(better, then, after)
        least = np.where(better, time, least)
    return best, after


def _half_aligned(shapes: Shapes, tiles: Tiles) -> Column:
    """Seconds in which the copy engine of an SM brings a block's part of a slice where rows are half aligned.

    It takes as long for every 128 bytes of a row, one after another: for each row of the tile; or, where rows run
    across k, for each row of k in each box. What another block of the cluster brings costs this one nothing.
    """

    def pieces(side: Column, across: Any) -> Column:
        return np.where(across, np.minimum(_STEP_K, shapes.k) * _ceil(side / BOX), side)

    swapped = tiles.swap > 0
    rows = np.minimum(np.where(swapped, tiles.bn, tiles.bm), shapes.m)
    cols = np.minimum(np.where(swapped, tiles.bm, tiles.bn), shapes.n)
    of_a = pieces(rows, shapes.across_a) / np.where(swapped, tiles.cluster_m, tiles.cluster_n)
    of_b = pieces(cols, shapes.across_b) / np.where(swapped, tiles.cluster_n, tiles.cluster_m)
    result: Column = (shapes.half_a * of_a + shapes.half_b * of_b) * _HALF_ALIGNED
    return result


def _resident(tiles: Tiles, chip: Chip) -> Column:
    """Blocks that an SM holds at once, by shared memory and registers."""
    smem = tiles.stages * tiles.depth * (tiles.bm + tiles.bn) * STEP_BYTES + 4 * tiles.bm * tiles.bn + 1024
    registers = tiles.bm * tiles.bn + (tiles.consumers + 1) * 128 * _OTHER_REGISTERS
    fits = np.minimum(chip.smem_per_sm // smem, chip.registers_per_sm // registers)
    result: Column = np.clip(fits, 1, _MOST_RESIDENT)
    return result


def _streamed(shapes: Shapes, tiles: Tiles, rows: Column, cols: Column, down: Column, across: Column, slots: Column,
              chip: Chip) -> Column:  # fmt: skip
    """Bytes of inputs that the memory must send where they do not all fit the L2.

    Blocks that run at once share the rows and columns of their tiles; the next ones find those gone.
    """
    at_once = np.maximum(1, np.minimum(slots / tiles.split, down * across))
    group = np.minimum(tiles.group, down)
    columns = np.minimum(_ceil(at_once / group), across)
    wave = (np.minimum(group * tiles.bm, rows) + np.minimum(columns * tiles.bn, cols)) * shapes.k * 2.0
    inputs = (rows + cols) * shapes.k * 2.0
    once = np.where(inputs <= chip.l2_bytes / 2, inputs, wave * (down * across / at_once))
    result: Column = once * shapes.batch
    return result


def _ceil(values: Any) -> Column:
    result: Column = np.ceil(values)
    return result


def _soft_maximum(*columns: Any) -> Column:
    """Slightly above the largest where others are near it."""
    largest = columns[0]
    for column in columns[1:]:
        largest = np.maximum(largest, column)
    result: Column = largest * sum((column / largest) ** _SHARPNESS for column in columns) ** (1 / _SHARPNESS)
    return result
