"""A run round-trips through a file."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.problem import BF16, Problem
from gemmsmith.run.contender import Identity
from gemmsmith.store.results import Conditions, Machine, Measurement, Ratio, Run, Timing
from gemmsmith.store.run_file import read_run, run_from_json, run_to_json

TIMING = Timing("graph", "cold", 1.25e-3, 1.2e-3, 1.3e-3, 0.01, 31, 8, True)
MEASUREMENT = Measurement(
    Identity("warp_tile", "rung", "BM=128", "fp32", "0.1", "abc"), Problem(64, 32, 16, dtype=BF16, beta=0.5, ldc=40),
    "measured", True, rho=(1.5, 2.5), timings=(TIMING,), ratios=(Ratio("cublas", 0.9, 0.89, 0.91),),
    conditions=Conditions(sm_mhz=1980.0, throttled=("power",), samples=3), counters=(("registers", 128.0),),
)  # fmt: skip
RUN = Run("id", "2026-01-01T00:00:00Z", "gemmsmith bench", "0.1", Machine("h", "Linux", "cpu", "3.12",
          packages=(("numpy", "2.0"),)), (MEASUREMENT,))  # fmt: skip


def test_a_run_round_trips(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run_to_json(RUN), allow_nan=False))
    back = read_run(path)
    # NaN differs from itself, so compare as text.
    assert repr(back) == repr(RUN)
    assert math.isnan(back.measurements[0].conditions.power_w)
    assert back.measurements[0].problem == MEASUREMENT.problem


def test_derived_figures_are_included() -> None:
    derived = run_to_json(RUN)["measurements"][0]["derived"]
    assert derived["tflops"] == pytest.approx(2 * 64 * 32 * 16 / 1.25e-3 / 1e12)
    untimed = dataclasses.replace(RUN, measurements=(dataclasses.replace(MEASUREMENT, timings=()),))
    assert run_to_json(untimed)["measurements"][0]["derived"]["tflops"] is None


@pytest.mark.parametrize("data", [{}, [], None, {"machine": {}}, {**run_to_json(RUN), "surprise": 1}])
def test_anything_else_is_refused(data: object) -> None:
    with pytest.raises(UsageError, match="not a gemmsmith run"):
        run_from_json(data)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_run(tmp_path / "none.json")
    (tmp_path / "text").write_text("{")
    with pytest.raises(UsageError, match="cannot read"):
        read_run(tmp_path / "text")
