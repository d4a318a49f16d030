"""Trials beyond a limit that host code sets to its grid: ``min(tiles, 65535)``.

Blocks of such a grid must take several tiles of a larger product. One block is run alone, in memory that exists where
it is touched: it must write about as many outputs as there are for each block. Where a block takes one tile, whatever
the size, it writes a fourth of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.signature import SCRATCH
from gemmsmith.verify.harness import no_launch
from gemmsmith.verify.trials.extents import legal_grid, with_extent
from gemmsmith.verify.trials.far_trials import is_large, two_k_tiles
from gemmsmith.verify.trials.sparse_launch import is_exact
from gemmsmith.verify.trials.trial import CAPPED, Size, Trial
from gemmsmith.verify.trials.trial_subject import Subject

_LONGEST = 2**24  # rows or columns
_TIMES = 4  # as many outputs as a grid at its limit has tiles for
_SHARE = 2  # the block must write more than an average block's outputs divided by this


def capped_grids(subject: Subject) -> Iterator[Trial]:
    """One trial for each extent along which the grid stops growing; none where blocks may share a tile, or take tiles
    from a counter: a single block tells nothing then."""
    spec = subject.spec
    if spec.is_rung or subject.atomics or spec.signature.has(SCRATCH) or spec.batched or subject.parts > 1:
        return
    if subject.square or spec.signature.square or spec.signature.tied or getattr(spec.geometry, "second", None):
        return
    for axis, tile in zip("MN", subject.tile, strict=True):
        trial = _beyond(subject, axis, tile)
        if trial is not None:
            yield trial


def _beyond(subject: Subject, axis: str, tile: int) -> Trial | None:
    """A product with several times the extent at which the grid stops growing."""
    before, extent = _blocks(subject, axis, tile), 2 * tile
    grown = False
    while extent <= _LONGEST:
        blocks = _blocks(subject, axis, extent)
        if not blocks:
            return None
        if blocks == before and grown and blocks == _blocks(subject, axis, _TIMES * extent):
            break
        grown, before, extent = grown or blocks > before, blocks, 2 * extent
    else:
        return None
    problem = subject.multiples.up(with_extent(subject.one_tile(two_k_tiles(subject)), axis, _TIMES * extent))
    outputs = problem.m * problem.n // before
    if is_large(problem) or not is_exact(subject.spec, problem) or outputs < _SHARE * _TIMES:
        return None
    problem = replace(problem, alpha=1.0, beta=float(subject.spec.signature.accumulates))
    return Trial(f"{CAPPED} of {before} blocks, along {axis}", problem, "exact", "integers", "lockstep", "set", False,
                 Size.SPARSE, (0,), outputs // _SHARE, dry_k=problem.k)  # fmt: skip


def _blocks(subject: Subject, axis: str, extent: int) -> int:
    """How many blocks a product of one tile, but for this extent, is launched with; 0: it is not launched."""
    problem = subject.multiples.up(with_extent(subject.one_tile(1), axis, extent))
    if no_launch(subject.spec, subject.config, problem):
        return 0
    try:
        geometry = subject.spec.geometry(problem, subject.config)
    except GemmsmithError:
        return 0
    return geometry.blocks if legal_grid(geometry) and not geometry.cooperative else 0
