"""A measured time counts only for the source that it was measured with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import time_model
import timed_sources
from doc_tables import time_model as tables

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    rows = json.loads((RESULTS / "h200_cycles.json").read_text(encoding="utf-8"))["rows"]
    found: dict[str, Any] = next(r for r in rows if r["kernel"] == "vectorized" and r["m"] == 512)
    return found


def test_a_row_is_of_the_source_as_it_is(row: dict[str, Any]) -> None:
    assert not timed_sources.is_stale(row)


def test_a_row_of_another_source_is_stale(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed_sources.is_stale(row | {"digest": "0123456789abcdef"})
    assert timed_sources.is_stale({name: value for name, value in row.items() if name != "digest"})
    monkeypatch.setattr(timed_sources, "digest_today", lambda *_: "0123456789abcdef")
    assert timed_sources.is_stale(row)


def test_texts_with_equal_machine_code_are_the_same_kernel(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gemmsmith.kernel.equal_sources.equal_sources", lambda: {"before": row["digest"]})
    assert not timed_sources.is_stale(row | {"digest": "before"})


def test_probes_are_found_by_their_macros() -> None:
    rows = json.loads((RESULTS / "h200_cycles.json").read_text(encoding="utf-8"))["rows"]
    probes = [r for r in rows if r["kernel"].endswith(".cu") and r["k"] == 2048]
    assert len({r["digest"] for r in probes}) == len(probes) > 1
    assert not any(timed_sources.is_stale(r) for r in probes)


def test_stale_points_are_not_counted_and_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    point = {"set": "ladder", "kernel": "vectorized", "size": 512, "shape": [512] * 3, "ratio": 1.5, "fitted": False,
             "measured_us": 1.0, "own_clock_us": 1.5}  # fmt: skip
    assert time_model.summary([point])["ladder"]["points"] == 1
    found = time_model.summary([point | {"stale": True}])["ladder"]
    assert (found["points"], found["stale"]) == (0, 1)
    assert "†" not in tables._cell(point)
    monkeypatch.setattr(tables, "is_stale", lambda _: True)
    assert "†" in tables._cell(point)
