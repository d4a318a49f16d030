"""The shapes on which ``check`` runs a user's kernel: whole tiles, few of them, with M, N and K different."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gemmsmith.errors import GemmsmithError, TooLongError
from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.shapes import Shape

_LEAST = 64  # rows and columns: several small tiles
_DEPTH = 64  # a multiple of nearly every k-tile
_MOST_WORK = 2**23  # multiply-adds of one simulated launch: some seconds
_SAMPLE = 3  # blocks
_IDLE = 64  # threads for each output: more are idle
_MOST_STEPS = 1 << 26  # threads times K
_DEEPER = 256  # for kernels whose pipeline needs more k-tiles
_TILES = (8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 320, 384, 512)
_FEW = (1, 2, 3, 4, 5, 6)
_TIMES = (2, 3, 5, 7, 16)
_OTHER = 7680  # of the other extent: a multiple of every tile above but multiples of 7, 9, 11 and 13
_USUAL = 32


@dataclass(frozen=True)
class CheckShapes:
    """base: most trials. distinct: M, N and K all different, with several k-tiles."""

    base: Shape
    distinct: Shape

    @property
    def probes(self) -> list[Shape]:
        """Shapes that decide what the kernel computes."""
        m, n, k = self.distinct
        return [self.distinct, (m, n, 2 * k if self.base == _FOR_FEW_THREADS.base else max(_DEEPER, 2 * k))]


# A kernel whose few threads compute all of C has no pipeline of tiles, and takes the simulator long.
_FOR_FEW_THREADS = CheckShapes((8, 8, 8), (8, 12, 20))
_FEW_THREADS = 31  # less than a warp
# A block with a thread for each output has no launch for larger sizes; a grid of M·N by M·N blocks takes minutes.
_FOR_MANY_THREADS = CheckShapes((16, 16, _DEPTH), (16, 32, 3 * _DEPTH))
_MANY_THREADS = 1 << 22  # a block of 1,024 for each output of the usual sizes


def tile_of_grid(spec: KernelSpec, config: Config, tiles: tuple[int, ...] = _TILES) -> tuple[int, int]:
    """Rows and columns of C per block: the smallest of ``tiles`` whose multiples need as many times the blocks."""

    def blocks(m: int, n: int) -> int:
        try:
            return spec.geometry(_problem(spec, (m, n, _DEPTH)), config).blocks
        except GemmsmithError:
            return 0

    def fits(tile: int, rows: bool) -> bool:
        one = blocks(tile, _OTHER) if rows else blocks(_OTHER, tile)
        return one > 0 and all(
            (blocks(tile * times, _OTHER) if rows else blocks(_OTHER, tile * times)) == one * times for times in _TIMES
        )

    found = [next((tile for tile in tiles if fits(tile, rows)), 0) for rows in (True, False)]
    if not any(found):  # other versions are launched for wide and for tall products
        found = [next((tile for tile in tiles if _is_side(tile, blocks)), 0)] * 2
    boxes = box_sides(spec, config) if spec.tensor_maps is not None and not all(found) else (0, 0)
    bm, bn = (tile or box or _USUAL for tile, box in zip(found, boxes, strict=True))
    return bm, bn


def _is_side(tile: int, blocks: Callable[[int, int], int]) -> bool:
    """Whether squares of ``tile`` rows and columns need a block each."""
    one = blocks(tile, tile)
    return one > 0 and all(blocks(tile * times, tile * times) == one * times**2 for times in _TIMES)


def block_tile(spec: KernelSpec, config: Config) -> tuple[int, int]:
    """The same where a block may have a row, or a few: trials of several rows take several such blocks."""
    return tile_of_grid(spec, config, (*_FEW, *_TILES))


def box_sides(spec: KernelSpec, config: Config) -> tuple[int, int]:
    """Rows of A and columns of B in a box of TMA, of a kernel whose grid does not tell its tile; 0: not known."""
    assert spec.tensor_maps is not None
    sides: dict[str, int] = {}
    whole = _problem(spec, (_OTHER, _OTHER, _OTHER))
    for operand, change in (("A", {"m": 2 * _OTHER}), ("B", {"n": 2 * _OTHER})):
        try:
            maps = [(made, spec.tensor_maps(whole.with_(**change), config)[name])
                    for name, made in spec.tensor_maps(whole, config).items() if made.operand == operand]  # fmt: skip
        except GemmsmithError:
            return 0, 0
        for one, other in maps:
            grown = [box for box, a, b in zip(one.box, one.extents, other.extents, strict=True) if a != b]
            sides[operand] = max(sides.get(operand, 0), grown[0] if len(grown) == 1 else 0)
    return sides.get("A", 0), sides.get("B", 0)


def _problem(spec: KernelSpec, shape: Shape) -> Problem:
    m, n, k = shape
    layout = spec.layouts[0]
    return Problem(m, n, k, dtype=spec.dtypes[0], out_dtype=spec.out_dtypes[0], trans_a=layout[0] == "T",
                   trans_b=layout[1] == "T")  # fmt: skip


def sampled_blocks(spec: KernelSpec, config: Config, shape: Shape) -> tuple[int, ...] | None:
    """Of a kernel whose size is fixed and large: the blocks to simulate; None: all of them.

    Raises where even these would take minutes.
    """
    work = math.prod(shape)
    if not spec.signature.fixed or work <= _MOST_WORK:
        return None
    total = spec.geometry(_problem(spec, shape), config).blocks
    if _SAMPLE * work / total > 4 * _MOST_WORK:
        m, n, k = shape
        raise TooLongError(
            f"{spec.entry} is compiled for {m}x{n}x{k} alone, which would take the simulator too long",
            "make its constants smaller (with -D, if the file allows it), or run it on a GPU: --device gpu",
        )
    return sample_of(total)


def refuse_idle_blocks(spec: KernelSpec, config: Config, shape: Shape) -> None:
    """Raise where most threads can have no output, and simulating them would take minutes: a macro without brackets,
    ``(a + b - 1) / b`` with ``b = 6 * 32``, makes such a grid."""
    try:
        launch = spec.geometry(_problem(spec, shape), config)
    except GemmsmithError:
        return
    if getattr(spec.geometry, "one_grid", ""):  # for its own size
        return
    m, n, k = shape
    started = launch.blocks * launch.threads
    if started > _IDLE * m * n and started * k > _MOST_STEPS:
        raise TooLongError(
            f"{spec.signature.entry}: its launch starts {launch.blocks:,} blocks of {launch.threads:,} threads for the "
            f"{m * n:,} outputs of {m}x{n}x{k}, which would take the simulator too long",
            "look at the grid in host code (a macro may lack brackets), or give one: --grid 'ceil(N/32),ceil(M/32)'",
        )


def sample_of(total: int) -> tuple[int, ...]:
    """The first of so many blocks, the last and one between."""
    return tuple(sorted({0, total // 2 + 1, total - 1} & set(range(total))))


def check_shapes(spec: KernelSpec, config: Config) -> CheckShapes:
    """The shapes for a kernel whose user gave none, in the user's own M, N and K."""
    own = spec.read_as(spec.signature.transposed(), "NN") if spec.signature.column_major else spec
    if own.signature.fixed:
        fixed = dict(own.signature.fixed)
        shape = fixed["M"], fixed["N"], fixed["K"]
        return CheckShapes(shape, shape)
    if _has_few_threads(own, config):
        base = _FOR_FEW_THREADS.base
        return CheckShapes(base, base) if own.signature.square else _FOR_FEW_THREADS
    if _has_many_threads(own, config):
        side = _FOR_MANY_THREADS.base[0]
        return CheckShapes((side, side, side), (side, side, side)) if own.signature.square else _FOR_MANY_THREADS
    bm, bn = tile_of_grid(own, config)
    if own.signature.square:
        side = math.lcm(bm, bn)
        side *= ceil_div(_LEAST, side)
        return CheckShapes((side, side, side), (side, side, side))
    m, n = bm * ceil_div(_LEAST, bm), bn * ceil_div(_LEAST, bn)
    wide = 2 * n if 2 * n != m else 3 * n
    others = [(rows, columns) for rows, columns in ((2 * m, 3 * n), (3 * m, 2 * n), (3 * m, 4 * n)) if rows != columns]
    sides = next((sides for sides in ((m, wide), *others) if _has_launch(own, config, _problem(own, (*sides, _DEPTH)))),
                 (m, wide))  # fmt: skip
    deep = next(k for k in (2 * _DEPTH, 3 * _DEPTH, 5 * _DEPTH) if k not in sides)
    return CheckShapes((m, n, _DEPTH), (*sides, deep))


