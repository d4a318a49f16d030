"""GPU conditions: readings, throttle reasons, and no failure if NVML is missing or refuses."""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import pytest

from gemmsmith.bench.clocks import (
    REASONS,
    NoProbe,
    NvmlProbe,
    Reading,
    Sampler,
    driver_version,
    open_probe,
    summary,
)


class FakeNvml(types.ModuleType):
    """A fake NVML with one GPU; functions named in ``broken`` raise."""

    def __init__(self, broken: tuple[str, ...] = ()) -> None:
        super().__init__("cuda.bindings.nvml")
        self.broken, self.starts = broken, 0

    def _say(self, name: str, value: Any) -> Any:
        if name in self.broken:
            raise RuntimeError(f"{name} is not supported")
        return value

    def init_v2(self) -> None:
        self._say("init", None)
        self.starts += 1

    def shutdown(self) -> None:
        self.starts -= 1

    def device_get_handle_by_pci_bus_id_v2(self, address: str) -> int:
        return int(self._say("handle", 11 if address == "0000:01:00.0" else 0))

    def device_get_clock_info(self, handle: int, kind: int) -> int:
        return int(self._say("clock", 1980 if (handle, kind) == (11, 1) else 0))

    def device_get_power_usage(self, handle: int) -> int:
        return int(self._say("power", 699_500 if handle == 11 else 0))

    def device_get_temperature_v(self, handle: int, sensor: int) -> int:
        return int(self._say("temperature", 63 if (handle, sensor) == (11, 0) else 0))

    def device_get_current_clocks_event_reasons(self, handle: int) -> int:
        return int(self._say("reasons", 0x4 | 0x1 if handle == 11 else 0))

    def system_get_driver_version(self) -> str:
        return str(self._say("version", "580.95.05"))


def install(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml) -> FakeNvml:
    import cuda.bindings

    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(cuda.bindings, "nvml", nvml, raising=False)
    return nvml


def test_units_of_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = install(monkeypatch, FakeNvml())
    probe = open_probe("0000:01:00.0")
    assert probe.read() == Reading(1980.0, 699.5, 63.0, 0x5)
    assert nvml.starts == 1
    probe.close()
    assert nvml.starts == 0


@pytest.mark.parametrize("broken", ["clock", "power", "temperature", "reasons"])
def test_a_refused_reading_is_nan_and_the_others_are_read(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    install(monkeypatch, FakeNvml((broken,)))
    read = open_probe("0000:01:00.0").read()
    values = {"clock": read.sm_mhz, "power": read.power_w, "temperature": read.temperature_c, "reasons": read.reasons}
    assert math.isnan(values.pop(broken)) or broken == "reasons"
    assert not any(math.isnan(v) for v in values.values())


def test_a_function_missing_from_the_bindings_is_nan() -> None:
    assert math.isnan(NvmlProbe(types.SimpleNamespace(), 1).read().power_w)


@pytest.mark.parametrize("broken", ["init", "handle"])
def test_without_nvml_there_is_a_note_and_no_error(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    nvml = install(monkeypatch, FakeNvml((broken,)))
    probe = open_probe("0000:01:00.0")
    assert "unknown" in probe.note
    assert math.isnan(probe.read().sm_mhz)
    assert nvml.starts == 0, "what was started is shut down"
    probe.close()


def test_driver_version(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = install(monkeypatch, FakeNvml())
    assert (driver_version(), nvml.starts) == ("580.95.05", 0)
    install(monkeypatch, FakeNvml(("version",)))
    assert driver_version() == ""


def test_summary() -> None:
    readings = [Reading(1980, 500, 50, 0x1), Reading(1500, 700, 60, 0x4), Reading(1800, 690, 58, 0x44), Reading()]
    found = summary(readings)
    assert (found.sm_mhz, found.sm_mhz_min, found.sm_mhz_max) == (1800, 1500, 1980)
    assert (found.power_w, found.power_w_max, found.temperature_c, found.samples) == (690, 700, 60, 3)
    assert found.throttled == ("power cap", "hardware thermal")


def test_unknown_readings_are_nan() -> None:
    found = summary([Reading(), Reading()])
    assert math.isnan(found.sm_mhz)
    assert math.isnan(found.power_w_max)
    assert (found.throttled, found.samples) == ((), 0)


def test_idle_and_user_clock_settings_are_not_throttling() -> None:
    assert summary([Reading(reasons=0x3)]).throttled == ()


def test_every_throttle_reason_has_a_name() -> None:
    from cuda.bindings import nvml

    known = sum(REASONS) | 0x3
    assert all(int(reason) & ~known == 0 for reason in nvml.ClocksEventReasons)


def test_the_sampler_reads_while_its_context_is_active() -> None:
    class Counting(NoProbe):
        count = 0

        def read(self) -> Reading:
            self.count += 1
            return Reading(sm_mhz=1000.0 + self.count)

    probe = Counting()
    with Sampler(probe, interval=0.001) as sampler:
        while probe.count < 3:
            pass
    after = probe.count
    assert sampler.conditions.samples == after >= 3
    assert sampler.conditions.sm_mhz_min == 1001


def test_the_sampler_reads_at_least_once() -> None:
    with Sampler(NvmlProbe(FakeNvml(), 11), interval=60.0) as sampler:
        pass
    assert sampler.conditions.sm_mhz == 1980
