"""The trials that fit one kernel, as many as a check's seconds allow; and what is added to a report after a failure."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gemmsmith.cli.check_clock import CheckClock
from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.launch_report import hints, repeat_words
from gemmsmith.cli.options.groups import option_words
from gemmsmith.cli.render.check_report import Report
from gemmsmith.verify.harness import no_launch
from gemmsmith.verify.trials.check_shapes import tile_of_grid, work_of
from gemmsmith.verify.trials.edge_trials import edge_trials, full_count
from gemmsmith.verify.trials.fair_order import fair_order, too_slow
from gemmsmith.verify.trials.fit import fit_subject
from gemmsmith.verify.trials.trial import (
    GUARDED,
    MEANT,
    MORE_TILES,
    ODD,
    ODD_MEANT,
    OTHER_SIZE,
    RAGGED,
    RANDOM,
    TILES,
    UNREAD,
    VECTORS,
    Trial,
)
from gemmsmith.verify.trials.trial_paces import Paces
from gemmsmith.verify.trials.trial_runner import TrialRunner
from gemmsmith.verify.verdict import Verdict, is_hazard, is_misaligned, refuses_extent

SPARE = 1 / 4  # of the budget, for the last trial, the certificate and the report
_LAST = 2.0  # seconds of the budget, for the last of them and the report
_DEEP = 1000  # a K of many k-tiles
_DEEP_WORK = 2**22  # multiply-adds of one launch that is run though no seconds are left
_DEEP_SECONDS = 4.0  # that it may take


@dataclass
class FittedTrials:
    """The trials that wait, and how long those took that ran. ``clock`` counts the check's seconds.

    postponed  too costly for the seconds that were left
    """

    runner: TrialRunner
    report: Report
    asked: Asked
    clock: CheckClock
    advance: Callable[[], None]
    queue: deque[Trial] = field(default_factory=deque)
    postponed: list[Trial] = field(default_factory=list)
    paces: Paces = field(default_factory=Paces)
    spent: float = 0.0
    ran: int = 0
    pace: float = 0.0  # seconds per multiply-add of trials of many tiles
    most_rows: tuple[int, float] = (0, 0.0)  # of these: the most rows, and the seconds for each
    most_columns: tuple[int, float] = (0, 0.0)
    fair: bool = False
    hurried: bool = False  # races were not looked for at all shapes that tell the multiples

    def plan(self) -> bool:
        """Find the shapes that fit, and their trials. False where the shapes themselves show a mistake."""
        report, asked = self.report, self.asked
        run = {trial.label: verdict for trial, verdict in report.verdicts}
        ragged = next((trial for trial, _ in report.verdicts if trial.label == RAGGED), report.ragged)
        if RAGGED in run and run[RAGGED].trusted:
            ragged = None
        report.budget = asked.budget
        # Where none of them would be run, looking for them only takes the certificate's seconds.
        if ragged is None and asked.free and self._left(SPARE * asked.budget) < 0:
            report.skipped.append(
                ("trials chosen for this kernel", f"no time in {asked.budget:g} s; gemmsmith verify --full runs them")
            )
            return True
        judged = run.get(RAGGED) if ragged and not report.ruled_out(ragged) else None
        subject, found = fit_subject(replace(self.runner, hurries=self._hurries), report.base, self._c,
                                     (ragged, judged) if ragged else None, report.square)  # fmt: skip
        if self.hurried:
            report.skipped.append(("races at other sizes", f"no time in {asked.budget:g} s"))
        report.multiples = found.multiples
        if found.trial is not None and found.verdict is not None:
            whole = found.wrong == "K" and found.trial.problem.k % subject.depth == 0
            label = MEANT if found.told else OTHER_SIZE if whole or is_hazard(found.verdict) else GUARDED
            return self._judge(replace(found.trial, label=label), found.verdict, always=True)
        odd = next(((trial, verdict) for trial, verdict in report.verdicts if trial.label == ODD), None)
        if odd and subject.edges.looks_at_alignment and not odd[1].trusted and not refuses_extent(odd[1]):
            return self._judge(replace(odd[0], label=ODD_MEANT), odd[1], always=True)
        if (vectors := _whole_vectors(report, self.runner, run.get(RAGGED), ragged)) is not None:
            verdict = self.runner.run(vectors)
            report.verdicts.append((vectors, replace(verdict, repeat=repeat_of(verdict, asked, report))))
        planned = [trial for trial in edge_trials(subject) if not report.ruled_out(trial)]
        report.trials += planned
        report.more = full_count(subject) - len(planned)
        report.unreached = subject.coverage.unreached
        self.queue.extend(planned)
        return True

    def run(self) -> bool:
        """Whether they pass, in the seconds before the certificate's."""
        return self._run_until(SPARE * self.asked.budget) and self._run_rounds() and self._run_deep()

    def run_rest(self) -> bool:
        """The same in the seconds that the certificate left."""
        self.queue.extend(trial for trial in self.postponed if trial not in self.queue)
        return self._run_until(_LAST)

    def _run_rounds(self) -> bool:
        """Whether more tiles than the largest grid has blocks pass, which are run though no seconds are left: what a
        block leaves of one tile to its next is seen in few other trials."""
        waiting = [trial for trial in self.queue if trial.label.startswith(MORE_TILES)]
        if not waiting or work_of(waiting[0].problem) > _DEEP_WORK:
            return True
        self.queue.remove(waiting[0])
        self.advance()
        return self._judge(waiting[0], self.runner.run(waiting[0]))

    def _run_deep(self) -> bool:
        """Whether one tile with many k-tiles passes, which is run though no seconds are left: what goes wrong after the
        first k-tiles is seen in no other trial. Of bytes: the largest sums, which may not fit their accumulators."""
        if max(trial.problem.k for trial, _ in self.report.verdicts) >= _DEEP:
            return True
        deep = [trial for trial in self.queue if trial.problem.k >= _DEEP]
        waiting = [trial for trial in deep if trial.fill == "largest"] or [t for t in deep if t.group == "K"]
        trial = waiting[0] if waiting else self._deep_trial()
        if trial is None or work_of(trial.problem) > _DEEP_WORK:
            return True
        if waiting:
            self.queue.remove(trial)
        shorter = self._in_few_seconds(trial)
        if shorter is None:
            return True
        self.advance()
        return self._judge(shorter, self.runner.run(shorter))

    def _in_few_seconds(self, trial: Trial) -> Trial | None:
        """A trial of many k-tiles with fewer of them, where steps along K are slow; None where that is none more than
        were run before."""
        seconds, asked = self.paces.for_depth(trial), trial.problem
        if seconds <= _DEEP_SECONDS or asked.k in (asked.m, asked.n):  # that deep only if extents must be equal
            return trial
        problem = self.report.multiples.up(asked.with_(k=int(asked.k * _DEEP_SECONDS / seconds)))
        if problem.k <= max(before.problem.k for before, _ in self.report.verdicts):
            return None
        return replace(trial, label=f"K = {problem.k}", problem=problem)

    def _deep_trial(self) -> Trial | None:
        """One tile with many k-tiles, of a kernel that takes any shape, where nothing was planned."""
        report, spec = self.report, self.runner.spec
        if self.queue or self.postponed or report.square or spec.signature.square or spec.signature.tied:
            return None
        if not any(trial.label == RAGGED and verdict.trusted for trial, verdict in report.verdicts):
            return None
        m, n = tile_of_grid(spec, self.runner.config)
        problem = report.base.with_(m=m, n=n, k=_DEEP + 3)
        trial = Trial(f"K = {problem.k}", problem, "float", "normal", "lockstep", self._c, False, group="K")
        return None if no_launch(spec, self.runner.config, problem) else trial

    @property
    def _c(self) -> str:
        """What C holds before a launch: anything, if the kernel is known not to read it when beta = 0."""
        spared = any(trial.label == UNREAD and verdict.trusted for trial, verdict in self.report.verdicts)
        return "unset" if spared and self.report.trials[0].c == "set" else self.report.trials[0].c

    def _hurries(self) -> bool:
        """Whether the seconds before the certificate's are used up."""
        late = self.asked.free and self._left(SPARE * self.asked.budget) < 0
        self.hurried = self.hurried or late
        return late

    def _left(self, spare: float) -> float:
        return self.asked.budget - spare - self.clock.used()

    def _run_until(self, spare: float) -> bool:
        deferred = set[Trial]()  # behind all others, once
        while self.queue and (left := self._left(spare)) >= 0:
            if not self.fair and too_slow(self.ran, self.spent, len(self.queue), left):
                self.queue, self.fair = deque(fair_order(self.queue)), True
            trial = self.queue.popleft()
            costly = trial.group == TILES and self._about(trial) > max(1.0, left / 3)
            if costly or self.paces.at_least(trial) > left:
                if trial not in deferred:
                    deferred.add(trial)
                    self.queue.append(trial)
                else:  # it is named among those that were not run
                    self.postponed.append(trial)
                continue
            before = self.clock.work()
            verdict = self.runner.run(trial)
            self.took(trial, self.clock.work() - before)
            self.advance()
            if not self._judge(trial, verdict):
                return False
        return True

    def took(self, trial: Trial, seconds: float) -> None:
        """Count the seconds of a trial for what others will take."""
        self.paces.ran(trial, seconds)
        self.spent, self.ran = self.spent + seconds, self.ran + 1
        if trial.group == TILES:
            rows, columns = max(1, trial.problem.m), max(1, trial.problem.n)
            self.pace = max(self.pace, seconds / work_of(trial.problem))
            self.most_rows = max(self.most_rows, (rows, seconds / rows))
            self.most_columns = max(self.most_columns, (columns, seconds / columns))

    def _about(self, trial: Trial) -> float:
        # A block may walk over all rows, however few columns there are, or over all columns.
        along = max(trial.problem.m * self.most_rows[1], trial.problem.n * self.most_columns[1])
        return max(self.pace * work_of(trial.problem), self.paces.for_outputs(trial), along)

    def _judge(self, trial: Trial, verdict: Verdict, always: bool = False) -> bool:
        """Add a verdict to the report; whether the check goes on."""
        report = self.report
        report.verdicts.append((trial, replace(verdict, repeat=repeat_of(verdict, self.asked, report))))
        if not always and (verdict.trusted or report.only_warns(trial, verdict)):
            return True
        after_failure(self.runner, trial, verdict, report, self.asked)
        return False


