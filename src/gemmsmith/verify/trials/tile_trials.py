"""Trials of many tiles: where blocks take one after another, and where host code's grid changes with the size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from gemmsmith.errors import GemmsmithError
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.harness import no_launch
from gemmsmith.verify.trials.chosen_launches import ASKED_TILES, REST, launch_changes
from gemmsmith.verify.trials.exact_trial import exact_trial
from gemmsmith.verify.trials.extents import legal_grid, with_extent
from gemmsmith.verify.trials.multiples import round_up
from gemmsmith.verify.trials.trial import MORE_TILES, Trial
from gemmsmith.verify.trials.trial_subject import Subject

MOST_WORK = 2**23  # multiply-adds of a launch that is run as a whole: some seconds
_FAR = (70_000, 9_000)  # rows or columns: more than 16 bits hold, and than 13
_MOST_TILES = (259, 67, 35, 19)  # the number of the first does not fit into eight bits, of the last not into four
_MOST_OUTPUTS = 2**20  # of a product that is run beyond the largest grid
_SOME_K = 5
_K_STEP = 64  # in which sizes along K are asked for


def many_tiles(subject: Subject, fits: Callable[[Trial], bool]) -> Iterator[Trial]:
    """Of a kernel whose blocks take one tile after another: several tiles along both extents, and very many along one,
    of which no block can be run alone; with a K that costs little. ``fits``: whether a trial can be run."""
    if subject.samples or subject.square or subject.spec.signature.square or subject.spec.signature.tied:
        return
    bm, bn = subject.tile
    k = subject.multiples.k
    for label, rows, columns in (("many rows of tiles", 7, 3), ("many columns of tiles", 3, 7)):
        # What a tile leaves behind in shared memory, the block's next one may use too early.
        problem = subject.problem(rows * bm - 1, columns * bn - 1, k)
        yield replace(exact_trial(subject, label, problem), hazards=True)
    yield from _more_than_one_wave(subject)
    for label, along_rows in (("rows", True), ("columns", False)):
        for tiles in _MOST_TILES:  # the most that the grid allows
            problem = subject.problem(tiles * bm, bn, k) if along_rows else subject.problem(bm, tiles * bn, k)
            trial = exact_trial(subject, f"more than {tiles - 3} {label} of tiles", problem)
            yield trial
            if fits(trial):
                break
    for label, axis in (("rows", "M"), ("columns", "N")):
        for extent in _FAR:
            problem = subject.multiples.up(with_extent(subject.problem(1, 1, k), axis, extent))
            if problem.m * problem.n * max(1, problem.k) <= MOST_WORK // 4:
                trial = exact_trial(subject, f"{extent:,} {label}", problem)
                yield trial
                if fits(trial):
                    break


def _more_than_one_wave(subject: Subject) -> Iterator[Trial]:
    """More tiles than twice the blocks of a grid that does not grow, with one k-tile and with two: which stage a tile
    ends with, and the block's next one begins with, depends on that."""
    bm, bn = subject.tile
    few, more = (subject.problem(rows * bm, 3 * bn, 1) for rows in (7, 14))
    if any(no_launch(subject.spec, subject.config, each) for each in (few, more)):
        return
    blocks, larger = (subject.spec.geometry(each, subject.config).blocks for each in (few, more))
    rows = 2 * blocks // 3 + 1
    if larger != blocks or 3 * rows * bm * bn * subject.depth > MOST_WORK // 4:
        return
    for label, k in (("one k-tile", subject.depth), ("two k-tiles", 2 * subject.depth)):
        problem = subject.problem(rows * bm - 1, 3 * bn, k)
        yield replace(exact_trial(subject, f"more tiles than twice the blocks, {label}", problem), hazards=True)


