"""Trials of products at which an index that the kernel computes in floating point is rounded to another one.

``row = tile * (1.0f / tiles_n)`` is right for 1 to 40 tiles in a row, and wrong for 41. Such numbers are found by
following threads of a few blocks (float_indices.py), at many numbers of tiles, rows and k-tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import Problem
from gemmsmith.sim.ptx.syntax import Entry
from gemmsmith.verify.code.edges import Misrounded
from gemmsmith.verify.code.float_indices import FloatIndexWalk
from gemmsmith.verify.code.path_probe import PathProbe, most_steps
from gemmsmith.verify.code.thread_walk import Thread
from gemmsmith.verify.trials.exact_trial import exact_trial
from gemmsmith.verify.trials.far_trials import far_trial
from gemmsmith.verify.trials.tile_trials import MOST_WORK
from gemmsmith.verify.trials.trial import Trial
from gemmsmith.verify.trials.trial_subject import Subject

# Along one extent: the odd n up to 100 with a multiple whose product with fl(1/n) is rounded, up or down, from the
# quotient, where fl is rounded to nearest or approximate.
_TILES = (7, 13, 15, 33, 37, 41, 47, 51, 55, 61, 63, 67, 75, 83, 95, 97)
_OTHER_TILES = (2, 9)  # along the other: 8 rows of tiles are a usual group
_ROWS = (1, 2, 8)  # of tiles or of elements, before which threads are followed
_FAR_TILES = (2**12 + 1, 2**12 + 3)  # of a row and a column: a float holds no integer beyond 2²⁴
_MOST_STEPS = 1_200_000  # of all walks: about a second


def misrounded_indices(entry: Entry, subject: Subject) -> tuple[Misrounded, ...]:
    """One product for each instruction of ``entry`` that makes another integer of a float, the cheapest of many."""
    walk = FloatIndexWalk(entry)
    if not walk.has_indices:
        return ()
    probe = PathProbe(subject.spec, subject.config, entry, walk, subject.base)
    found, left = dict[str, Misrounded](), _MOST_STEPS
    for problem in sorted(dict.fromkeys(_problems(subject)), key=_work):
        launch = probe.launch(problem)
        if launch is None:
            continue
        if left < 0:
            break
        geometry, arguments = launch
        lengths = _lengths(problem, subject.tile, math.prod(geometry.block), walk.differ_in_block)
        for thread in _threads(geometry, lengths):
            sites, steps = walk.errors(thread, arguments, most_steps(problem))
            left -= steps
            for site in sites:
                found.setdefault(site.text, Misrounded(problem, _number(thread), site.where, site.text))
    return tuple(found.values())


def float_index_trials(subject: Subject) -> Iterator[Trial]:
    """A launch of each such product, or of the block at which it errs."""
    for each in subject.coverage.misrounded:
        problem = each.problem
        label = f"{problem.m}x{problem.n}x{problem.k}, where {each.where} rounds an index"
        large = _work(problem) > MOST_WORK and subject.samples
        trial = far_trial(subject, label, problem, (0, each.block), each.text) if large else None
        yield trial or exact_trial(subject, label, problem, each.text)


def _problems(subject: Subject) -> Iterator[Problem]:
    (bm, bn), depth = subject.tile, subject.depth
    for tiles in _TILES:
        for others in _OTHER_TILES:
            yield subject.problem(others * bm, tiles * bn, 1)
            yield subject.problem(tiles * bm, others * bn, 1)
        yield subject.problem(bm, bn, tiles * depth)
    down, across = _FAR_TILES
    yield subject.problem(down * bm, across * bn, 1)


def _lengths(problem: Problem, tile: tuple[int, int], threads: int, elements: bool) -> tuple[int, ...]:
    """In threads: a row and a column of tiles, and of ``elements``."""
    extents = problem.m, problem.n
    tiles = tuple(-(-extent // size) * threads for extent, size in zip(extents, tile, strict=True))
    return tiles + extents if elements else tiles


def _threads(geometry: Geometry, lengths: Iterable[int]) -> Iterator[Thread]:
    """Threads at the ends and beginnings of rows and columns: there a quotient is whole."""
    threads = math.prod(geometry.block)
    for place in dict.fromkeys(times * length + more for length in lengths for times in _ROWS for more in (-1, 0)):
        block, thread = divmod(place, threads)
        block %= geometry.blocks  # of fewer blocks than tiles, each takes one tile after another
        yield Thread(geometry, _dim3(block, geometry.grid), _dim3(thread, geometry.block))


def _dim3(number: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)


def _number(thread: Thread) -> int:
    (x, y, z), grid = thread.block, thread.geometry.grid
    return x + grid[0] * (y + grid[1] * z)


def _work(problem: Problem) -> int:
    return problem.m * problem.n * problem.k
