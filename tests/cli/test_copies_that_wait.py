"""A changed copy of a kernel may wait for ever: its launches end with the seconds for cures."""

from __future__ import annotations

from typing import cast

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.trials.trial_runner import TrialRunner


def _timeout(own: float, seconds: float) -> float:
    compiled = cast(CompiledKernel, None)
    runner = TrialRunner(
        cast(KernelSpec, None), cast(Config, None), compiled, lambda *_: SimDevice(timeout=own), lambda *_: compiled
    )
    device = runner.limited(seconds).open_device("lockstep", False)
    assert isinstance(device, SimDevice)
    return device.timeout


def test_launches_of_copies_are_limited() -> None:
    assert _timeout(60.0, 4.0) == 4.0
    assert _timeout(2.0, 4.0) == 2.0
