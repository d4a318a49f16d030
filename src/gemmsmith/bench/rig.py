"""What a measurement runs on, and how: handed to every shape unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from gemmsmith.bench.clocks import NoProbe, Probe, open_probe
from gemmsmith.bench.limits import Limits
from gemmsmith.bench.rotation import Memory
from gemmsmith.bench.rounds import SAMPLE_SECONDS
from gemmsmith.bench.stopwatch import CudaStopwatch, Stopwatch
from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.gpus import gpu_of_device
from gemmsmith.run.cuda import CudaDevice

Listener = Callable[[str], None]


def _silent(_text: str) -> None:
    pass


@dataclass(frozen=True)
class Plan:
    """How to measure.

    precision  stop when half of the median's interval is at most this part of it
    budget     or after so many seconds a shape; streams and hot caches get a fifth of it each, besides
    quick      only graphs with cold caches
    sample     seconds that one sample lasts, at least
    """

    precision: float = 0.005
    budget: float = 5.0
    quick: bool = False
    seed: int = 0
    sample: float = SAMPLE_SECONDS

    def __post_init__(self) -> None:
        if not 0 < self.precision < 1:
            raise UsageError(f"a precision of {self.precision:g} is not between 0 and 1", "0.005 is half a per cent")
        if not (self.budget > 0 and math.isfinite(self.budget)):
            raise UsageError(f"a budget of {self.budget:g} seconds is not positive")
        if not 0 < self.sample <= self.budget:
            raise UsageError(f"a sample of {self.sample:g} s must be positive and fit the budget of {self.budget:g} s")


@dataclass(frozen=True)
class Rig:
    """A GPU's memory, stopwatch and limits, a probe of its clocks, and who listens.

    step   told what is being done now
    note   told what was skipped and why, and what else a reader must know
    """

    memory: Memory
    stopwatch: Stopwatch
    limits: Limits
    l2_bytes: int
    probe: Probe = field(default_factory=NoProbe)
    step: Listener = _silent
    note: Listener = _silent


@contextmanager
def cuda_rig(device: CudaDevice, step: Listener = _silent, note: Listener = _silent) -> Iterator[Rig]:
    """A GPU's rig; notes what is not known about the GPU."""
    gpu = gpu_of_device(device.name, device.sms)
    if gpu is None:
        note(f"{device.name} with {device.sms} SMs is not in the table of GPUs: its limits are unknown")
    stopwatch, probe = CudaStopwatch(device), open_probe(device.pci_bus_id)
    if probe.note:
        note(probe.note)
    try:
        yield Rig(device, stopwatch, Limits(gpu, device.max_mhz, device.l2_bytes), device.l2_bytes, probe, step, note)
    except BaseException:
        with suppress(GemmsmithError):  # after a fault the driver refuses this as well; the first error says why
            stopwatch.close()
        raise
    else:
        stopwatch.close()
    finally:
        probe.close()
