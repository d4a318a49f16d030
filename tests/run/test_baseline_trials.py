"""Trial runs of baselines on a fake driver: what is launched, captured, timed and freed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from baseline_rig import STREAM

from gemmsmith.errors import LaunchError
from gemmsmith.run.baselines import (
    trials,
)


class FakeDriver:
    """The driver's events and graphs; ``milliseconds`` are the next timings."""

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self, milliseconds: list[float]) -> None:
        self.milliseconds = milliseconds
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            return (0, self.milliseconds.pop(0)) if name == "cuEventElapsedTime" else (0, name)

        return call


def use_driver(monkeypatch: pytest.MonkeyPatch, milliseconds: list[float]) -> FakeDriver:
    import cuda.bindings

    driver = FakeDriver(milliseconds)
    monkeypatch.setattr(cuda.bindings, "driver", driver, raising=False)
    return driver


def test_trials_time_a_graph_of_launches_over_all_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = use_driver(monkeypatch, [0.4, 9.0, 5.0, 1.0, 4.0, 2.0, 3.0])
    launched: list[int] = []
    time = trials.seconds(launched.append, 3, STREAM)
    assert time == pytest.approx(3.0e-3 / 5), "the median of five rounds of five launches"
    assert launched == [0, 0, 1, 2, 0, 1], "one alone, then one round captured"
    assert driver.calls.count("cuGraphLaunch") == 6
    for made, freed in (("cuEventCreate", "cuEventDestroy"), ("cuStreamEndCapture", "cuGraphDestroy")):
        assert driver.calls.count(made) == driver.calls.count(freed) > 0
    assert driver.calls.count("cuGraphExecDestroy") == 1


def test_trials_on_the_default_stream_are_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = use_driver(monkeypatch, [1.0] * 7)
    launched: list[int] = []
    assert trials.seconds(launched.append, 2, 0) == pytest.approx(0.5e-3)
    assert launched == [0] + [0, 1] * 6
    assert not any("Capture" in call or "Graph" in call for call in driver.calls)


def test_a_variant_that_is_far_slower_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver(monkeypatch, [10.0])
    launched: list[int] = []
    assert trials.seconds(launched.append, 2, STREAM, best=0.005) == float("inf")
    assert launched == [0]
    # A short kernel whose first launch waits for the host is not dropped.
    use_driver(monkeypatch, [0.1] + [0.064] * 6)
    assert trials.seconds(launched.append, 2, STREAM, best=5e-6) == pytest.approx(0.064e-3 / 20)


def test_a_capture_is_ended_if_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = use_driver(monkeypatch, [1.0])
    launched: list[int] = []

    def enqueue(index: int) -> None:
        if launched:
            raise LaunchError("refused under capture")
        launched.append(index)

    with pytest.raises(LaunchError, match="refused under capture"):
        trials.seconds(enqueue, 1, STREAM)
    assert driver.calls.count("cuStreamBeginCapture") == driver.calls.count("cuStreamEndCapture") == 1
    assert driver.calls.count("cuEventDestroy") == 2


def test_an_error_of_the_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Status(int):
        name = "CUDA_ERROR_ILLEGAL_ADDRESS"

    driver = use_driver(monkeypatch, [])
    driver.cuEventSynchronize = lambda _event: (Status(700),)  # type: ignore[attr-defined]
    with pytest.raises(LaunchError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        trials.seconds(lambda _index: None, 1, STREAM)
