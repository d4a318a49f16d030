"""Check a launch of any kernel: every order of warps, races, other data, and the expected result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gemmsmith.call.any_kernel.arguments import Argument, match_arguments
from gemmsmith.call.any_kernel.arrays import host_array
from gemmsmith.call.any_kernel.kernel import LaunchKernel, is_text
from gemmsmith.call.any_kernel.result import LaunchResult
from gemmsmith.call.any_kernel.spec import ArgumentList
from gemmsmith.call.any_kernel.symbols import match_symbols
from gemmsmith.call.launch import Launch, open_device, run_kernel
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import LaunchError, SimulationError
from gemmsmith.sim.device import Loads, SimDevice
from gemmsmith.sim.faults import KernelFaultError
from gemmsmith.sim.races.hazards import Hazard
from gemmsmith.sim.schedule import NAMES
from gemmsmith.verify.faults.explainer import Explainer, explained
from gemmsmith.verify.faults.fault_report import FaultReport
from gemmsmith.verify.faults.kernel_source import SourceOfKernel
from gemmsmith.verify.launch_expected import Tolerance, differences, expected_arrays
from gemmsmith.verify.trials.trial import ORDERS

GIVEN, PRESET = "the given data", "outputs preset to NaN"
_POISON = 0xFF


@dataclass(frozen=True)
class LaunchTrial:
    """One launch: its order of warps, and its data (see ``ArgumentList.values``)."""

    label: str
    schedule: str = "lockstep"
    fill: str = "given"
    seed: int = 0


@dataclass(frozen=True)
class TrialOutcome:
    """What a trial found: ``reasons`` for a failure, and ``notes``, which are none.

    ``faults`` tell the first ``told`` reasons with their source lines.
    """

    trial: LaunchTrial
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    prints: tuple[str, ...] = ()
    seconds: float = math.nan
    faults: tuple[FaultReport, ...] = ()
    told: int = 0

    @property
    def ok(self) -> bool:
        return not self.reasons


@dataclass(frozen=True)
class LaunchCheck:
    """The verdict on a launch.

    compared  whether the results were compared with expected ones
    skipped   trials that could not be made, with the reason
    """

    launch: Launch
    kernel: LaunchKernel
    device: str
    arguments: tuple[Argument, ...]
    outcomes: tuple[TrialOutcome, ...]
    compared: bool
    skipped: tuple[tuple[str, str], ...] = ()
    not_run: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return all(outcome.ok for outcome in self.outcomes)


@dataclass
class _Checker:
    """The trials of one launch, in order; ``first`` is the result of the first."""

    launch: Launch
    kernel: LaunchKernel
    device: str
    timeout: float
    loads: Loads = field(default_factory=dict)
    first: LaunchResult | None = None
    arguments: tuple[Argument, ...] = field(default=())

    def run(self, trial: LaunchTrial) -> TrialOutcome:
        arguments = self._arguments(trial)
        where = open_device(self.device, self.kernel.compiled.arch, trial.schedule, True, False, self.timeout)
        if isinstance(where, SimDevice):
            where.loads = self.loads  # parsed once for all trials
        try:
            result = run_kernel(self.kernel, self.launch.geometry, arguments, where,
                                match_symbols(self.kernel, self.launch.symbols))  # fmt: skip
        except (SimulationError, LaunchError) as error:
            where_it_was = error.hint.replace("\n", "; ")  # instruction, source line, block and thread
            said = "; ".join(filter(None, (error.message, where_it_was)))
            if trial.fill == "poison":
                return TrialOutcome(trial, notes=(f"its outputs must be zero before the launch, or else: {said}",))
            if not isinstance(error, KernelFaultError):
                return TrialOutcome(trial, (said,))
            fault = error.fault
            made = explained(lambda: [self._explainer().fault(fault)])
            notes_of_fault = tuple(getattr(where, "notes", ()))
            return TrialOutcome(trial, (said,), notes_of_fault, faults=tuple(made), told=len(made))
        reasons = [*map(str, result.hazards), *result.damage]
        notes: list[str] = []
        own = list(result.notes)
        told = explained(lambda: self._explainer().races(result.hazards)) if result.hazards else []
        covered = len(result.hazards) if told else 0
        if trial.fill == "poison":
            reasons, notes, told, covered = [], list(self._preset_notes(result)), [], 0
        elif self.launch.expect is not None:
            wrong, ties = self._compared(trial, arguments, result)
            reasons, notes = [*reasons, *wrong], ties
        elif self.first is not None and trial.seed == 0 and trial.fill == "given":
            reasons += self._order_matters(result)
        if self.first is None:
            self.first, self.arguments = result, arguments
        said_too = tuple(dict.fromkeys((*notes, *own)))
        return TrialOutcome(trial, tuple(reasons), said_too, result.hazards, result.prints, result.seconds,
                            tuple(told), covered)  # fmt: skip

    def _explainer(self) -> Explainer:
        given = {name: str(value) for name, value in self.launch.defines.items()}
        folders = self.launch.include
        include = (folders,) if isinstance(folders, (str, os.PathLike)) else tuple(folders)
        path = Path(self.kernel.file if is_text(self.launch.source) else os.fspath(self.launch.source))
        return Explainer(SourceOfKernel(path, self.kernel.name, given, tuple(map(Path, include))))

    def _arguments(self, trial: LaunchTrial) -> tuple[Argument, ...]:
        """The arguments of a trial. Only what the kernel may write is preset: a const array of zeros is an input."""
        words = self.launch.arguments
        if words is None:
            return match_arguments(self.kernel, _given(self.launch))
        made = match_arguments(self.kernel, words.values(trial.seed, trial.fill))
        if trial.fill != "poison":
            return made
        given = match_arguments(self.kernel, words.values(trial.seed))
        return tuple(new if new.writable else old for new, old in zip(made, given, strict=True))

    def _compared(
        self, trial: LaunchTrial, arguments: Sequence[Argument], result: LaunchResult
    ) -> tuple[list[str], list[str]]:
        """What is wrong, and what may be due to ties: among small integers many are equal, as real data rarely are.

        An index that a kernel chose among equal elements is no mistake.
        """
        assert self.launch.expect is not None
        wrong: list[str] = []
        ties: list[str] = []
        expected = expected_arrays(self.launch.expect, arguments, _changed(arguments, result))
        tolerance = Tolerance(self.launch.rtol, self.launch.atol)
        for name, values in expected.items():
            if text := differences(name, result[name], values, tolerance, trial.fill == "integers"):
                if trial.fill == "integers" and _stacked(result[name]).dtype.kind in "iub":
                    ties.append(f"with small integers, {text}: right if ties are broken in another way")
                else:
                    wrong.append(text)
        return wrong, ties

    def _order_matters(self, result: LaunchResult) -> Iterator[str]:
        """Without an expected result, another order of warps must give the same one."""
        assert self.first is not None
        tolerance = Tolerance(self.launch.rtol, self.launch.atol)
        for name, value in self.first.by_name.items():
            if text := differences(name, result[name], _stacked(value), tolerance):
                yield f"the result depends on the order of warps: {text.replace('expected', 'in lockstep')}"

    def _preset_notes(self, result: LaunchResult) -> Iterator[str]:
        """What the kernel left as it was, or read before it wrote it."""
        assert self.first is not None
        for name, value in self.first.by_name.items():
            before, after = (np.ascontiguousarray(_stacked(each)) for each in (value, result[name]))
            if before.tobytes() == after.tobytes() or not after.size:
                continue
            rows = after.reshape(-1).view(np.uint8).reshape(after.size, -1)
            kept = int((rows == _POISON).all(axis=1).sum())
            if kept:
                yield f"{kept} of {after.size} elements of {name} are not written: they keep what {name} held before"
            else:
                yield f"the result depends on what {name} held before the launch: the kernel adds to it, or reads it"


def check_launch(
    launch: Launch,
    device: str = "sim",
    *,
    arch: str = "",
    timeout: float = math.inf,
    cache: CompileCache | None = None,
    advance: Callable[[], None] = lambda: None,
    choose: Callable[[list[LaunchTrial]], list[LaunchTrial]] = lambda trials: trials,
    most: int | None = None,
) -> LaunchCheck:
    """Run the trials that ``choose`` chooses, or the first ``most`` of them, up to the first that fails.

    The first of all is always run: the others are compared with it. ``advance`` is called after each.
    """
    first = open_device(device, arch, "lockstep", False, False, timeout)
    kernel = launch.compile(arch or first.arch, cache)
    first.load(kernel.compiled)  # an instruction that the device lacks is no verdict on the kernel
    checker = _Checker(launch, kernel, device, timeout, first.loads if isinstance(first, SimDevice) else {})
    every = list(trials(launch, device))
    chosen = choose(every)
    planned = [trial for trial in every if trial in chosen or trial is every[0]]
    outcomes: list[TrialOutcome] = []
    for trial in planned[:most]:
        outcomes.append(checker.run(trial))
        advance()
        if not outcomes[-1].ok:
            break  # later failures often follow from the first
    arguments = checker.arguments or match_arguments(kernel, _given(launch))
    left = tuple(trial.label for trial in planned[len(outcomes) :])
    return LaunchCheck(launch, kernel, first.name, arguments, tuple(outcomes), launch.expect is not None,
                       tuple(_skipped(launch, device)), left)  # fmt: skip


def trials(launch: Launch, device: str) -> Iterator[LaunchTrial]:
    """The trials of a launch: the order that hides most mistakes first, so that plain ones are named plainly."""
    yield LaunchTrial(GIVEN)
    if device == "sim":
        for schedule in NAMES[1:]:
            yield LaunchTrial(ORDERS[schedule], schedule)
    words = launch.arguments
    if words is None:
        return
    if words.has_random_reals:
        yield LaunchTrial("small integers in place of random numbers", fill="integers")
    if words.is_random:
        yield LaunchTrial("other random numbers", seed=1)
    if words.has_blanks and device == "sim":  # on a GPU a fault would end the process's context
        yield LaunchTrial(PRESET, fill="poison")


def _given(launch: Launch) -> Sequence[Any] | Mapping[str, Any]:
    words: ArgumentList | None = launch.arguments
    values = words.values() if words is not None else launch.args
    assert not isinstance(values, str)
    return values


def _skipped(launch: Launch, device: str) -> Iterator[tuple[str, str]]:
    if device != "sim":
        yield "other orders of warps, races", "only the simulator can choose the order of warps and find races"
    if launch.expect is None:
        yield "comparison with an expected result", "no function computes it: give --expect"


def _changed(arguments: Sequence[Argument], result: LaunchResult) -> list[str]:
    """The arrays whose bytes the launch changed."""
    found = []
    for argument in arguments:
        table = np.stack([host.values for host in argument.arrays]) if argument.is_table else None
        for name, host in argument.outputs:
            old = host.values if table is None else table
            if np.ascontiguousarray(old).tobytes() != np.ascontiguousarray(_stacked(result[name])).tobytes():
                found.append(name)
    return found


def _stacked(value: Any) -> Any:
    if isinstance(value, list):
        return np.stack([host_array("", each).values for each in value])
    return host_array("", value).values