def grid_changes(subject: Subject) -> Iterator[Trial]:
    """The first size along M, N and K at which host code's grid is another than so many blocks for each tile: a
    condition there has two branches, and both must cover C, and every k once. Grids are computed, so that asking costs
    little. Blocks that share K from some size on may race."""
    spec = subject.spec
    if spec.is_rung or subject.square or spec.signature.square or spec.signature.tied:
        return
    for axis, tile in zip("MNK", (*subject.tile, round_up(_K_STEP, subject.depth)), strict=True):
        tiles = _first_change(subject, axis, tile)
        problem = subject.multiples.up(with_extent(subject.one_tile(1), axis, tiles * tile))
        if tiles and problem.m * problem.n * problem.k <= MOST_WORK:
            trial = exact_trial(subject, f"{axis} = {tiles * tile}, where the grid changes", problem)
            yield replace(trial, hazards=axis == "K")
    yield from _other_launches(subject)
    yield from _beyond_largest_grid(subject)


def _other_launches(subject: Subject) -> Iterator[Trial]:
    """Sizes at which host code chooses another launch: more parts of K, a larger block, more stages. Each with a rest:
    what is divided among parts rounds up or down."""
    for axis, tile in zip("KMN", (round_up(_K_STEP, subject.depth), *subject.tile), strict=True):
        for tiles in launch_changes(partial(_launch_at, subject, axis, tile)):
            base = subject.one_tile(1) if axis == "K" else subject.one_tile(_SOME_K)
            problem = subject.multiples.up(with_extent(base, axis, tiles * tile + REST))
            if problem.m * problem.n * problem.k <= MOST_WORK:
                label = f"{axis} = {getattr(problem, axis.lower())}, where host code chooses another launch"
                yield exact_trial(subject, label, problem)


def _launch_at(subject: Subject, axis: str, tile: int, tiles: int) -> tuple[float, ...] | None:
    """The numbers of a launch: its grid and block, shared memory, and what host code computes for the kernel."""
    problem = subject.multiples.up(with_extent(subject.one_tile(1), axis, tiles * tile))
    spec = subject.spec
    try:
        if no_launch(spec, subject.config, problem):
            return None
        found = spec.geometry(problem, subject.config)
        passed = spec.geometry.passed_values(problem) if isinstance(spec.geometry, UserLaunch) else {}
    except GemmsmithError:
        return None
    numbers = (*found.grid, *found.block, found.smem, *map(float, passed.values()))
    return numbers if legal_grid(found) else None


def _beyond_largest_grid(subject: Subject) -> Iterator[Trial]:
    """More tiles than the largest grid has blocks for, where host code limits it: ``min(blocks, 1024)``."""
    bm, bn = subject.tile

    def blocks(rows: int, columns: int) -> int:
        problem = subject.problem(rows * bm, columns * bn, 1)
        if no_launch(subject.spec, subject.config, problem):
            return 0
        try:
            geometry = subject.spec.geometry(problem, subject.config)
        except GemmsmithError:
            return 0
        return geometry.blocks if legal_grid(geometry) else 0

    side, before = 1, blocks(1, 1)
    while 2 * side * side * bm * bn <= _MOST_OUTPUTS:
        found = blocks(side, side)
        if found > before and found == blocks(2 * side, side) == blocks(side, 2 * side):
            problem = subject.problem(2 * side * bm - 1, side * bn, subject.parts)
            if problem.m * problem.n * problem.k <= MOST_WORK:
                yield exact_trial(subject, f"{MORE_TILES} of {found} blocks has", problem)
            return
        side *= 2


def _first_change(subject: Subject, axis: str, tile: int) -> int:
    """The least number of tiles along an extent at which the grid does not grow as from one tile to two; 0: none."""

    def grid(tiles: int) -> tuple[int, ...] | None:
        problem = subject.multiples.up(with_extent(subject.one_tile(1), axis, tiles * tile))
        try:
            if no_launch(subject.spec, subject.config, problem):
                return None
            geometry = subject.spec.geometry(problem, subject.config)
        except GemmsmithError:
            return None
        return (*geometry.grid, *geometry.block) if legal_grid(geometry) else None

    one, two = grid(1), grid(2)
    if one is None or two is None:
        return 0

    def changed(tiles: int) -> bool:
        found = grid(tiles)
        grown = tuple(first + (tiles - 1) * (second - first) for first, second in zip(one, two, strict=True))
        return found is not None and found != grown

    last = 2
    for tiles in ASKED_TILES:
        if changed(tiles):
            return next(each for each in range(last + 1, tiles + 1) if changed(each))
        last = tiles
    return 0