def _whole_vectors(report: Report, runner: TrialRunner, verdict: Verdict | None, ragged: Trial | None) -> Trial | None:
    """A ragged shape at which no vector is misaligned, for a kernel that needs more than whole vectors: a misaligned
    access ends a launch before anything else is seen."""
    base, found, vector = report.base, report.multiples, max(1, 16 // report.base.dtype.itemsize)
    if verdict is None or ragged is None or report.square or not is_misaligned(verdict):
        return None
    axes = [axis for axis in "mnk" if getattr(found, axis) > vector]
    for times in (1, 2):  # a grid that is rounded down may have no blocks for less than one tile
        shorter = {axis: times * getattr(base, axis) - vector for axis in axes}
        problem = base.with_(**{axis: extent for axis, extent in shorter.items() if extent > 0})
        if problem != base and not no_launch(runner.spec, runner.config, problem):
            return replace(ragged, label=VECTORS, problem=problem)
    return None


def repeat_of(verdict: Verdict, asked: Asked, report: Report) -> str:
    """The command that repeats one launch; of a sparse one, and of two kernels, the whole check; of a race, a check of
    that shape, since ``run`` looks for none."""
    whole = ["gemmsmith", "check", asked.kernel, *option_words(asked.options, asked.checks)]
    if not verdict.repeat or getattr(report.spec.geometry, "second", None) is not None:
        return shlex.join(whole)
    if verdict.hazards:
        m, n, k = report.shape_of(verdict.problem).split("x")
        return shlex.join([*whole[:3], "--m", m, "--n", n, "--k", k, *whole[3:], "--trial", RANDOM])
    words = repeat_words(asked.options.launch, asked.device.device, asked.checks, "lockstep", 0)
    return shlex.join([*shlex.split(verdict.repeat), *words])


def after_failure(runner: TrialRunner, trial: Trial, verdict: Verdict, report: Report, asked: Asked) -> None:
    """Add to the report what explains a failure."""
    user = replace(asked.options.launch, defines=runner.spec.extra_defines)
    # A wrong launch would have failed before the ragged trial, which is the last.
    report.hints = hints(runner.spec, report.launch, user, verdict, suspect_launch=trial.label != RAGGED)
