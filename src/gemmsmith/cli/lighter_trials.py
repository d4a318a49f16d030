"""The trials that every kernel gets, on fewer tiles: for a kernel that takes the simulator long.

A kernel with a block for each output, or one whose blocks walk over all of C, would use up the seconds of a check on
its plain trials. Then nothing that fits the kernel would be tried, such as the K at which its code changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.harness import no_launch
from gemmsmith.verify.trials.check_shapes import few_tiles, work_of
from gemmsmith.verify.trials.trial import DISTINCT, RANDOM, Trial

_SHARE = 1 / 2  # of the seconds that are left: more is not spent on plain trials, where fewer tiles do


@dataclass
class LighterTrials:
    """By label, the trials that may stand in for larger ones; and the larger ones that were replaced."""

    light: dict[str, Trial] = field(default_factory=dict)
    replaced: dict[str, Trial] = field(default_factory=dict)

    def lighten(self, waiting: list[Trial], pace: float, left: float) -> list[Trial]:
        """The trials that wait, on fewer tiles where they would take most of the seconds that are left.

        pace  seconds for each multiply-add
        """
        if pace * sum(work_of(trial.problem) for trial in waiting) <= _SHARE * left:
            return waiting
        return [self._lightened(trial) for trial in waiting]

    def _lightened(self, trial: Trial) -> Trial:
        light = self.light.get(trial.label, trial)
        if 2 * work_of(light.problem) > work_of(trial.problem):
            return trial
        self.replaced[light.label] = trial
        return light

    def restored(self, waiting: list[Trial]) -> list[Trial]:
        """The trials that wait as they were; none is replaced from now on."""
        self.light.clear()
        return [self.replaced.pop(trial.label, trial) for trial in waiting]

    def larger(self, trial: Trial) -> Trial | None:
        """The trial that a lighter one stands for; None for others."""
        return self.replaced.pop(trial.label, None)


def lighter_trials(
    spec: KernelSpec, config: Config, base: Problem, distinct: Problem,
    planned: Callable[[Problem, Problem], Iterable[Trial]],
) -> LighterTrials:  # fmt: skip
    """``planned`` gives the trials of a base shape and of one with M, N and K all different."""
    fewer, other = few_tiles(spec, config, base), few_tiles(spec, config, distinct)
    light = {trial.label: trial for trial in planned(fewer, other) if not no_launch(spec, config, trial.problem)}
    if fewer == other and RANDOM in light:  # the base shape itself has M, N and K all different then
        light[DISTINCT] = replace(light[RANDOM], label=DISTINCT)
    return LighterTrials(light)
