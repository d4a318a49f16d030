"""The GPU's conditions while it is timed: SM clock, power, temperature and throttle reasons, read through NVML.

A thread samples during the runs. All contenders of a shape run interleaved, so they share the conditions. NVML may be
missing or refuse a reading (containers, virtual GPUs): that reading is NaN, and no measurement fails.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Any, Protocol

from gemmsmith.store.results import Conditions

_INTERVAL = 0.02  # seconds between samples; NVML updates its clock reading about as often
# Bits of NVML's clock-event reasons. Bit 0 (idle) and bit 1 (the user's clock setting) are not throttling.
REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
    0x100: "display clock",
    0x200: "board limit",
    0x400: "reliability",
}
_SM_CLOCK, _GPU_SENSOR = 1, 0  # NVML's numbers


@dataclass(frozen=True)
class Reading:
    """One NVML sample; NaN for a value that could not be read."""

    sm_mhz: float = math.nan
    power_w: float = math.nan
    temperature_c: float = math.nan
    reasons: int = 0


class Probe(Protocol):
    """Samples a GPU."""

    note: str

    def read(self) -> Reading:
        """The current readings; never raises."""

    def close(self) -> None:
        """Release the GPU."""


class NoProbe:
    """Used if NVML is missing: all readings are NaN, and ``note`` says why."""

    def __init__(self, note: str = "") -> None:
        self.note = note

    def read(self) -> Reading:
        return Reading()

    def close(self) -> None:
        pass


class NvmlProbe:
    """One GPU through NVML. A refused reading is NaN; the others are still read."""

    note = ""

    def __init__(self, nvml: Any, handle: int) -> None:
        self._nvml, self._handle = nvml, handle

    def read(self) -> Reading:
        nvml, handle = self._nvml, self._handle
        reasons = _attempt(lambda: nvml.device_get_current_clocks_event_reasons(handle))
        return Reading(
            _attempt(lambda: nvml.device_get_clock_info(handle, _SM_CLOCK)),
            _attempt(lambda: nvml.device_get_power_usage(handle)) / 1000,
            _attempt(lambda: nvml.device_get_temperature_v(handle, _GPU_SENSOR)),
            0 if math.isnan(reasons) else int(reasons),
        )

    def close(self) -> None:
        _attempt(lambda: self._nvml.shutdown() or 0)


def _attempt(read: Callable[[], Any]) -> float:
    try:
        return float(read())
    except Exception:  # the GPU lacks the reading, or the bindings lack the function
        return math.nan


def open_probe(pci_bus_id: str) -> Probe:
    """A probe of the GPU at that address; ``NoProbe`` if NVML does not work."""
    try:
        from cuda.bindings import nvml

        nvml.init_v2()
    except Exception as error:  # no such module, or no driver library; the exception types vary between versions
        return NoProbe(f"clock, power and temperature are unknown: NVML did not start ({type(error).__name__})")
    try:
        return NvmlProbe(nvml, nvml.device_get_handle_by_pci_bus_id_v2(pci_bus_id))
    except Exception as error:
        nvml.shutdown()
        return NoProbe(f"clock, power and temperature are unknown: NVML did not find the GPU ({error})")


def driver_version() -> str:
    """The driver version, such as '580.95.05'; empty if NVML does not report it."""
    try:
        from cuda.bindings import nvml

        nvml.init_v2()
        try:
            return str(nvml.system_get_driver_version())
        finally:
            nvml.shutdown()
    except Exception:
        return ""


class Sampler:
    """Samples a probe in a thread while the context is active; at least once."""

    def __init__(self, probe: Probe, interval: float = _INTERVAL) -> None:
        self._probe, self._interval = probe, interval
        self._readings: list[Reading] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gemmsmith-clocks", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._readings.append(self._probe.read())
            if self._stop.wait(self._interval):
                return

    @property
    def conditions(self) -> Conditions:
        """The summary of all readings; read it after leaving the context."""
        return summary(self._readings)


def summary(readings: Sequence[Reading]) -> Conditions:
    """Medians, extremes, and every throttle reason that occurred."""
    clocks = [r.sm_mhz for r in readings if not math.isnan(r.sm_mhz)]
    powers = [r.power_w for r in readings if not math.isnan(r.power_w)]
    temperatures = [r.temperature_c for r in readings if not math.isnan(r.temperature_c)]
    seen = 0
    for reading in readings:
        seen |= reading.reasons
    return Conditions(
        sm_mhz=median(clocks) if clocks else math.nan,
        sm_mhz_min=min(clocks, default=math.nan),
        sm_mhz_max=max(clocks, default=math.nan),
        power_w=median(powers) if powers else math.nan,
        power_w_max=max(powers, default=math.nan),
        temperature_c=max(temperatures, default=math.nan),
        throttled=tuple(word for bit, word in REASONS.items() if seen & bit),
        samples=len(clocks),
    )
