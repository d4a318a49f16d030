"""What measurements run on (``Rig``) and how they are timed (``TimingPolicy``); both are the same for all shapes."""

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
class TimingPolicy:
    """How long and how precisely to time.

    precision  stop when half the median's confidence interval is at most this fraction of the median
    budget     or after this many seconds per shape; stream and hot-cache timings get a fifth of it each, in addition
    quick      time only graphs with cold caches
    sample     the minimum length of one sample, in seconds
    """

    precision: float = 0.005
    budget: float = 5.0
    quick: bool = False
    seed: int = 0
    sample: float = SAMPLE_SECONDS

    def __post_init__(self) -> None:
        if not 0 < self.precision < 1:
            raise UsageError(
                f"the precision must be between 0 and 1, not {self.precision:g}", "0.005 is half a per cent"
            )
        if not (self.budget > 0 and math.isfinite(self.budget)):
            raise UsageError(f"the budget must be positive, not {self.budget:g} seconds")
        if not 0 < self.sample <= self.budget:
            raise UsageError(
                f"the sample must be positive and within the budget of {self.budget:g} s, not {self.sample:g} s"
            )


@dataclass(frozen=True)
class Rig:
    """A GPU's memory, stopwatch, limits and clock probe, and two callbacks.

    step   receives the current step, for a progress bar
    note   receives what was skipped and why, and other remarks for the reader
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
    """The rig of a CUDA GPU; notes what is unknown about the GPU."""
    gpu = gpu_of_device(device.name, device.sms)
    if gpu is None:
        note(f"{device.name} with {device.sms} SMs is not in the GPU table: its limits are unknown")
    stopwatch, probe = CudaStopwatch(device), open_probe(device.pci_bus_id)
    if probe.note:
        note(probe.note)
    try:
        yield Rig(device, stopwatch, Limits(gpu, device.max_mhz, device.l2_bytes), device.l2_bytes, probe, step, note)
    except BaseException:
        with suppress(GemmsmithError):  # after a fault the driver refuses this too; keep the first error
            stopwatch.close()
        raise
    else:
        stopwatch.close()
    finally:
        probe.close()
