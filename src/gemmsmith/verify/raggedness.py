"""Which multiples M, N and K must have, for a kernel that fails at a shape that is no multiple of its tile.

A kernel without guards is right for whole tiles, by design. One with guards that fails at a ragged edge is wrong: it
was meant to handle it. What only reads a little outside its matrices, and gives the right result all the same, counts
as without guards. Vector loads, wmma stores and asserts ask for multiples of their own: guards are judged at such a
multiple.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import ParamSpec

from gemmsmith.problem import Problem
from gemmsmith.verify.edges import KernelEdges
from gemmsmith.verify.extents import with_extent
from gemmsmith.verify.trial import Trial
from gemmsmith.verify.verdict import Verdict, is_hazard, is_misaligned, refuses_extent

Run = Callable[[Trial], Verdict | None]
_Given = ParamSpec("_Given")
_SHORT_BY = (1, 2, 3)
_USUAL_DEPTHS = (8, 16, 32)
_SLACK = 1 << 18  # bytes: what a tile past the edge reads


@dataclass(frozen=True)
class Multiples:
    """M, N and K must be multiples of these; 1: any. ``from_k``: the least K; 0: the first multiple."""

    m: int = 1
    n: int = 1
    k: int = 1
    from_k: int = 0

    def up(self, problem: Problem) -> Problem:
        """The product with extents rounded up to multiples."""
        return problem.with_(
            m=_up(problem.m, self.m), n=_up(problem.n, self.n), k=max(_up(problem.k, self.k), self.from_k)
        )

    def __str__(self) -> str:
        words = [f"{step} in {axis}" for axis, step in (("M", self.m), ("N", self.n), ("K", self.k)) if step > 1]
        return ", ".join(words) + (f" from {self.from_k}" if self.from_k else "")


ANY = Multiples()


@dataclass(frozen=True)
class Raggedness:
    """What is right at ragged shapes. ``wrong``: an extent whose guards are, and the trial that shows it."""

    multiples: Multiples
    wrong: str = ""
    trial: Trial | None = None
    verdict: Verdict | None = None


class _Hazardous(Exception):  # noqa: N818 - it ends the search, and is no error
    """A shape that is tried shows a race, or another hazard that no multiple was meant to avoid."""

    def __init__(self, trial: Trial, verdict: Verdict) -> None:
        super().__init__(trial.label)
        self.trial, self.verdict = trial, verdict


def _ends_at_a_hazard(search: Callable[_Given, Raggedness]) -> Callable[_Given, Raggedness]:
    @wraps(search)
    def searched(*given: _Given.args, **named: _Given.kwargs) -> Raggedness:
        try:
            return search(*given, **named)
        except _Hazardous as found:
            return Raggedness(Multiples(), "MNK", found.trial, found.verdict)

    return searched


@_ends_at_a_hazard
def find_raggedness(
    run: Run, trial: Trial, verdict: Verdict | None, base: Problem, tile: tuple[int, int], edges: KernelEdges,
    axes: tuple[str, ...] = ("M", "N", "K"), parts: int = 1, rounds_down: Callable[[Problem], bool] = lambda _: False,
    grid_unit: Callable[[str, int, int], int] = lambda *_: 0, flat: int = 1, packed: int = 1,
) -> Raggedness:  # fmt: skip
    """``trial`` failed with ``verdict`` at a ragged shape, or has no launch there; ``base`` has whole tiles and is
    right. ``run`` gives no verdict where there is no launch. ``axes``: extents that must stay equal are one axis, "MN".
    ``parts``: among as many blocks of one tile K may be divided; a K that is only no multiple of that has no tile.
    ``rounds_down``: whether the launch has fewer blocks than a product needs, whatever the kernel guards.
    ``grid_unit``: how many rows or columns (axis, extent, tile) the grid counts by, if that is less than a tile.
    ``flat``: how many outputs a second kernel stores at once, wherever rows begin: M·N must be a multiple of that.
    ``packed``: elements of the vectors that the matrices are declared to have (2 of half2*): rows have whole ones.
    """

    def passes(tried: Trial) -> bool:
        judged = run(tried)
        if judged is not None and is_hazard(judged):
            raise _Hazardous(tried, judged)
        return judged is not None and judged.trusted

    def lost(near: dict[int, Verdict | None], single: Callable[[int], Trial], step: int) -> int:
        """How much shorter a K is at which more is lost than the rest of the last step, or a share of it; else 0."""
        judged = near[1]
        if judged is None or judged.faulted or judged.damage or not judged.wrong or not 1 < step < base.k:
            return 0
        if step == parts or passes(single(-1)):  # one beyond whole steps is right: it takes any K
            return 1
        if not passes(replace(single(1), mode="exact", fill="integers to 1")):  # rows of ``K / 8 * 8`` elements: not
            return 0  # one row is found, so that no such K was meant
        return _lost_within(single, step, base.k, passes)

    vector, word = (max(1, size // base.dtype.itemsize) for size in (16, 4))
    whole = {"M": tile[0], "N": tile[1], "K": edges.depth or base.k}
    found: dict[str, int] = {}
    if verdict is not None and is_misaligned(verdict) and edges.looks_at_alignment:
        return Raggedness(Multiples(), "MNK", trial, verdict)
    aligned = replace(trial, problem=base.with_(m=base.m + 1, n=_less(base.n, vector), k=base.k + vector))
    if verdict is not None and refuses_extent(verdict) and (len(axes) == 3 and passes(aligned)):

        def rows_of(n: int, k: int) -> bool:
            """Whether rows that are longer or shorter than whole tiles by so much are right."""
            return passes(replace(aligned, problem=base.with_(m=base.m + 1, n=_less(base.n, n), k=base.k + k)))

        least = _least_vector(vector, lambda step: rows_of(step, step))
        return Raggedness(Multiples(1, 1 if rows_of(1, least) else least, 1 if rows_of(least, 1) else least))
    for axis in axes:
        step, extent = max(whole[each] for each in axis), getattr(base, axis[0].lower())

        def single(less: int, axis: str = axis, extent: int = extent) -> Trial:
            return replace(trial, problem=with_extent(base, axis, max(1, extent - less)))

        near = {less: run(single(less)) for less in _SHORT_BY}
        failed = [less for less, judged in near.items() if judged is None or not judged.trusted]
        for less, judged in near.items():
            if judged is not None and is_hazard(judged):  # no multiple was meant to avoid that
                return Raggedness(Multiples(), axis, single(less), judged)
        small = _small_step(failed, extent)
        if word > 2 and failed == list(_SHORT_BY) and passes(single(word)):
            small = word
        if not failed:
            found[axis] = 1
            continue
        if packed > 1 and passes(single(packed)):
            found[axis] = packed
            continue
        if axis == "K":
            for less in failed:
                if (judged := near[less]) is not None and _spares_most(judged):
                    return Raggedness(Multiples(), axis, single(less), judged)
        if len(failed) < len(near) and not small and near[failed[0]] is not None:  # no step explains that
            return Raggedness(Multiples(), axis, single(failed[0]), near[failed[0]])
        at = 1  # how much shorter than whole tiles the extent is at which guards are judged
        if small:
            found[axis] = small
            if small == word > 2 and not (near[1] and _passed_a_guard(near[1], edges, axis)):
                continue  # rows are read as words of 32 bits: others have none
        elif vector > 1 and passes(single(vector)):
            found[axis] = vector
            judged = near[1]
            if axis == "K" and (less := lost(near, single, vector)):
                return Raggedness(Multiples(), axis, single(less), near[less])
            rows = axis == "M" and not base.trans_a and judged is not None and edges.guarded(axis, vector)
            # No vector lies along the rows of A and C: a guard lets too many rows through, or too few.
            if (
                rows
                and judged is not None
                and (_drops(judged, rounds_down, single(1).problem) or _passed_a_guard(judged, edges, axis))
            ):
                return Raggedness(Multiples(), axis, single(1), judged)
            if not (axis == "K" and edges.tail_k) or judged is None or refuses_extent(judged):
                continue
        elif axis != "K" and (stored := next((d for d in edges.stored if d < step and passes(single(d))), 0)):
            found[axis] = stored
            continue
        else:
            finer = sorted({*edges.depths, *_USUAL_DEPTHS, *(whole[each] for each in axis)}) if "K" in axis else []
            coarser = [step * times for times in (1, 2, 4, 8) if step * times < extent]
            fits = (d for d in (*(d for d in finer if vector < d < step), *coarser) if passes(single(d)))
            found[axis] = next(fits, extent)
        half = found[axis] // 2
        if (
            axis == "K"
            and vector <= half < found[axis] <= step
            and found[axis] < extent
            and passes(single(extent - half))
        ):
            # A single k-tile may be a part of one: the last of several was meant to be, too.
            return Raggedness(Multiples(), axis, single(half), run(single(half)))
        unit = grid_unit(axis, extent, step)
        if 1 < unit < found[axis] and not passes(single(unit)):
            return Raggedness(Multiples(), axis, single(unit), run(single(unit)))
        if unit == found[axis]:  # pairs of columns: its grid has no blocks for a single one
            continue
        judged = near[1]
        if axis == "K" and (less := lost(near, single, found[axis])):
            return Raggedness(Multiples(), axis, single(less), near[less])
        if judged is not None and refuses_extent(judged):
            at = vector
            judged = None if small or vector >= min(step, extent) else run(single(at))
        if axis == "K" and edges.masks_k and judged is not None and judged.wrong and not refuses_extent(judged):
            return Raggedness(Multiples(), axis, single(at), judged)  # a mask for the last k-tile, which is left out
        if judged is None or refuses_extent(judged):
            continue
        if judged.unwritten and not judged.faulted and rounds_down(single(at).problem):
            continue
        rest = judged.unwritten == judged.wrong and not (judged.faulted or judged.damage)  # only left out
        if set(axis) <= edges.counted and judged.unwritten and rest:
            continue  # the kernel itself rounds down
        if edges.guarded(axis, found[axis]) and (
            _passed_a_guard(judged, edges, axis) or not passes(replace(single(at), slack=_SLACK))
        ):
            return Raggedness(Multiples(), axis, single(at), judged)
    if all(step == 1 for step in found.values()) and verdict is not None:
        if flat > 1 and passes(replace(trial, problem=trial.problem.with_(n=_up(trial.problem.n, flat)))):
            return Raggedness(Multiples(1, flat, 1))
        return Raggedness(Multiples(), "MNK", trial, verdict)
    m, n, k = (next(step for axis, step in found.items() if each in axis) for each in "MNK")
    return Raggedness(Multiples(m, n, k))


def _spares_most(judged: Verdict) -> bool:
    """Whether most outputs are right: what a kernel for whole k-tiles leaves out at the end of K is a part of each."""
    return (
        not judged.faulted and not judged.damage and not refuses_extent(judged) and 0 < 2 * judged.wrong < judged.total
    )


def _least_vector(vector: int, passes: Callable[[int], bool]) -> int:
    """The smallest step that rows may have, of a kernel that is right where they are whole vectors of 16 bytes."""
    while vector > 2 and passes(vector // 2):
        vector //= 2
    return vector


def _lost_within(single: Callable[[int], Trial], step: int, extent: int, passes: Callable[[Trial], bool]) -> int:
    """How much shorter a K is at which terms are lost before the last whole step; 0: only the rest is lost.

    A kernel for whole k-tiles drops the rest of K. One that loses others divides K among its parts, and errs.
    """
    for less in _SHORT_BY:
        trial, k = single(less), extent - less
        if k % step and not passes(replace(trial, mode="exact", fill=f"integers to {k // step * step}")):
            return less
    return 0


def _drops(judged: Verdict, rounds_down: Callable[[Problem], bool], problem: Problem) -> bool:
    """Whether outputs are left out though there are blocks for them."""
    return bool(judged.unwritten) and not judged.faulted and not rounds_down(problem)


def _passed_a_guard(judged: Verdict, edges: KernelEdges, axis: str) -> bool:
    """Whether an access outside its matrix stands in a line with a guard of that extent."""
    return any(edges.guarded_at(axis, mark.line) for fault in judged.faults if fault.rule == "out-of-bounds"
               for mark in fault.marks if mark.text)  # fmt: skip


def _small_step(failed: list[int], extent: int) -> int:
    """2 or 3, if exactly the extents that are no multiple of it fail; else 0."""
    return next((step for step in (2, 3) if extent % step == 0 and failed == [n for n in _SHORT_BY if n % step]), 0)


def _less(extent: int, step: int) -> int:
    return extent - step if extent > step else extent


def _up(extent: int, step: int) -> int:
    return -(-extent // step) * step
