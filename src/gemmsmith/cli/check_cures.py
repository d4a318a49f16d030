"""After a failed check: try changes on copies of the user's file, and name the one that cures."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gemmsmith.call.launch_plan import MAP_REFUSED
from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.options.trial import TrialOptions
from gemmsmith.cli.render.check_report import Report
from gemmsmith.cure.code import Program
from gemmsmith.cure.edit import Candidate, applied
from gemmsmith.cure.fault import Fault, fault_of
from gemmsmith.cure.overflow import overflows
from gemmsmith.cure.program import program_of, second_kernel
from gemmsmith.cure.search import Outcome, find_cure
from gemmsmith.cure.suggestion import Suggestion, suggestion_of
from gemmsmith.cure.unread import beta_tested
from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.files.edited import Edited
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import joined_kernel, prepared_kernel, user_kernel
from gemmsmith.userfile.launches.kernel_chain import chained_name
from gemmsmith.verify.host.launch_mistakes import LAUNCH_MISTAKES, launch_mistake
from gemmsmith.verify.meaning.readings import find_readings
from gemmsmith.verify.trials.trial import (
    DISTINCT,
    GUARDED,
    LARGE,
    MEANT,
    ODD,
    RAGGED,
    RANDOM,
    SCALED,
    UNREAD,
    VECTORS,
    Trial,
)
from gemmsmith.verify.trials.trial_runner import TrialRunner
from gemmsmith.verify.verdict import Verdict

Check = Callable[[KernelSpec, Config, Asked], Report]
_RIGHT = ("right", "column_major")
_EDGES = (RAGGED, ODD, GUARDED, MEANT, VECTORS)
_SOON = (RANDOM, SCALED, RAGGED)  # of a copy that changes no more than how an index or a term is computed
_COPY_BUDGET_S = 6.0  # for the whole check of a copy; the failing trial is always among what it passed
_SMALL = 2**22  # multiply-adds of a product that is simulated in a second
_PATIENCE = 0.5  # of the seconds for cures: where a check took longer, and only edges fail, few copies are tried
_HASTE = 0.2  # of those seconds, and
_HASTY_BUDGET_S = 3.0  # for the whole check of such a copy
_MOST_PATIENCE = 0.9  # of the seconds for cures: where a check took longer still, none are tried
_FEW_S = 4.0  # for cures after a check that took long
_LAST_S = 2.0  # of the check's own seconds, for the last copy
_EDGES_SHARE = 0.4  # of the time, where a kernel is right but for edges: few changes are worth trying


def find_causes(report: Report, runner: TrialRunner, asked: Asked, check: Check) -> tuple[Suggestion, ...]:
    """The causes of a failure that a changed copy confirmed; none for rungs, on a GPU, or with ``--cures 0``."""
    spec = runner.spec
    if not asked.cures > 0 or spec.is_rung or _is_copy(asked) or not report.failed or asked.device.wants_gpu:
        return ()
    trial, verdict = _telling(report)
    hasty = report.ok and trial.label in _EDGES and report.seconds > asked.cures * _PATIENCE
    if hasty and report.seconds > asked.cures * _MOST_PATIENCE:
        return ()
    if any(MAP_REFUSED in reason for reason in verdict.reasons):  # the kernel did not even start
        return ()
    try:
        program = program_of(spec, with_grid=not asked.options.grid)
        names = frozenset(code.path.name for code in program.files)
        if not trial.hazards:  # a race may be what made the result wrong
            racing = replace(trial, hazards=True)
            seen = runner.run(racing)
            trial, verdict = (racing, seen) if seen.hazards else (trial, verdict)
        budget = _HASTY_BUDGET_S if hasty else _COPY_BUDGET_S
        fault, seconds = fault_of(verdict, names), _seconds(report, asked)
        limit = min(asked.timeout, seconds)
        whole = replace(asked, cures=0.0, budget=budget, trial=TrialOptions(), clock=None, certified=False,
                        timeout=limit)  # fmt: skip
        bench = _CopyBench(report, runner.limited(limit), whole, check, trial, names)
        fault = replace(fault, squares_pass=trial.label == report.failed[0][0].label == DISTINCT)
        if trial.label in _EDGES:
            share = _HASTE if hasty else _EDGES_SHARE if report.ok else 1.0
            fault, seconds = replace(fault, at_edges=True), seconds * share
        found = find_cure(program, fault, bench, seconds, math.inf if asked.cures_given else _left(report, asked))
    except GemmsmithError:
        return ()
    return (found,) if found is not None else ()


def _seconds(report: Report, asked: Asked) -> float:
    """Seconds for trying changes: those that the user gave, else what the check left of its own, and a few in any
    case."""
    if asked.cures_given:
        return asked.cures
    return min(asked.cures, max(_FEW_S, _left(report, asked)))


def _left(report: Report, asked: Asked) -> float:
    """What the check leaves of its own seconds, but for the last copy."""
    return asked.budget - report.seconds - _LAST_S


def find_remedies(report: Report, runner: TrialRunner, asked: Asked, check: Check) -> tuple[Suggestion, ...]:
    """Changes for limits of a kernel that is right: C that is read when beta = 0, and 32-bit indices. Each is tried on
    the trials that showed the limit, and on those that any change could break."""
    spec = runner.spec
    short = (bool(report.budget) and report.seconds > report.budget * _PATIENCE) or bool(second_kernel(spec))
    if not asked.cures > 0 or spec.is_rung or _is_copy(asked) or not report.ok or asked.device.wants_gpu or short:
        return ()
    limits = [(trial, verdict) for trial, verdict in report.verdicts if report.is_remark(trial, verdict)]
    failed = [trial for trial, verdict in limits if not verdict.trusted]
    kinds = ((overflows, [t for t in failed if t.label.startswith(LARGE)]),
             (beta_tested, [t for t in failed if t.label == UNREAD]))  # fmt: skip
    found = []
    try:
        program = program_of(spec, with_grid=not asked.options.grid) if failed else None
        for kind, trials in kinds:
            bench = _CopyBench(report, runner, asked, check, trials[0], frozenset()) if trials else None
            for candidate in kind(program) if program is not None and bench is not None else ():
                if bench is not None and program is not None and bench.passes_all(candidate, program, trials):
                    tried = "the trial passes" if len(trials) == 1 else f"all {len(trials)} trials pass"
                    found.append(suggestion_of(candidate, program.files, tried))
                    break
    except GemmsmithError:
        return tuple(found)
    return tuple(found)


def _is_copy(asked: Asked) -> bool:
    """Whether the text is one that a caller changed. A copy that is made so that a kernel can be launched (structs by
    value, overloads apart, two kernels joined) is made again from every changed text."""
    return bool(asked.options.launch.edited)


def _telling(report: Report) -> tuple[Trial, Verdict]:
    """The failed trial that tells most: swapped extents before what follows from them, then the first that counts,
    then one that no misaligned vector ends."""
    for trial, verdict in report.failed:
        if trial.label in (DISTINCT, VECTORS) or not report.only_warns(trial, verdict):
            return trial, verdict
    return report.failed[0]


@dataclass(frozen=True)
class _CopyBench:
    """Runs copies of a user's file: the failing trial alone, or the whole check."""

    report: Report
    runner: TrialRunner
    asked: Asked
    check: Check
    trial: Trial
    names: frozenset[str]

    def fails(self, edited: Edited, trial: Trial | None = None) -> Outcome | None:
        """One trial of a copy. A kernel that gave no product has to give one, in whatever layout."""
        try:
            spec, config = self._kernel(edited)
            problem, arch = self.trial.problem, self.runner.compiled.arch
            compiled = self.asked.cache.compiler(spec, config, problem, arch)
            if self.trial.label in LAUNCH_MISTAKES and trial is None:
                return Outcome(
                    launch_mistake(spec, config, problem, self.report.verdicts[-1][1], self.report.base) is None
                )
            if compiled.ptx == self.runner.compiled.ptx and not self._is_launch(spec):
                return None
            runner = replace(self.runner, spec=spec, config=config).with_code(compiled)
            if self._is_unread and trial is None:
                return self._product(runner)
            verdict = runner.run(trial or self.trial)
        except GemmsmithError:
            return None
        return Outcome(verdict.trusted, None if verdict.trusted else fault_of(verdict, self.names))

    def passes_all(self, candidate: Candidate, program: Program, trials: list[Trial]) -> bool:
        """Whether a copy passes some trials, and those that the kernel passed for its plain shapes."""
        edited = applied(candidate.edits, program.files)
        plain = [trial for trial, verdict in self.report.verdicts if verdict.trusted and trial.label in _SOON]
        outcomes = (self.fails(edited, trial) for trial in (*trials, *plain))
        return all(outcome is not None and outcome.cured for outcome in outcomes)

    def whole_check(self, edited: Edited) -> Outcome | None:
        try:
            report = self.check(*self._kernel(edited, settled=False), self.asked)
        except GemmsmithError:
            return None
        if not report.ok or not self._is_better(report):
            return self._what_is_left(report)
        passed = sum(verdict.trusted for _, verdict in report.verdicts)
        tried = f"all {passed} trials pass" if report.status in _RIGHT else f"it is then {report.restricted()}"
        return Outcome(True, tried=tried, expected=_layout(report) == _layout(self.report))

    @property
    def _is_unread(self) -> bool:
        """Whether the kernel gave no product at all, so that its layout is not known."""
        return self.report.settled.reading is None and not self.runner.spec.declared_signature

    def _product(self, runner: TrialRunner) -> Outcome | None:
        """Whether a copy gives a product of any layout; if it is the one assumed so far, the failing trial as well."""
        spec = runner.spec
        swapped = spec.signature.column_major
        own = spec.signature.transposed() if swapped else spec.signature
        # A square hides swapped extents.
        problem = max((t.problem for t in self.report.trials if t.problem.batch == 1 and _is_small(t.problem)),
                      key=lambda p: len({p.m, p.n, p.k}), default=self.trial.problem)  # fmt: skip
        shape = (problem.n, problem.m, problem.k) if swapped else (problem.m, problem.n, problem.k)
        found = find_readings(runner.open_device("lockstep", False), spec, runner.config, own, shape,
                              runner.compile_fn, runner.blocks)  # fmt: skip
        others = [read for reading in found if (read := reading.applied(spec)).signature != spec.signature
                  or read.layouts != spec.layouts]  # fmt: skip
        if others and len(others) == len(found):
            return Outcome(True)
        if self.report.settled.only and not found and self._gives_another(runner, own, shape):
            return Outcome(True)
        verdict = runner.run(self.trial)
        return Outcome(verdict.trusted, None if verdict.trusted else fault_of(verdict, self.names))

    def _gives_another(self, runner: TrialRunner, own: Signature, shape: tuple[int, int, int]) -> bool:
        """Whether a copy gives a product if two of M, N and K change their names: a kernel that is right for N = K
        alone does not tell which is which."""
        for one, other in (("N", "K"), ("M", "K"), ("M", "N")):
            swapped = {one: other, other: one}
            arguments = tuple(replace(each, role=swapped.get(each.role, each.role)) for each in own.arguments)
            signature = replace(own, arguments=arguments)
            spec = runner.spec.read_as(signature, runner.spec.layouts[0])
            if find_readings(runner.open_device("lockstep", False), spec, runner.config, signature, shape,
                             runner.compile_fn, runner.blocks):  # fmt: skip
                return True
        return False

    def _kernel(self, edited: Edited, settled: bool = True) -> tuple[KernelSpec, Config]:
        """The kernel of a copy; ``settled``: read as the original was."""
        options = self.asked.options
        launch = replace(options.launch, defines=options.pairs, edited=edited)
        spec = self._read(launch)
        if settled:
            own = self.runner.spec
            spec = replace(spec.read_as(own.signature, own.layouts[0]), dtypes=own.dtypes, arithmetic=own.arithmetic,
                           tensor_cores=own.tensor_cores, accumulator=own.accumulator,
                           rounds_again=own.rounds_again)  # fmt: skip
            if self.report.settled.launch_found:
                spec = replace(spec, geometry=own.geometry)
        return spec, spec.config()

    def _read(self, launch: UserOptions) -> KernelSpec:
        """The kernel with these options; where two make the product, both as one: the second finishes it, or the first
        prepares an operand or sets the result."""
        own, second = self.runner.spec, second_kernel(self.runner.spec)
        if not second:
            return user_kernel(Path(self.asked.kernel), launch)
        first = own.signature.entry.removesuffix(chained_name("", second))
        ways: list[tuple[Callable[[Path, UserOptions], KernelSpec | None], str]]
        ways = [(joined_kernel, launch.entry or first)]
        ways += [(partial(prepared_kernel, adds=adds), second) for adds in (False, True)]
        for read, entry in ways:
            with suppress(GemmsmithError):
                both = read(own.source, replace(launch, entry=entry))
                if both is not None and both.signature.entry == own.signature.entry:
                    return both
        raise UsageError(f"{first} and {second} are not understood in a changed copy")

    def _is_better(self, report: Report) -> bool:
        """Whether a copy is free of the failure; where the kernel is only restricted, of no new restriction either."""
        before, after = ({trial.label for trial, _ in each.failed} for each in (self.report, report))
        return self.trial.label not in after and (not self.report.ok or after < before)

    def _what_is_left(self, report: Report) -> Outcome | None:
        """The fault that a copy still has. Where the user's kernel has it as well, in a trial that was not reached, and
        all trials before pass, the change cured one of two faults."""
        failed = [(t, v) for t, v in report.failed if not report.only_warns(t, v)] or report.failed
        if not failed:
            return None
        trial, verdict = failed[0]
        fault = fault_of(verdict, self.names)
        earlier = {each.label for each, _ in self.report.verdicts}
        other = trial.label not in earlier and report.spec.signature == self.runner.spec.signature
        plain = replace(trial, hazards=trial.hazards and bool(fault.races))  # a race of the original would hide it
        before = self.runner.run(plain) if other else None
        same = before is not None and not before.trusted and self._is_same(before, fault)
        passed = sum(verdict.trusted for _, verdict in report.verdicts)
        tried = f"{passed} trials pass; a second fault is left, which the kernel has without this change, too: "
        return Outcome(False, fault, trial, same, f"{tried}{trial.label}")

    def _is_same(self, before: Verdict, fault: Fault) -> bool:
        """Whether the user's kernel shows this fault, beside the one that the change cured. Races of asynchronous
        copies are always looked for, so that wrong values may stand beside a race."""
        if before.hazards and not fault.races:
            return fault.kind == "value" and before.wrong > 0
        seen = fault_of(before, self.names).key
        if not fault.races:
            return seen == fault.key
        cured = next(fault_of(v, self.names).key for t, v in self.report.verdicts if t.label == self.trial.label)
        return fault.key <= seen and not fault.key & cured

    def _is_launch(self, spec: KernelSpec) -> bool:
        """Whether the copy is launched in another way."""
        try:
            return spec.geometry(self.trial.problem, spec.config()) != self.runner.spec.geometry(
                self.trial.problem, self.runner.config)  # fmt: skip
        except GemmsmithError:
            return False


def _is_small(problem: Problem) -> bool:
    return problem.m * problem.n * problem.k <= _SMALL


def _layout(report: Report) -> tuple[bool, str]:
    """Whether C is column-major, and which operands are transposed."""
    spec = report.settled.spec
    return spec.signature.column_major, spec.layouts[0]
