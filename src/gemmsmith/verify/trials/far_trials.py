"""Trials far from the origin: blocks far along both extents, and matrices of more than 2³¹ elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gemmsmith.errors import GemmsmithError
from gemmsmith.problem import Problem
from gemmsmith.verify.code.long_indices import means_long_indices
from gemmsmith.verify.trials.extents import legal_grid, with_extent
from gemmsmith.verify.trials.sparse_launch import holds_numbers, is_exact
from gemmsmith.verify.trials.trial import LARGE, LARGER, NEARLY, Size, Trial
from gemmsmith.verify.trials.trial_subject import Subject

_FAR_ROWS = 70_000  # more than 2¹⁶
_ELEMENTS = 2**31
_MARGIN = 2**27  # elements that whole tiles may add, and stay below 2³¹
_BEYOND_HALF = 2**20  # elements of a matrix beyond 2³⁰, twice as many of which are more than 2³¹
_MORE = 60  # rows and columns beyond the square root
_LONG_ROWS = 2**22
_MOST_BLOCKS = 65_535  # along y and z


def whole_tile(subject: Subject) -> Problem:
    """One whole tile."""
    return subject.base.with_(m=subject.tile[0], n=subject.tile[1], k=two_k_tiles(subject))


def two_k_tiles(subject: Subject) -> int:
    """Two k-tiles, or the least K of a pipeline that needs more."""
    return max(round_up(2 * subject.depth, subject.multiples.k), subject.multiples.from_k)


def far_trial(
    subject: Subject, label: str, problem: Problem, blocks: Iterable[int] | None = None, why: str = ""
) -> Trial | None:
    """Some blocks of a large product; by default the first and, of whole tiles, the last."""
    bm, bn = subject.of_block
    try:
        total = subject.spec.geometry(problem, subject.config).blocks
    except GemmsmithError:
        return None
    if total != -(-problem.m // bm) * -(-problem.n // bn) * problem.batch:
        return None  # blocks take more than one tile each, or share one
    if any(arg.table for arg in subject.spec.signature.arguments):
        return None  # arrays of pointers: their matrices are not in memory of parts
    whole = problem.m % bm == 0 and problem.n % bn == 0
    chosen = tuple(dict.fromkeys(blocks if blocks is not None else (0, total - 1 if whole else 0)))
    if not is_exact(subject.spec, problem) or not holds_numbers(subject.spec, subject.config, problem):
        return None
    per_block = min(bm, problem.m) * min(bn, problem.n)
    return Trial(label, problem.with_(alpha=1.0, beta=float(subject.spec.signature.accumulates)), "exact", "integers",
                 "lockstep", "set", False, Size.SPARSE, chosen, per_block * len(chosen), why,
                 dry_k=two_k_tiles(subject),
                 corner=subject.corner and whole and total - 1 in chosen)  # fmt: skip


def far_blocks(subject: Subject) -> Iterator[Trial]:
    for index, axis in enumerate("MN"):
        for rows in (_FAR_ROWS, _FAR_ROWS // 2, _FAR_ROWS // 8):
            extent = round_up(rows, subject.tile[index])
            problem = subject.cubed(with_extent(whole_tile(subject), axis, extent))
            if is_large(problem) or not _is_legal(subject, problem):
                continue
            if (trial := far_trial(subject, f"blocks far along {axis}", problem)) is not None:
                yield trial
                break


def large_matrices(subject: Subject) -> Iterator[Trial]:
    """Each matrix with a little fewer than 2³¹ elements, which every int index reaches, if not its bytes; with more;
    and with more than 2³² where indices are computed in 64 bits. The others are small."""
    if subject.spec.signature.square or subject.spec.signature.tied or subject.square:
        return
    more = 3 * subject.depth
    for label, elements, extra in ((NEARLY, _ELEMENTS - _MARGIN, 0), (LARGE, _ELEMENTS, more),
                                   (LARGER, 2 * _ELEMENTS, more)):  # fmt: skip
        for name, problem in _with_elements(subject, elements, extra):
            if label == LARGER and not means_long_indices(subject.spec, name):
                continue
            trial = far_trial(subject, f"{label} in {name}", problem, why="last block")
            if trial is not None:
                yield replace(trial, blocks=trial.blocks[-1:], written=math.prod(subject.of_block))


def large_batches(subject: Subject) -> Iterator[Trial]:
    """The last of three products, where each matrix is below 2³¹ elements and the last one begins beyond: offsets of
    products are computed apart from the indices in them."""
    signature = subject.spec.signature
    if not subject.spec.batched or subject.spec.is_rung or signature.square or subject.square:
        return
    if signature.tied not in ("", "MN"):
        return
    for name, problem in _with_elements(subject, _ELEMENTS // 2 + _BEYOND_HALF, subject.depth):
        if signature.tied and problem.m != problem.n:  # one number for both: only C can be square
            continue
        batch = signature.batch_of(problem, 3)
        if batch.own_bias or signature.shared == name:
            continue
        trial = far_trial(subject, f"{LARGE} in {name} of all products", batch, why="last product")
        if trial is not None:
            yield replace(trial, blocks=trial.blocks[-1:], written=math.prod(subject.of_block), corner=False)


def _with_elements(subject: Subject, elements: int, more: int) -> Iterator[tuple[str, Problem]]:
    """C, A and B with about so many elements; ``more``: by how much K is longer."""
    bm, bn = subject.tile
    side = math.isqrt(elements) + _MORE
    yield "C", subject.base.with_(m=round_up(side, bm), n=round_up(side, bn), k=whole_tile(subject).k)
    for name, tile in (("A", bm), ("B", bn)):
        for rows in (_LONG_ROWS, _LONG_ROWS // 2, _MOST_BLOCKS * tile, _LONG_ROWS // 8):
            long = min(round_up(rows, tile), round_up(_LONG_ROWS, tile))
            deep = max(1, (elements // long + more) // subject.depth) * subject.depth
            m, n = (long, bn) if name == "A" else (bm, long)
            problem = subject.base.with_(m=m, n=n, k=deep)
            if _is_legal(subject, problem):
                yield name, problem
                break


def is_large(problem: Problem) -> bool:
    """Whether a matrix has more elements than 32-bit indices reach."""
    return max(problem.m * problem.k, problem.k * problem.n, problem.m * problem.n) >= _ELEMENTS


def _is_legal(subject: Subject, problem: Problem) -> bool:
    try:
        return legal_grid(subject.spec.geometry(problem, subject.config))
    except GemmsmithError:
        return False


def round_up(extent: int, step: int) -> int:
    return -(-extent // step) * step
