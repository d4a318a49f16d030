"""Which multiples M, N and K must have, for a kernel that fails at a shape that is no multiple of its tile.

A kernel without guards is right for whole tiles, by design. One with guards that fails at a ragged edge is wrong: it
was meant to handle it. What only reads a little outside its matrices, and gives the right result all the same, counts
as without guards. Vector loads, wmma stores and asserts ask for multiples of their own: guards are judged at such a
multiple.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gemmsmith.problem import Problem
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.trials.axis_multiple import AxisSearch, LaunchSteps, Run, is_trusted
from gemmsmith.verify.trials.extents import with_extent
from gemmsmith.verify.trials.multiples import Multiples, Raggedness, WrongGuard, round_up
from gemmsmith.verify.trials.trial import Trial
from gemmsmith.verify.verdict import Verdict, is_misaligned, refuses_extent

_ALONE = LaunchSteps()
_PADDING_OF_LAST_ROW = 256  # bytes that may be read: a matrix is often allocated with it


def find_raggedness(
    run: Run, trial: Trial, verdict: Verdict | None, base: Problem, tile: tuple[int, int], edges: KernelEdges,
    axes: tuple[str, ...] = ("M", "N", "K"), launch: LaunchSteps = _ALONE,
) -> Raggedness:  # fmt: skip
    """``trial`` failed with ``verdict`` at a ragged shape, or has no launch there; ``base`` has whole tiles and is
    right. ``run`` gives no verdict where there is no launch. ``axes``: extents that must stay equal are one axis, "MN".
    """
    try:
        if verdict is not None and is_misaligned(verdict) and edges.looks_at_alignment:
            raise WrongGuard("MNK", trial, verdict)
        if verdict is not None and refuses_extent(verdict) and len(axes) == 3:
            rows = _rows_of_vectors(run, trial, base)
            if rows is not None:
                _judge_padded_rows(run, trial, base, rows, edges)
                if edges.masks_k:
                    _judge_half_vectors(run, trial, base, rows.k)
                return Raggedness(rows)
        tiles = {"M": tile[0], "N": tile[1], "K": edges.depth or base.k}
        found = {
            axis: AxisSearch(run, trial, base, axis, [tiles[each] for each in axis], edges, launch).multiple()
            for axis in axes
        }
        if all(step == 1 for step in found.values()) and verdict is not None:
            if launch.flat > 1 and _needs_whole_rounds(run, trial, launch.flat):
                return Raggedness(Multiples(1, launch.flat, 1))
            raise WrongGuard("MNK", trial, verdict)
        m, n, k = (next(step for axis, step in found.items() if each in axis) for each in "MNK")
        multiples = Multiples(m, n, k)
        if verdict is None and len(axes) == 3 and max(m, n, k) <= max(1, 16 // base.dtype.itemsize):
            _judge_padded_rows(run, trial, base, multiples, edges)  # host code may ask it of rows alone
    except WrongGuard as ended:
        return ended.found
    return Raggedness(multiples)


def _needs_whole_rounds(run: Run, trial: Trial, flat: int) -> bool:
    """Whether a kernel that stores ``flat`` outputs at once, wherever rows begin, is right where M·N is a multiple of
    that, and nowhere else: who has code for other numbers of outputs means to be right at all of them."""
    m, n = trial.problem.m, trial.problem.n

    def right(columns: int) -> bool:
        return is_trusted(run, replace(trial, problem=trial.problem.with_(n=columns)))

    others = [columns for columns in range(n - 1, n + flat) if columns > 0 and m * columns % flat]
    return right(round_up(n, flat)) and not any(map(right, others))


def _rows_of_vectors(run: Run, trial: Trial, base: Problem) -> Multiples | None:
    """The multiples of a kernel that is right wherever its rows are whole vectors; None if it is not."""

    def right(n: int, k: int) -> bool:
        """Whether rows that are longer or shorter than whole tiles by so much are right."""
        return is_trusted(run, replace(trial, problem=base.with_(m=base.m + 1, n=_less(base.n, n), k=base.k + k)))

    vector = max(1, 16 // base.dtype.itemsize)
    if not right(vector, vector):
        return None
    least = _least_vector(vector, lambda step: right(step, step))
    return Multiples(1, 1 if right(1, least) else least, 1 if right(least, 1) else least)


def _judge_half_vectors(run: Run, trial: Trial, base: Problem, step: int) -> None:
    """Raise where a K of half a step accesses nothing misaligned, and the result is wrong: vectors do not ask for whole
    steps, and who masks the last k-tile means to be right there."""
    half = replace(trial, problem=base.with_(k=base.k + step // 2))
    judged = run(half) if step > 1 else None
    if judged is not None and judged.wrong and not refuses_extent(judged):
        raise WrongGuard("K", half, judged)


def _judge_padded_rows(run: Run, trial: Trial, base: Problem, rows: Multiples, edges: KernelEdges) -> None:
    """Raise for a kernel that takes leading dimensions and is wrong where its rows start on whole vectors and end in
    one: nothing is misaligned there. The padding behind a row is NaN. Whose results are not has kept out of it; then no
    more may be lost than the rest of a loop that has no round for it, or columns that are left out. Who is right at
    some ends within a vector means to be right at all."""
    for axis, step in (("K", rows.k), ("N", rows.n)):
        if step == 1:
            continue
        ends = [_ending(trial, base, axis, less, step) for less in sorted({1, step // 2, step - 1})]
        judged = [(ended, verdict) for ended in ends if (verdict := run(ended)) is not None]
        wrong = [(ended, verdict) for ended, verdict in judged if _is_wrong_at_its_end(verdict)]
        right = len(wrong) < len(judged) and any(verdict.trusted for _, verdict in judged)
        for ended, verdict in wrong:
            whole = replace(ended, mode="exact", fill=f"integers to {ended.problem.k // step * step}")
            if axis == "N" or right or edges.rounds_up or not is_trusted(run, whole):
                raise WrongGuard(axis, ended, verdict)


def _ending(trial: Trial, base: Problem, axis: str, less: int, step: int) -> Trial:
    """The trial at an extent so much below a multiple of ``step``, with rows that start on whole vectors."""
    extent = getattr(base, axis.lower())
    problem = with_extent(base, axis, (extent if extent > step else extent + step) - less)
    return with_padded_rows(replace(trial, problem=problem))


def with_padded_rows(trial: Trial) -> Trial:
    """The trial with rows that start on multiples of 16 bytes; the last one has its padding as well."""
    problem = trial.problem
    padded = problem.with_(lda=_padded(problem.a_shape[1], problem.dtype.itemsize),
                           ldb=_padded(problem.b_shape[1], problem.dtype.itemsize),
                           ldc=_padded(problem.n, problem.out_dtype.itemsize))  # fmt: skip
    return replace(trial, problem=padded, slack=_PADDING_OF_LAST_ROW)


def _is_wrong_at_its_end(judged: Verdict) -> bool:
    if judged.trusted or judged.faulted or judged.damage or refuses_extent(judged):
        return False
    return judged.wrong > judged.unwritten and judged.got is not None and not math.isnan(judged.got)


def _padded(row: int, itemsize: int) -> int:
    """The row with what follows it, so that the next one starts on a whole vector."""
    return round_up(row, max(1, 16 // itemsize))


def _least_vector(vector: int, passes: Callable[[int], bool]) -> int:
    """The smallest step that rows may have, of a kernel that is right where they are whole vectors of 16 bytes."""
    while vector > 2 and passes(vector // 2):
        vector //= 2
    return vector


def _less(extent: int, step: int) -> int:
    return extent - step if extent > step else extent
