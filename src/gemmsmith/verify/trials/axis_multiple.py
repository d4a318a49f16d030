"""Which multiple one of M, N and K must have, the others being whole tiles, or that its guard is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gemmsmith.problem import Problem
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.trials.extents import with_extent
from gemmsmith.verify.trials.multiples import WrongGuard
from gemmsmith.verify.trials.trial import Trial
from gemmsmith.verify.verdict import Verdict, is_hazard, refuses_extent

Run = Callable[[Trial], Verdict | None]
_SHORT_BY = (1, 2, 3)
_USUAL_DEPTHS = (4, 8, 16, 32)
_PARTS = (8, 16, 32)  # of a tile: what a thread or a warp has of it
_SLACK = 1 << 18  # bytes: what a tile past the edge reads


@dataclass(frozen=True)
class LaunchSteps:
    """What a launch, not the code of its kernel, asks of M, N and K.

    parts        among as many blocks of one tile K may be divided; a K that is only no multiple of that has no tile
    rounds_down  whether a product a little shorter than whole tiles (both are given) has fewer blocks than these have
    grid_unit    how many rows or columns (axis, extent, tile) the grid counts by, if that is less than a tile
    flat         how many outputs a second kernel stores at once, wherever rows begin: M·N must be a multiple of that
    packed       elements of the vectors that the matrices are declared to have (2 of half2*): rows have whole ones
    known        whether host code tells it
    said         whether comments ask an extent (its axis is given) to be a multiple of so many, or of what is unclear
    single       whether no access of the code takes more than one element
    asked        the multiple that a condition of host code asks K to be (a product of whole tiles is given); 1: none
    """

    parts: int = 1
    rounds_down: Callable[[Problem, Problem], bool] = lambda *_: False
    grid_unit: Callable[[str, int, int], int] = lambda *_: 0
    flat: int = 1
    packed: int = 1
    known: bool = False
    said: Callable[[str, int], bool] = lambda *_: False
    single: bool = False
    asked: Callable[[Problem], int] = lambda _: 1


@dataclass
class AxisSearch:
    """Trials of one extent a little shorter than whole tiles.

    run      gives no verdict where there is no launch
    trial    the other settings of each trial
    base     a product of whole tiles, which is right
    axis     "M", "N" or "K"; "MN" where two must stay equal
    tiles    the sizes of the block tile along the axis
    """

    run: Run
    trial: Trial
    base: Problem
    axis: str
    tiles: list[int]
    edges: KernelEdges
    launch: LaunchSteps
    near: dict[int, Verdict | None] = field(init=False)

    def __post_init__(self) -> None:
        self._go_where_launched()
        self.near = {less: self.run(self.shorter(less)) for less in _SHORT_BY}
        self.tile, self.extent = max(self.tiles), getattr(self.base, self.axis[0].lower())
        self.vector, self.word = (max(1, size // self.base.dtype.itemsize) for size in (16, 4))

    def _go_where_launched(self) -> None:
        """Whole tiles may be the least extent for which host code launches the kernel: then to one tile more."""
        if any(self.run(self.shorter(less)) is not None for less in _SHORT_BY):
            return
        here, extent = self.base, getattr(self.base, self.axis[0].lower())
        self.base = with_extent(here, self.axis, extent + max(self.tiles))
        launched = any(self.run(self.shorter(less)) is not None for less in _SHORT_BY)
        if not launched or not self._passes(0):
            self.base = here

    def shorter(self, less: int) -> Trial:
        """The trial with the extent shorter by so much."""
        extent = getattr(self.base, self.axis[0].lower())
        return replace(self.trial, problem=with_extent(self.base, self.axis, max(1, extent - less)))

    def multiple(self) -> int:
        """The multiple that the extent must be; 1: any. Raises WrongGuard."""
        failed = [less for less, judged in self.near.items() if judged is None or not judged.trusted]
        for less, judged in self.near.items():
            if judged is not None and is_hazard(judged):  # no multiple was meant to avoid that
                raise self._wrong(less)
        small = _small_step(failed, self.extent)
        if self.word > 2 and failed == list(_SHORT_BY) and self._passes(self.word):
            small = self.word
        if not failed:
            return 1
        if self.launch.packed > 1 and self._passes(self.launch.packed):
            return self.launch.packed
        if self._errs_at_its_edge():
            raise self._wrong(1)
        if self.axis == "K":
            for less in failed:
                if (judged := self.near[less]) is not None and _spares_most(judged):
                    raise self._wrong(less)
        if len(failed) < len(self.near) and not small and self.near[failed[0]] is not None:  # no step explains that
            raise self._wrong(failed[0])
        step, has_guards = self._least_step(small)
        if self._drops_a_round(step):
            raise self._wrong(1)
        if has_guards and not self.launch.said(self.axis, step):
            self._judge_guards(step, small)
        self._judge_other_sizes(step)
        self._judge_asked(step)
        return step

    def _judge_asked(self, step: int) -> None:
        """Raise where host code asks K to be a multiple of less than ``step``, lets such a product through, and terms
        are lost there."""
        asked = self.launch.asked(self.base) if self.axis == "K" else 1
        if not 1 < asked < min(step, self.extent):
            return
        judged = self.run(self.shorter(asked))
        if judged is not None and judged.wrong and not judged.faulted:
            raise self._wrong(asked)

    def _errs_at_its_edge(self) -> bool:
        """Whether outputs are wrong where the kernel has code of its own for such an extent: ways through it that no
        multiple leads to, or what keeps a last tile inside its matrices. Pairs may lie across rows of odd length, and
        spoil most of them."""
        first = self.near[1]
        if first is None or first.faulted or first.damage or refuses_extent(first) or first.wrong <= first.unwritten:
            return False
        rows = self.axis == "M" and not self.base.trans_a
        columns = self.axis == "N" and 4 * first.wrong < first.total
        inside = first.unwritten == 0 and (rows or columns)
        return inside or bool(self.edges.tails & set(self.axis))

    def _judge_other_sizes(self, step: int) -> None:
        """Raise where smaller extents show that others than multiples of ``step`` were meant: one of them is right, or
        host code launches the kernel for one, and for larger ones another."""
        first = self.near[1]
        if step == 1 or (first is not None and refuses_extent(first)):
            return
        for extent in (2 * step + 1, step + 1):
            if not 0 < extent < self.extent - 1:
                continue
            less = self.extent - extent
            judged = self.run(self.shorter(less))
            if first is None and judged is not None and not judged.trusted:
                raise self._wrong(less)
            if first is not None and judged is not None and judged.trusted:
                raise self._wrong(1)

    def _least_step(self, small: int) -> tuple[int, bool]:
        """The smallest step that passes, and whether the kernel may have guards for what is no multiple of it."""
        first = self.near[1]
        if small:
            # Rows that are read as words of 32 bits have no others, unless there is code for the rest of a word.
            rest = bool(self.edges.tails & set(self.axis))
            words = (
                small == self.word > 2 and not (first and _passed_a_guard(first, self.edges, self.axis)) and not rest
            )
            return small, not words
        if self.vector > 1 and self._passes(self.vector):
            self._judge_rows_of_vectors()
            tail = self.edges.tails & set(self.axis)
            apart = self.axis != "K" and self.launch.known and self._has_no_vectors()
            return self.vector, (bool(tail) or apart) and first is not None and not refuses_extent(first)
        if self.axis != "K" and (stored := next(filter(self._stores_whole, self.edges.stored), 0)):
            return stored, False
        finer = sorted({*self.edges.depths, *_USUAL_DEPTHS, *self.tiles} if "K" in self.axis else _PARTS)
        coarser = [self.tile * times for times in (1, 2, 4, 8) if self.tile * times < self.extent]
        steps = (*(step for step in finer if self.vector < step < self.tile), *coarser)
        return next(filter(self._passes, steps), self.extent), True

    def _has_no_vectors(self) -> bool:
        """Whether no vector lies along this extent: nothing but how many rows a thread has asks for a multiple."""
        return self.launch.single or (self.axis == "M" and not self.base.trans_a)

    def _stores_whole(self, width: int) -> bool:
        return width < self.tile and self._passes(width)

    def _judge_rows_of_vectors(self) -> None:
        """Raise for a kernel that is right for whole vectors, and loses more than the rest of one."""
        first = self.near[1]
        if self.axis == "K" and (less := self._lost(self.vector)):
            raise self._wrong(less)
        if self.axis != "M" or self.base.trans_a or first is None or not self.edges.guarded("M", self.vector):
            return
        # No vector lies along the rows of A and C: a guard lets too many rows through, or too few.
        if self._drops(first) or _passed_a_guard(first, self.edges, self.axis):
            raise self._wrong(1)

    def _judge_guards(self, step: int, small: int) -> None:
        """Raise where the kernel guards this extent, and fails where it is no multiple of ``step``."""
        self._judge_half_tile(step)
        self._judge_whole_tiles(step)
        unit = self.launch.grid_unit(self.axis, self.extent, self.tile)
        if 1 < unit < step and not self._passes(unit):
            raise self._wrong(unit)
        if unit == step:  # pairs of columns: its grid has no blocks for a single one
            return
        if self.axis == "K" and (less := self._lost(step)):
            raise self._wrong(less)
        less, judged = 1, self.near[1]  # how much shorter than whole tiles the extent is at which guards are judged
        if judged is None:
            less, judged = self._first_launched(step)
        elif refuses_extent(judged):
            less = self.vector
            judged = None if small or less >= min(self.tile, self.extent) else self.run(self.shorter(less))
        if judged is None or refuses_extent(judged):
            return
        if self.axis == "K" and judged.wrong and (self.edges.masks_k or self._clamps_parts(step)):
            raise self._wrong(less)  # a mask for the last k-tile, or an end for the last part, which is left out
        if judged.unwritten and not judged.faulted and self._rounds_down(less):
            return
        rest = judged.unwritten == judged.wrong and not (judged.faulted or judged.damage)  # only left out
        if judged.unwritten and rest and self.launch.known and self._takes_the_other_ragged():
            raise self._wrong(less)
        if set(self.axis) <= self.edges.counted and judged.unwritten and rest:
            return  # the kernel itself rounds down
        if self._drops_rows(step, judged):
            raise self._wrong(less)
        if self.edges.guarded(self.axis, step) and (
            _passed_a_guard(judged, self.edges, self.axis)
            or not self._trusted(replace(self.shorter(less), slack=_SLACK))
        ):
            raise self._wrong(less)

    def _takes_the_other_ragged(self) -> bool:
        """Whether the kernel is right where the other extent of C is no multiple of a tile: then it was meant to take
        any, and where host code has blocks for the last tile of this one, the kernel has lost it."""
        other = {"M": "N", "N": "M"}.get(self.axis, "")
        if not other:
            return False
        ragged = with_extent(self.base, other, getattr(self.base, other.lower()) - 1)
        return self._trusted(replace(self.trial, problem=ragged))

    def _clamps_parts(self, step: int) -> bool:
        """Whether blocks share K in parts, the last of which may be shorter, and it is not whole k-tiles that they
        need: a length of ``K / parts``, with ``min(first + length, K)``."""
        parts = self.launch.parts
        own = {depth // parts for depth in self.edges.depths}  # of one part: K grows by one in each of them
        return self.edges.clamps_k and parts > 1 and step % parts == 0 and step not in own

    def _drops_rows(self, step: int, judged: Verdict) -> bool:
        """Whether rows are left out by a kernel that is right for a part of a tile: no vector lies along the rows of A
        and C, so that what decides how many rows a tile has was meant to count each."""
        if self.axis != "M" or self.base.trans_a or judged.unwritten != judged.wrong or judged.damage:
            return False
        parts = (part for part in _PARTS if part < self.tile)
        return self._drops(judged) and (step < self.tile or any(map(self._passes, parts)))

    def _first_launched(self, step: int) -> tuple[int, Verdict | None]:
        """The extent next to whole tiles, and no multiple of ``step``, for which host code launches the kernel."""
        for less in (2, 4, *_PARTS):
            if less < min(step, self.extent) and (judged := self.run(self.shorter(less))) is not None:
                return less, judged
        return 0, None

    def _judge_half_tile(self, step: int) -> None:
        """A single k-tile may be a part of one: raise if the last of several, which was meant to be, is not."""
        half = step // 2
        if (
            self.axis == "K"
            and self.vector <= half < step <= self.tile
            and step < self.extent
            and self._passes(self.extent - half)
        ):
            raise self._wrong(half)

    def _judge_whole_tiles(self, step: int) -> None:
        """Raise where K must have several k-tiles of the kernel's own loop: no loop asks for an even number of them."""
        if self.axis != "K" or not self.edges.depth < step < self.extent or self.launch.parts > 1:
            return
        judged = self.run(self.shorter(self.tile)) if self.edges.depth else None
        if judged is not None and judged.wrong and not judged.faulted and not refuses_extent(judged):
            raise self._wrong(self.tile)

    def _lost(self, step: int) -> int:
        """How much shorter a K is at which more is lost than the rest of the last step, or a share of it; else 0."""
        judged = self.near[1]
        if judged is None or judged.faulted or judged.damage or not judged.wrong or not 1 < step < self.base.k:
            return 0
        if step == self.launch.parts or self._passes(-1):  # one beyond whole steps is right: it takes any K
            return 1
        if not self._trusted(replace(self.shorter(1), mode="exact", fill="integers to 1")):
            return 0  # rows of ``K / 8 * 8`` elements: not one row is found, so that no such K was meant
        # A kernel for whole k-tiles drops the rest of K. One that loses others divides K among its parts, and errs.
        lost = next((less for less in _SHORT_BY if not self._only_drops(less, step)), 0)
        return 0 if lost and (self._takes_pairs(step) or self._reads_twice(lost, step)) else lost

    def _only_drops(self, less: int, step: int) -> bool:
        """Whether a K that is shorter by so much gives all but the rest of its last step."""
        k = self.base.k - less
        whole = f"integers to {k // step * step}"
        return k % step == 0 or self._trusted(replace(self.shorter(less), mode="exact", fill=whole))

    def _drops_a_round(self, step: int) -> bool:
        """Whether a loop has a round for the rest of K, and nothing but this rest is lost: who was not meant to take it
        would have no round for it, or read what is no part of the matrices."""
        judged = self.near[1]
        if self.axis != "K" or not self.edges.rounds_up or not 1 < step < self.base.k or judged is None:
            return False
        if judged.faulted or judged.damage or judged.unwritten or refuses_extent(judged):
            return False
        whole = self.base.k // step * step == self.base.k
        return whole and all(self._only_drops(less, step) for less in _SHORT_BY if less < step)

    def _reads_twice(self, less: int, step: int) -> bool:
        """Whether the rest of K is there, and so is what comes before the last whole step: a step that is moved back to
        fit, as in ``min(k + 16, K - 16)``, adds a part of another one twice, and loses nothing."""
        whole = (self.base.k - less) // step * step
        parts = (f"integers from {whole}", f"integers to {whole - step}")
        return whole > step and all(
            self._trusted(replace(self.shorter(less), mode="exact", fill=part)) for part in parts
        )

    def _takes_pairs(self, step: int) -> bool:
        """Whether a round of the loop takes two k-tiles, and the second is an old one where K ends after the first: no
        half of a round was meant."""
        pairs = step in self.edges.depths and step % 2 == 0 and step // 2 > max(_SHORT_BY)
        return pairs and not self._only_drops(step // 2, step) and all(self._only_drops(-n, step) for n in _SHORT_BY)

    def _drops(self, judged: Verdict) -> bool:
        """Whether outputs are left out though there are blocks for them."""
        return bool(judged.unwritten) and not judged.faulted and not self._rounds_down(1)

    def _rounds_down(self, less: int) -> bool:
        """Whether the launch has no blocks for what is missing, whatever the kernel guards."""
        return self.launch.rounds_down(self.base, self.shorter(less).problem)

    def _passes(self, less: int) -> bool:
        return self._trusted(self.shorter(less))

    def _trusted(self, trial: Trial) -> bool:
        return is_trusted(self.run, trial)

    def _wrong(self, less: int) -> WrongGuard:
        """That the guard is wrong, shown at an extent that fails: this one, or the next to whole tiles."""
        for each in (less, *_SHORT_BY):
            trial = self.shorter(each)
            judged = self.near[each] if each in self.near else self.run(trial)
            if judged is not None and not judged.trusted:
                break
        return WrongGuard(self.axis, trial, judged)


def is_trusted(run: Run, trial: Trial) -> bool:
    """Whether a trial passes. Raises WrongGuard at a hazard, which no multiple was meant to avoid."""
    judged = run(trial)
    if judged is not None and is_hazard(judged):
        raise WrongGuard("MNK", trial, judged)
    return judged is not None and judged.trusted


def _spares_most(judged: Verdict) -> bool:
    """Whether most outputs are right: what a kernel for whole k-tiles leaves out at the end of K is a part of each."""
    return (
        not judged.faulted and not judged.damage and not refuses_extent(judged) and 0 < 2 * judged.wrong < judged.total
    )


def _passed_a_guard(judged: Verdict, edges: KernelEdges, axis: str) -> bool:
    """Whether an access outside its matrix stands in a line with a guard of that extent."""
    return any(edges.guarded_at(axis, mark.line) for fault in judged.faults if fault.rule == "out-of-bounds"
               for mark in fault.marks if mark.text)  # fmt: skip


def _small_step(failed: list[int], extent: int) -> int:
    """2 or 3, if exactly the extents that are no multiple of it fail; else 0."""
    return next((step for step in (2, 3) if extent % step == 0 and failed == [n for n in _SHORT_BY if n % step]), 0)
