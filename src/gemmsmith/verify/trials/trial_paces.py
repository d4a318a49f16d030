"""How long a trial takes at least, from those that ran before it: a budget of seconds is kept by not beginning it."""

from __future__ import annotations

import math

from gemmsmith.verify.trials.check_shapes import work_of
from gemmsmith.verify.trials.trial import Size, Trial

_GROWS = 5  # times as many multiply-adds a second in a large launch as in a small one, at most
_DEEP = 4096  # K from which steps along K take the time of a launch of some blocks


class Paces:
    """The least seconds for each unit of work that was seen: of whole launches, and of launches of some blocks; and for
    each output and each step along K of whole launches, since what a block does beside its sums takes time at any K,
    and no launch takes fewer steps along K for having fewer blocks."""

    def __init__(self) -> None:
        self._least: dict[bool, float] = {}
        self._for_output = self._for_step = math.inf

    def ran(self, trial: Trial, seconds: float) -> None:
        whole, work = _work(trial)
        self._least[whole] = min(self._least.get(whole, seconds / work), seconds / work)
        if whole:
            self._for_output = min(self._for_output, seconds / _outputs(trial))
            self.stepped(trial, seconds)

    def stepped(self, trial: Trial, seconds: float) -> None:
        """Count a whole launch for its steps along K alone; races may have been looked for, which takes longer."""
        self._for_step = min(self._for_step, seconds / max(1, trial.problem.k))

    def at_least(self, trial: Trial) -> float:
        """Seconds that a trial will take at least; 0 where nothing is known."""
        whole, work = _work(trial)
        if not whole and whole not in self._least and trial.problem.k >= _DEEP:
            return self.for_depth(trial)
        return self._least.get(whole, 0.0) * work / (_GROWS if whole else 1)

    def for_depth(self, trial: Trial) -> float:
        """Seconds that the steps along K alone will take; 0: nothing is known."""
        return self._for_step * trial.problem.k if math.isfinite(self._for_step) else 0.0

    def for_outputs(self, trial: Trial) -> float:
        """Seconds that a whole launch of a small K will take, by the outputs of those before; 0: nothing is known."""
        return self._for_output * _outputs(trial) if math.isfinite(self._for_output) else 0.0


def _outputs(trial: Trial) -> int:
    return max(1, trial.problem.batch * trial.problem.m * trial.problem.n)


def _work(trial: Trial) -> tuple[bool, int]:
    """Whether all blocks run, and what the time grows with: multiply-adds, or K for each block."""
    if trial.size is Size.WHOLE:
        return True, work_of(trial.problem)
    return False, max(1, len(trial.blocks) * trial.problem.k)
