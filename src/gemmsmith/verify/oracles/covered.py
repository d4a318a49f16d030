"""What some blocks of a launch wrote, where only these were run, and whether its grid covers C."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gemmsmith.problem import Problem
from gemmsmith.run.memory import POISON
from gemmsmith.verify.oracles.compare import Array, Comparison


def left_out(written: NDArray[np.bool_], total: int) -> NDArray[np.bool_]:
    """The rows and columns of C behind all that was written, where the grid ends before them.

    ``written`` is what some of ``total`` blocks wrote, the last one among them. Blocks may take tiles in any order, and
    those at the edges are partial: rows and columns are left out only if so many of the largest tiles that the blocks
    may have have fewer elements than C.
    """
    found = np.zeros_like(written)
    largest = int(written.sum(axis=1).max(initial=0)) * int(written.sum(axis=0).max(initial=0))
    if not largest or largest * total >= written.size:
        return found
    rows, columns = np.flatnonzero(written.any(axis=1)), np.flatnonzero(written.any(axis=0))
    found[rows[-1] + 1 :, :] = True
    found[:, columns[-1] + 1 :] = True
    return found


def written_part(
    problem: Problem, comparison: Comparison, got: Array, before: Array, c_is_set: bool, total: int,
    written: int | None,
) -> tuple[Comparison, NDArray[np.bool_]]:  # fmt: skip
    """The judgement of the elements that were written; if their number is not the expected one, none is right.

    ``total``: of how many blocks some were run.
    """
    word = np.dtype(f"<u{problem.out_dtype.itemsize}")
    poisoned = problem.beta == 0 and not c_is_set
    old = POISON[problem.out_dtype.name] if poisoned else np.ascontiguousarray(before).view(word)
    same = np.ascontiguousarray(got).view(word) == old
    ratios = np.where(same, 0.0, comparison.ratios)
    part = replace(comparison, ratios=ratios, wrong=comparison.wrong & ~same)
    # An output may equal what C held before by chance; then it is right.
    too_few = same.all() if written is None else same.size - np.count_nonzero(same & comparison.wrong) < written
    if written is not None and np.count_nonzero(~same) > written:  # these blocks took the work of others
        return replace(part, wrong=np.ones_like(same)), same
    if too_few or written is not None or problem.batch > 1:
        return part, same if too_few else np.zeros_like(same)
    return part, left_out(~same | ~comparison.wrong, total)
