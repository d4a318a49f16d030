"""Try changes on a copy until one cures the fault, within a budget of seconds.

    candidates ─► the failing trial alone ─► the whole check ─► Suggestion

A change that passes the failing trial has to pass every other trial too. One that removes a part of the fault is tried
together with a second one for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.cure.candidates import candidates
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import Candidate, applied, carried_back
from gemmsmith.cure.fault import Fault
from gemmsmith.cure.suggestion import Suggestion, suggestion_of
from gemmsmith.userfile.files.edited import Edited
from gemmsmith.verify.trials.trial import Trial

_MOST_WHOLE_CHECKS = 4  # they are not counted in the budget, up to ``find_cure``'s ``at_most``
_MOST_FIRST_STEPS = 3  # partial cures that are completed
# Changes that touch no index: with them a kernel has the layout that its author meant.
_KEEP_LAYOUT = frozenset((
    "accumulator-not-reset", "accumulator-reset-too-often", "arrival-without-wait", "counted-words", "loop-bound",
    "loop-start", "loop-step", "missing-arrival", "missing-barrier", "missing-commit", "missing-fence", "missing-tail",
    "missing-wait",
    "narrow-accumulator", "narrow-barrier", "reduction-distance", "unfinished-sum", "uninitialised-accumulator",
    "unused-tile", "wait-count", "weak-order", "narrow-scope", "wrong-component", "wrong-half",
    "wrong-parity",
))  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a change did.

    fault        what is left
    trial        of a whole check: the trial that shows it, for ``Workbench.fails``
    independent  the kernel has this fault without the change, too: it is a second one
    tried        what passed, in words
    expected     whether the kernel then computes what its author most likely meant, a product of row-major matrices
    """

    cured: bool
    fault: Fault | None = None
    trial: Trial | None = None
    independent: bool = False
    tried: str = ""
    expected: bool = True


class Workbench(Protocol):
    """Runs a copy. Either method returns None where the copy does not compile or cannot be run."""

    def fails(self, edited: Edited, trial: Trial | None = None) -> Outcome | None:
        """One trial alone; None: the one that failed."""

    def whole_check(self, edited: Edited) -> Outcome | None:
        """Every trial."""


@dataclass
class _Search:
    program: Program
    bench: Workbench
    deadline: float
    latest: float = math.inf  # for the deadline, which whole checks put off
    second_best: Suggestion | None = None
    whole_checks: int = 0

    @property
    def is_over(self) -> bool:
        return seconds_used() > self.deadline

    def attempt(self, candidate: Candidate, trial: Trial | None = None) -> tuple[Suggestion | None, Outcome | None]:
        """A cure; or what was left of the fault."""
        edited = applied(candidate.edits, self.program.files)
        outcome = Outcome(True) if candidate.reread else self.bench.fails(edited, trial)
        if outcome is None or not outcome.cured:
            return None, outcome
        if self.whole_checks == _MOST_WHOLE_CHECKS:
            return None, None
        started, self.whole_checks = seconds_used(), self.whole_checks + 1
        whole = self.bench.whole_check(edited)
        self.deadline = max(self.deadline, min(self.latest, self.deadline + seconds_used() - started))
        if whole is None or not whole.cured:
            return None, whole
        found = suggestion_of(candidate, self.program.files, whole.tried)
        if whole.expected or candidate.kind in _KEEP_LAYOUT:
            return found, None
        self.second_best = self.second_best or found
        return None, None

    def completed(self, first: Candidate, left: Fault, trial: Trial | None) -> Suggestion | None:
        """``first`` with a second change, for what it leaves of the fault or for another fault."""
        for candidate in _with_second(self.program, first, left):
            if self.is_over:
                break
            found, _ = self.attempt(candidate, trial)
            if found is not None:
                return found
        return None


def find_cure(
    program: Program, fault: Fault, bench: Workbench, seconds: float, at_most: float = math.inf
) -> Suggestion | None:
    """The first change that cures; None if none of those tried in ``seconds`` does, or, with whole checks, in
    ``at_most``."""
    now = seconds_used()
    search = _Search(program, bench, now + seconds, now + at_most)
    parts: list[tuple[int, Candidate, Fault]] = []
    for candidate in candidates(program, fault):
        if search.is_over:
            break
        found, left = search.attempt(candidate)
        if found is not None:
            return found
        if left is None or left.fault is None:
            continue
        if left.independent:  # this fault is cured; the kernel has another one
            complete = search.completed(candidate, left.fault, left.trial)
            return complete or suggestion_of(candidate, program.files, left.tried)
        if progress := _progress(fault, left.fault):
            parts.append((progress, candidate, left.fault))
    parts.sort(key=lambda part: part[0])
    for _, first, rest in parts[:_MOST_FIRST_STEPS]:
        found = search.completed(first, rest, None)
        if found is not None:
            return found
    return search.second_best


def _progress(before: Fault, after: Fault) -> int:
    """How promising a partial cure is, 1 the most; 0 if nothing was gained."""
    if before.kind == "race" and after.kind == "race":
        return 1 if after.key < before.key else 0
    if after.kind == before.kind and after.unwritten == before.unwritten:
        return 0
    if before.kind == "race":
        return 2
    return 1 if before.unwritten and not after.unwritten else 3


def _with_second(program: Program, first: Candidate, left: Fault) -> Iterator[Candidate]:
    """``first`` with each change that what is left of the fault suggests."""
    texts = dict(applied(first.edits, program.files))
    copy = replace(program, files=_copied(program.files, texts), _functions=[])
    for second in candidates(copy, left):
        edits = [carried_back(edit, first.edits) for edit in second.edits]
        if all(edit is not None for edit in edits):
            both = first + replace(second, edits=tuple(edit for edit in edits if edit is not None))
            if not both.clashes:
                yield both


def _copied(files: Iterable[Code], texts: dict[Path, str]) -> tuple[Code, ...]:
    return tuple(Code(code.path, texts.get(code.path, code.text)) for code in files)