def _has_few_threads(spec: KernelSpec, config: Config) -> bool:
    try:
        launch = spec.geometry(_problem(spec, (_LEAST, _LEAST, _DEPTH)), config)
    except GemmsmithError:
        return False
    return launch.blocks * math.prod(launch.block) <= _FEW_THREADS


def _has_many_threads(spec: KernelSpec, config: Config) -> bool:
    """Whether the usual sizes have more threads in a block than a GPU allows, or very many blocks, and small ones have
    not."""
    if spec.is_rung:
        return False
    larger = max(_FOR_MANY_THREADS.distinct[:2])
    try:
        usual, small = (spec.geometry(_problem(spec, shape), config)
                        for shape in ((_LEAST, _LEAST, _DEPTH), (larger, larger, larger)))  # fmt: skip
    except GemmsmithError:
        return False

    def are_many(launch: Geometry) -> bool:
        return launch.threads > cuda_limits().threads_per_block or launch.blocks * launch.threads > _MANY_THREADS

    return are_many(usual) and not are_many(small)


def _has_launch(spec: KernelSpec, config: Config, problem: Problem) -> bool:
    try:
        spec.geometry(problem, config)
    except GemmsmithError:
        return False
    return True


def work_of(problem: Problem) -> int:
    """Multiply-adds; at least one."""
    return max(1, problem.batch * problem.m * problem.n * problem.k)


def few_tiles(spec: KernelSpec, config: Config, problem: Problem) -> Problem:
    """Two or three tiles instead of more, M, N and K all different and K as it is: for kernels that take seconds."""
    bm, bn = tile_of_grid(spec, config)
    n = next(extent for extent in (2 * bn, 3 * bn, bn, 4 * bn) if extent not in (bm, problem.k))
    smaller = problem.with_(m=bm, n=n)
    less = bm != problem.k and work_of(smaller) < work_of(problem)
    return smaller if less and _has_launch(spec, config, smaller) else problem


def distinct_shape(shape: Shape) -> Shape | None:
    """Whole tiles with M, N and K all different: a square hides swapped extents. None where they differ already."""
    m, n, k = shape
    if len({m, n, k}) == 3:
        return None
    # Half of K costs the least; half of a small K may not be a multiple of the tile any more.
    halves = [(m, 2 * n, k // 2)] if k % 128 == 0 else []
    shapes = [*halves, (m, 2 * n, 3 * k), (2 * m, n, 3 * k), (2 * m, 3 * n, k)]
    return next((shape for shape in shapes if len(set(shape)) == 3), None)
