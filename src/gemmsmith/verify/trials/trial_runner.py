"""Runs the trials of one kernel, and of changed copies of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gemmsmith.call.binding import CompileFn
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Device
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.leniency import verify_unused
from gemmsmith.verify.trials.sparse_launch import sparse_reasons
from gemmsmith.verify.trials.trial import Size, Trial
from gemmsmith.verify.verdict import Verdict

OpenDevice = Callable[[str, bool], Device]
"""A fresh device, given the order of warps and whether races are looked for; simulators share parsed kernels."""


@dataclass(frozen=True)
class TrialRunner:
    """A kernel as compiled, and where it runs. ``run`` may be called for any trial, as often as needed.

    compile_fn  gives the code of each launch: a rung's prologue has kernels of its own
    blocks      the only ones that are run; None: all
    hurries     whether the seconds are used up: races are looked for no longer, but where a result is wrong
    """

    spec: KernelSpec
    config: Config
    compiled: CompiledKernel
    open_device: OpenDevice
    compile_fn: CompileFn
    blocks: Sequence[int] | None = None
    hurries: Callable[[], bool] = lambda: False

    def run(self, trial: Trial, explained: bool = True) -> Verdict:
        """The verdict on one launch. A wrong result is launched again to look for a race that explains it, if it is to
        be ``explained``."""
        hazards = trial.hazards and not self.hurries()
        verdict = self._launched(trial, hazards)
        if verdict.trusted or verdict.faults or hazards or trial.size is Size.SPARSE or not explained:
            return verdict
        watched = self._launched(trial, True)
        return watched if watched.faults else verdict

    def _launched(self, trial: Trial, hazards: bool) -> Verdict:
        device = self.open_device(trial.schedule, hazards)
        if trial.size is Size.SPARSE:
            return self._sparse(trial, device)
        sampled = trial.size is Size.BLOCKS
        judge = partial(verify_launch, device, self.spec, self.config, trial.problem,
                        blocks=trial.blocks if sampled else self.blocks, fill=trial.fill,
                        compile_fn=self.compile_fn, mode=trial.mode, written=trial.written if sampled else None,
                        guard_bytes=trial.slack or None, launches=trial.launches)  # fmt: skip
        verdict = verify_unused(lambda c: judge(c=c), self.spec, trial.c)
        again = trial.launches > 1 and not verdict.trusted
        return replace(verdict, reasons=(trial.why, *verdict.reasons)) if again else verdict

    def _sparse(self, trial: Trial, device: Device) -> Verdict:
        assert isinstance(device, SimDevice)
        found = sparse_reasons(device, self.spec, self.config, trial.problem, trial.blocks, trial.written,
                               self.compile_fn, trial.dry_k, trial.corner)  # fmt: skip
        return Verdict(
            kernel=self.spec.name, config=str(self.config), problem=trial.problem, device=device.name, mode="exact",
            fill="integers", seed=0, rho=0.0, gate=0.0, theory=0.0, where=None, got=None, expected=None, unwritten=0,
            wrong=0, total=trial.written, mistrusted=False, reasons=found, damage=(), repeat="",
        )  # fmt: skip

    def limited(self, seconds: float) -> TrialRunner:
        """The same, but no simulated launch takes longer: blocks or warps may wait for ever."""

        def opened(schedule: str, hazards: bool) -> Device:
            device = self.open_device(schedule, hazards)
            if isinstance(device, SimDevice):
                device.timeout = min(device.timeout, seconds)
            return device

        return replace(self, open_device=opened)

    def with_code(self, compiled: CompiledKernel) -> TrialRunner:
        """The same launches of another source, compiled by the caller."""
        return replace(self, compiled=compiled, compile_fn=lambda *_: compiled)

    def with_launch(self, geometry: Callable[[Problem, Config], Geometry]) -> TrialRunner:
        """The same code under another launch."""
        return replace(self, spec=replace(self.spec, geometry=geometry))
