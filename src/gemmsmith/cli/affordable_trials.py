"""Which of the trials that any kernel is given a check's seconds allow."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.render.check_report import Report
from gemmsmith.verify.trials.check_shapes import work_of
from gemmsmith.verify.trials.trial import ODD, Trial

_ORDERS = 4  # of warps; after them come the trials that fit the kernel, which tell more
_ORDER_COST = 4  # times as long as lockstep, where each warp runs by itself: 3 to 7 for 8 to 32 warps


@dataclass
class PlainPace:
    """Seconds for each multiply-add of the slowest launch before: in lockstep, and in another order of warps."""

    lockstep: float = 0.0
    order: float = 0.0

    def ran(self, trial: Trial, seconds: float) -> None:
        pace = seconds / work_of(trial.problem)
        if _is_order(trial):
            self.order = max(self.order, pace)
        else:
            self.lockstep = max(self.lockstep, pace)

    def seconds(self, trial: Trial) -> float:
        """About how long a trial will take."""
        pace = (self.order or _ORDER_COST * self.lockstep) if _is_order(trial) else self.lockstep
        return pace * work_of(trial.problem)

    @property
    def slowest(self) -> float:
        return max(self.lockstep, self.order)


def affordable(waiting: list[Trial], pace: PlainPace, left: float, report: Report, asked: Asked) -> Trial | None:
    """The first of the trials that wait, without a search for races where seconds are short; None where it is left out,
    which the report says."""
    trial = waiting[0]
    others = sum(pace.seconds(each) for each in waiting[1:] if not _is_order(each))
    seconds = pace.seconds(trial) * (_ORDERS if _is_order(trial) else 1)
    short = asked.free and others + seconds > left
    if short and _is_order(trial):
        report.skipped.append((trial.label, f"no time in {asked.budget:g} s"))
        return None
    if short and (watched_before(trial, report) or (left <= 0 and watched_any(trial, report))):
        report.skipped.append((f"races in '{trial.label}'", f"no time in {asked.budget:g} s"))
        return replace(trial, hazards=False)
    return trial


def watched_before(trial: Trial, report: Report) -> bool:
    """Whether races were looked for before, in a launch of the same order that has other data or padded rows only."""
    own = trial.problem.with_()  # without padding
    return trial.hazards and trial.label != ODD and any(
        each.hazards and each.schedule == trial.schedule and each.problem.with_() == own
        for each, _ in report.verdicts
    )  # fmt: skip


def watched_any(trial: Trial, report: Report) -> bool:
    """Whether races were looked for in any launch before."""
    return trial.hazards and any(each.hazards for each, _ in report.verdicts)


def _is_order(trial: Trial) -> bool:
    """Whether a trial is there for its order of warps alone."""
    return trial.schedule != "lockstep"
