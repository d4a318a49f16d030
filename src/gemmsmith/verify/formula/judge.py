"""Judge a kernel by the formula that was found for it: it must hold for every size that it is launched for.

Most trials have data whose sums are exact in every type; one has values of the whole range, one large results. A size
that fails counts only if nothing in host code or in comments may rule it out. At edges a kernel without guards is right
for whole tiles.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from gemmsmith.errors import GemmsmithError, LaunchError, UnknownTrialError, UsageError
from gemmsmith.gpus import cuda_limits, largest_smem
from gemmsmith.problem import BF16, FP16, FP64
from gemmsmith.userfile.kernels.formula_kernel import FormulaKernel
from gemmsmith.verify.code.source_guards import threads_compare, without_loop_heads
from gemmsmith.verify.formula.case import Case, Runner
from gemmsmith.verify.formula.documented import Documented
from gemmsmith.verify.formula.find import Found, expected, rooms, with_room
from gemmsmith.verify.formula.formula import ONE
from gemmsmith.verify.launch_check import LaunchCheck, check_launch
from gemmsmith.verify.launch_expected import Tolerance
from gemmsmith.verify.meaning.launch_trial import (
    ALIGNED,
    DISTINCT,
    RACY,
    RAGGED,
    RIGHT,
    VECTORS,
    WHOLE_TILES,
    WIDE,
    WRONG,
    LaunchTrial,
    roundoff,
)
from gemmsmith.verify.oracles.promises import says_nan_is_kept, takes_any
from gemmsmith.verify.trials.chosen_launches import REST, launch_changes
from gemmsmith.verify.trials.fit import takes_single_elements
from gemmsmith.verify.trials.trial import CAPPED, ODD

OTHERS, LARGE, OTHER_REST = "other extents", "large results", "other remainders modulo the tile"
SCALARS, SPECIAL, DEPTHS, NARROW = "other alpha and beta", "NaN and Inf", "other K", "one row or column"
CHOSEN = "where host code chooses another launch"
_EDGES = (RAGGED, OTHER_REST, DEPTHS, NARROW, CHOSEN, CAPPED, ODD)
_SMOOTH = frozenset(("silu", "gelu", "gelu_tanh", "sigmoid", "tanh", "elu", "quick_gelu", "softcap"))
_KEEPING_NAN = frozenset(("relu", "leaky", "clamp"))  # as FUNCTIONS has them
_VECTOR = 16  # elements of the widest access
_REMAINDERS = (4, 7, 12)
_SCALARS = ((-0.75, -1.25), (1.0, 0.0), (0.0, 0.5))  # alpha and beta
_DEPTHS = (1, 2, 3, 5, 8, 13, 16, 17, 24, 33, 40, 47, 56, 64, 81, 128)  # around the multiples of usual k-tiles
_TILE = 64  # in which host code is asked for launches
_FEW, _LONG_DEPTH = 17, 1057  # rows and columns of a long one
_VECTOR_DEPTH = 20_021  # of a product with a vector, beyond any part of it that shared memory holds
_LONGEST = 2**18  # rows or columns beyond the limit of a grid
_WHOLE_DEPTHS = (1, 3, 5, 17)  # times the first depth
_LARGE_SCALE = 48.0  # of A: results are in the hundreds
_LEADINGS = ((1, 2, 3, 4, 5), (3, 1, 2, 5, 4))  # in multiples of 32: any two differ
_EXACT = {FP16: 2.0**-9, BF16: 2.0**-6, FP64: 2.0**-20}  # tolerances, relative to a result plus one
_ROUNDINGS = 16
_WRONG = re.compile(r"elements of [\w.]+ are wrong")
_LONGEST_S, BUDGET_S = 6.0, 15.0  # of one core: for a trial, and for all but the one that runs


@dataclass
class FormulaCheck:
    """The verdict, and its trials; ``multiples``: the extents that must be whole tiles."""

    kernel: FormulaKernel
    found: Found
    trials: list[LaunchTrial] = field(default_factory=list)
    status: str = RIGHT
    multiples: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # other instances of its template, and what they are
    named: bool = False  # whether the formula is known from a name alone, as no formula explains a launch

    @property
    def ok(self) -> bool:
        return self.status not in (WRONG, RACY)

    @property
    def entry(self) -> str:
        return self.kernel.entry

    @property
    def name(self) -> str:
        return self.kernel.path.name

    @property
    def formula(self) -> str:
        return self.found.formula.text()


@dataclass
class Judge:
    runner: Runner
    told: Documented
    check: FormulaCheck
    refused: GemmsmithError
    only: str
    pace: float = 0.0  # seconds for each multiply-add, in the largest launch
    largest: int = 0  # multiply-adds of it
    start: float = field(default_factory=time.process_time)

    def judged(self) -> FormulaCheck:
        for label, case, every in self._planned():
            if self.only not in ("", label) and not (self.only in _EDGES and label == DISTINCT):
                continue
            trial = self._tried(label, case, every)
            if trial is None or (not trial.ok and label != DISTINCT and self._may_be_too_large(case)):
                continue
            self.check.trials.append(trial)
            self._refuse_doubtful(trial)
            if not trial.ok:
                self.check.status = RACY if trial.hazards else WRONG
                return self.check
        if not self.check.trials and not self.only:
            raise self.refused
        if not self.check.trials:
            raise UnknownTrialError(
                f"check has no trial {self.only!r} for this kernel",
                f"its trials: {'; '.join((DISTINCT, OTHERS, WIDE, *_EDGES))}",
            )
        if self.only in ("", *_EDGES) and self._open:
            self._judge_edges()
        return self.check

    def _planned(self) -> Iterator[tuple[str, Case, bool]]:
        taken, found = self.runner.taken, self.check.found.case
        whole = [with_room(taken, found, each) for each in _LEADINGS]
        yield DISTINCT, whole[0], True
        if taken.batch or taken.strides:
            yield OTHERS, whole[1].with_sizes(batch=3), False
        for factors in ((3, 1, 2), (2, 5, 1), (5, 3, 7)):
            base = found.sizes[taken.extents[0]]
            sizes = {name: base * factor for name, factor in zip(taken.extents, factors, strict=False)}
            yield OTHERS, with_room(taken, found.with_sizes(**sizes), _LEADINGS[1]), False
        yield WIDE, replace(whole[0], wide=True), False
        formula = self.check.found.formula
        if formula.alpha or formula.beta:
            for alpha, beta in _SCALARS:
                yield SCALARS, replace(whole[0], alpha=alpha, beta=beta), False
        if not (formula.kind or formula.triangle or formula.half) and (not formula.function or self._keeps_nan):
            yield SPECIAL, replace(whole[0], special=True), False
        narrow = self.runner.member(taken.output).element == FP16  # whose largest number a gate may exceed
        if formula.function in _SMOOTH and not narrow:
            yield LARGE, replace(whole[0], scale=_LARGE_SCALE), False

    @property
    def _keeps_nan(self) -> bool:
        """Whether a NaN goes through the activation, as a comment promises: many write relu so that it gives 0."""
        kernel = self.runner.kernel
        kept = self.check.found.formula.function in _KEEPING_NAN
        return kept and says_nan_is_kept(kernel.text, kernel.launch.facts.kernel)

    def _refuse_doubtful(self, trial: LaunchTrial) -> None:
        """Raise for a failure that may not be one: what explains a small launch alone may be another product, and
        another kernel may go on with the result. A race is one all the same."""
        doubtful = not self.check.found.sure or self.runner.kernel.is_unfinished
        if doubtful and not (trial.ok or trial.hazards):
            raise self.refused

    def _may_be_too_large(self, case: Case) -> bool:
        """Whether the launch has no more blocks than the one that the formula explains: a kernel may be made for what
        fits into them."""
        found = self.check.found.case
        larger = any(case.sizes[name] > found.sizes[name] for name in self.runner.taken.extents)
        return larger and self.runner.kernel.geometry(case.sizes).grid == self.runner.kernel.geometry(found.sizes).grid

    def _tried(self, label: str, case: Case, every: bool = False) -> LaunchTrial | None:
        """A trial; None where host code or comments rule the sizes out, or there is no such launch."""
        runner, formula = self.runner, self.check.found.formula
        begun, work = time.process_time(), math.prod(self._shape(case)) * case.sizes["batch"]
        if self.check.trials and (work * self.pace > _LONGEST_S or begun - self.start > BUDGET_S):
            return None
        if not (self.told.allows(case.sizes) and runner.kernel.is_launched(case.sizes)):
            return None
        try:
            geometry = runner.kernel.geometry(case.sizes)
            if np.prod(geometry.block) > cuda_limits().threads_per_block or geometry.smem > largest_smem():
                return None  # a GPU refuses the launch
            keeps = formula.addend is not None and formula.addend.member == formula.c.member
            keeps = keeps or any(each.member == formula.c.member for each in (*formula.lefts, *formula.rights))
            arrays = runner.arrays(case, rooms(formula, case.sizes), keeps)
            wanted = expected(formula, runner.values(case), arrays, case.sizes)
            launch = runner.launch(case, arrays, wanted, self._limits(case, wanted))
            found = check_launch(launch, timeout=runner.timeout, cache=runner.cache,
                                 most=None if every else 1)  # fmt: skip
        except (UsageError, LaunchError):
            return None
        if work >= self.largest:
            self.pace, self.largest = (time.process_time() - begun) / max(1, work * len(found.outcomes)), work
        return LaunchTrial(label, self._shape(case), found) if self._tells(found) else None

    def _tells(self, found: LaunchCheck) -> bool:
        """Whether a launch says anything of the kernel: not where it took too long, nor where it may have needed more
        of an array that its blocks share."""
        failed = [outcome for outcome in found.outcomes if not outcome.ok]
        for outcome in failed:
            if outcome.faults and self.runner.taken.scratch:
                return False
            if not (outcome.faults or outcome.hazards or any(_WRONG.search(reason) for reason in outcome.reasons)):
                return False
        return True

    def _shape(self, case: Case) -> tuple[int, int, int]:
        formula = self.check.found.formula
        rows, columns, depth = (case.sizes[each] for each in (formula.c.rows, formula.c.columns, formula.depth))
        return rows, columns, depth

    def _limits(self, case: Case, wanted: np.ndarray) -> Tolerance:
        element = self.runner.member(self.runner.taken.output).element
        kind = str(element.numpy) if element is not None else "float32"
        exact = _EXACT.get(element, 2.0**-14) if element is not None else 2.0**-14
        if not case.wide:
            return Tolerance(exact, exact)
        unit = max(roundoff(self.runner.ptx), 2.0**-24 if kind != "float64" else 2.0**-53)
        depth = self._shape(case)[2]
        largest = float(np.abs(wanted).max(initial=1.0))
        factor = max(map(abs, self.runner.values(case).values()), default=1.0)
        return Tolerance(exact, _ROUNDINGS * unit * (depth + largest) * factor)

    # --- edges

    @property
    def promised(self) -> frozenset[str]:
        """The extents that may be anything, by comments."""
        kernel = self.runner.kernel
        return takes_any(kernel.text, kernel.launch.facts.kernel, self.runner.taken.extents)

    @property
    def _open(self) -> tuple[str, ...]:
        """The extents that may end within a tile: comments ask for no multiples of them that are not understood."""
        return tuple(name for name in self.runner.taken.extents if name not in self.told.vague)

    @property
    def _rows_promised(self) -> bool:
        """Whether one of these is how long the rows of a matrix are: then they may start anywhere."""
        lengths = {each.rows if each.by_column else each.columns for each in self.check.found.formula.matrices()}
        return bool(self.promised & lengths)

    def _judge_edges(self) -> None:
        """Extents that are no multiples of the tile; rows of whole vectors; one extent after another."""
        step = self.told.multiple
        for label, by, status in ((RAGGED, step, RIGHT), (VECTORS, max(step, _VECTOR), ALIGNED)):
            trial = self._edge(label, *self._open, by=by)
            if trial is None:
                return
            self.check.trials.append(trial)
            if trial.ok or trial.hazards:
                self.check.status = (
                    RACY if trial.hazards else WRONG if status == ALIGNED and self._rows_promised else status
                )
                if label == RAGGED and trial.ok:
                    self._judge_sizes(self._other_sizes(step))
                    self._judge_odd_rows()
                elif trial.ok:
                    self._judge_sizes(self._whole_sizes())
                return
            if self._fails_beside_guards(trial, by):
                self._refuse_doubtful(trial)
                self.check.status = WRONG
                return
        failing = [
            name
            for name in self._open
            if (alone := self._edge(f"{RAGGED} in {name}", name, by=max(step, _VECTOR))) and not alone.ok
        ]
        self.check.status, self.check.multiples = WHOLE_TILES, tuple(failing)
        if (self.promised | self.told.told) & set(failing):  # such a multiple is not enough
            self.check.status = WRONG
            return
        self._judge_sizes(self._whole_sizes())

    def _judge_odd_rows(self) -> None:
        """Rows that start anywhere. A kernel of aligned vectors is right for others only, unless a comment promises any
        size."""
        taken, case = self.runner.taken, self.check.found.case
        if self.check.status != RIGHT or not taken.leading or self.only not in ("", ODD):
            return
        odd = with_room(taken, case.with_sizes(**{name: case.sizes[name] + 1 for name in taken.leading}))
        trial = self._tried(ODD, odd)
        if trial is None:
            return
        self.check.trials.append(trial)
        if not trial.ok:
            self._refuse_doubtful(trial)
            misaligned = any("misaligned" in reason for each in trial.check.outcomes for reason in each.reasons)
            self.check.status = ALIGNED if misaligned and not self._rows_promised else WRONG

    def _whole_sizes(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Depths of whole tiles."""
        name, base = self.check.found.formula.depth, self.check.found.case.sizes
        for times in _WHOLE_DEPTHS if name in self.runner.taken.extents else ():
            yield DEPTHS, {name: times * base[name]}

    def _other_sizes(self, step: int) -> Iterator[tuple[str, dict[str, int]]]:
        """Other remainders: code that takes four or eight at a time has its own for the rest, of K above all. Depths of
        a few k-tiles, with and without a rest; one row or column."""
        formula, base, extents = self.check.found.formula, self.check.found.case.sizes, self._open
        for turn in range(len(_REMAINDERS)):
            yield OTHER_REST, {name: base[name] + step * _REMAINDERS[(turn + place) % len(_REMAINDERS)]
                               for place, name in enumerate(extents)}  # fmt: skip
        if formula.depth in extents:
            for depth in _DEPTHS:
                yield DEPTHS, {formula.depth: depth * step}
            yield DEPTHS, {**dict.fromkeys(extents, _FEW * step), formula.depth: _LONG_DEPTH * step}
            if ONE in (formula.c.rows, formula.c.columns):
                yield DEPTHS, {**dict.fromkeys(extents, 3 * step), formula.depth: _VECTOR_DEPTH * step}
        for name in dict.fromkeys((formula.c.rows, formula.c.columns)):
            if name in extents and name != formula.depth:
                yield NARROW, {name: step}
        for name in extents:
            for tiles in launch_changes(partial(self._launch_at, name)):
                yield CHOSEN, {**dict.fromkeys(extents, _FEW * step), name: tiles * _TILE + step * REST}
            if limit := self._last_growth(name):
                yield CAPPED, {**dict.fromkeys(extents, step), name: 2 * limit + step * REST}

    def _last_growth(self, name: str) -> int:
        """The extent from which on the grid grows no more, as host code has a limit for it; 0 where there is none."""
        before, grown, extent = 0, False, self.check.found.case.sizes[name]
        while extent <= _LONGEST:
            launch = self._launch_of(name, extent)
            blocks = 0 if launch is None else int(math.prod(launch[:3]))
            if not blocks:
                return 0
            if grown and blocks == before:
                return extent // 2
            grown, before, extent = grown or 0 < before < blocks, blocks, 2 * extent
        return 0

    def _launch_at(self, name: str, tiles: int) -> tuple[float, ...] | None:
        return self._launch_of(name, tiles * _TILE)

    def _launch_of(self, name: str, extent: int) -> tuple[float, ...] | None:
        """The numbers of a launch: its grid and block, shared memory, and what host code computes for the kernel."""
        runner = self.runner
        found = with_room(runner.taken, self.check.found.case.with_sizes(**{name: extent}), _LEADINGS[0])
        try:
            if not runner.kernel.is_launched(found.sizes):
                return None
            launch = runner.kernel.geometry(found.sizes)
            passed = [runner.kernel.value(runner.member(each), found.sizes) for each in runner.taken.computed]
        except GemmsmithError:
            return None
        return (*launch.grid, *launch.block, launch.smem, *(0.0 if each is None else float(each) for each in passed))

    def _judge_sizes(self, others: Iterator[tuple[str, dict[str, int]]]) -> None:
        found = self.check.found.case
        for label, sizes in others:
            if self.only not in ("", label):
                continue
            trial = self._tried(label, with_room(self.runner.taken, found.with_sizes(**sizes), _LEADINGS[0]))
            if trial is None:
                continue
            self.check.trials.append(trial)
            if not trial.ok:
                self._refuse_doubtful(trial)
                self.check.status = RACY if trial.hazards else WRONG
                return

    def _fails_beside_guards(self, trial: LaunchTrial, by: int) -> bool:
        """Whether results are wrong where one extent that the kernel has code for is no multiple. Faults are none if
        they may be of vectors that begin or end at any element."""
        vectors = not self._takes_single_elements
        if vectors and any(outcome.faults for outcome in trial.check.outcomes):
            return False
        for name in filter(self._is_guarded, self._open):
            alone = self._edge(RAGGED, name, by=by)
            faulted = alone is not None and any(outcome.faults for outcome in alone.check.outcomes)
            if alone is not None and not alone.ok and not (vectors and faulted):
                return True
        return False

    @property
    def _takes_single_elements(self) -> bool:
        taken, kernel = self.runner.taken, self.runner.kernel
        sizes = {each.element.itemsize for each in kernel.members if each.name in taken.inputs and each.element}
        return len(sizes) == 1 and takes_single_elements(self.runner.ptx, sizes.pop())

    def _edge(self, label: str, *names: str, by: int) -> LaunchTrial | None:
        found = self.check.found.case
        grown = {name: found.sizes[name] + by for name in names}
        return self._tried(label, with_room(self.runner.taken, found.with_sizes(**grown), _LEADINGS[0]))

    def _is_guarded(self, name: str) -> bool:
        """Whether the kernel compares anything with an extent, beside the ends of loops; a depth with what depends on a
        thread, or by its remainder."""
        text, own = self.runner.kernel.body, re.escape(name)
        formula = self.check.found.formula
        if name == formula.depth and name not in (formula.c.rows, formula.c.columns):
            return threads_compare(text, name) or re.search(rf"\b{own}\s*(?:%|&\s*\d)", text) is not None
        return re.search(rf"[<>]=?\s*{own}\b|\b{own}\s*[<>]=?", without_loop_heads(text)) is not None
