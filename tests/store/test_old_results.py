"""Results recorded under old parameter names: databases, run files, comparisons, sweeps, and the page's figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.kernel import equal_sources
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import Problem
from gemmsmith.report.collect import ladder_config
from gemmsmith.report.speeds import is_ladder_timing
from gemmsmith.report.sweep_file import read_sweeps, sweep_from_json, sweep_to_json
from gemmsmith.run.contender import Identity
from gemmsmith.store.database import Results
from gemmsmith.store.recorded import recorded_runs
from gemmsmith.store.results import Machine, Measurement, Run, Timing
from gemmsmith.store.run_comparison import compare_runs
from gemmsmith.store.run_file import run_from_json, run_to_json

OLD = "BM=128,BN=256,GROUP=8,TMA_STORE=-4,NARROW=0"
NEW = "BM=128,BN=256,GROUP=8,STORE_MODE=1,STORE_BOXES=4,TAIL_BN=0"
TIMING = Timing("graph", "cold", 1e-3, 0.99e-3, 1.01e-3, 0.01, 30, 10, True)


def run(config: str, kind: str = "rung", digest: str = "0123456789abcdef", name: str = "r") -> Run:
    identity = Identity("wgmma_cluster", kind, config, "fp16", "0.2.0", digest)
    one = Measurement(identity, Problem(512, 512, 512), "measured", True, timings=(TIMING,))
    return Run(name, "2026-11-15T08:00:00", "gemmsmith bench", "0.2.0", Machine("h", "s", "c", "p"), (one,))


@pytest.mark.parametrize(("kind", "expected"), [("rung", NEW), ("file", OLD), ("baseline", OLD)])
def test_a_run_file_is_converted_but_not_the_macros_of_a_users_file(kind: str, expected: str) -> None:
    found = run_from_json(json.loads(json.dumps(run_to_json(run(OLD, kind)))))
    assert found == run(expected, kind)


@pytest.mark.parametrize(("kind", "expected"), [("rung", NEW), ("file", OLD)])
def test_a_database_is_converted_when_it_is_read(tmp_path: Path, kind: str, expected: str) -> None:
    with Results.open(tmp_path / "results.db") as results:
        results.begin(run(OLD, kind))
    with Results.open(tmp_path / "results.db", read_only=True) as results:
        (record,) = results.measurements()
        assert record.measurement.identity.config == expected
        assert results.run("latest") == run(expected, kind)


def test_runs_before_and_after_the_renaming_are_compared_as_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_sources, "equal_sources", lambda: {"0123456789abcdef": "fedcba9876543210"})
    before = run_from_json(run_to_json(run(OLD)))
    (same,) = compare_runs(before, run(NEW, digest="fedcba9876543210", name="s")).changes
    assert (same.verdict, same.notes) == ("same", ())
    (other,) = compare_runs(before, run(NEW, digest="1111111111111111", name="s")).changes
    assert other.notes == ("source changed",)


def test_recorded_results_stay_with_their_rungs() -> None:
    """Each rung that was recorded has figures in the configuration that the ladder shows."""
    configs = {spec.name: (spec.dtypes[0].name, str(ladder_config(spec))) for spec in rungs()}
    found: dict[str, int] = {}
    recorded = set()
    for one in (one for run in recorded_runs() for one in run.measurements if one.identity.kind == "rung"):
        recorded.add(one.identity.name)
        found[one.identity.name] = found.get(one.identity.name, 0) + is_ladder_timing(one, *configs[one.identity.name])
    assert len(recorded) >= 26
    assert all(found.values()), [name for name, count in found.items() if not count]


# --- sweeps

SWEEP = {
    "title": "wgmma_split_k at LOOSE=1,BM=64: ORDERED, measured (H200)",
    "parameters": ["ORDERED"],
    "quantity": "µs",
    "points": [],
    "origin": "measured",
    "command": "gemmsmith sweep wgmma_split_k --vary ORDERED=0,1",
    "where": "",
    "more_is_better": False,
}


def point(*values: str) -> dict[str, object]:
    return {"values": list(values), "value": 1.0, "low": None, "high": None, "note": "", "illegal": ""}


def test_a_saved_sweep_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps({**SWEEP, "points": [point("0"), point("1")]}))
    (found,) = read_sweeps(path)
    assert found.parameters == ("DETERMINISTIC",)
    assert found.title == "wgmma_split_k at UNALIGNED_OPERANDS=1,BM=64: DETERMINISTIC, measured (H200)"
    assert [each.values for each in found.points] == [("0",), ("1",)]
    assert found.command == SWEEP["command"], "what was typed is a record"
    again = sweep_from_json(json.loads(json.dumps(sweep_to_json(found))))
    assert replace(again, points=()) == replace(found, points=())


def test_a_parameter_that_became_two_is_joined() -> None:
    data = {**SWEEP, "title": "wgmma_cluster: BN×TMA_STORE, measured", "parameters": ["BN×TMA_STORE", "NARROW"],
            "points": [point("256×4", "0"), point("128×-2", "64"), point("64×0", "0")]}  # fmt: skip
    found = sweep_from_json(data)
    assert found.title == "wgmma_cluster: BN×STORE_MODE×STORE_BOXES, measured"
    assert found.parameters == ("BN×STORE_MODE×STORE_BOXES", "TAIL_BN")
    assert [each.values for each in found.points] == [("256×2×4", "0"), ("128×1×2", "64"), ("64×0×0", "0")]


def test_a_sweep_of_a_users_file_keeps_its_macros() -> None:
    data = {**SWEEP, "title": "mine.cu: LOOSE, simulated", "parameters": ["LOOSE"], "points": [point("1")]}
    assert sweep_from_json(data).parameters == ("LOOSE",)


@pytest.mark.parametrize("changes", [{"points": [point("1", "2")]}, {"parameters": [3], "points": [point("1")]},
                                     {"points": [{}]}, {"parameters": None}], ids=str)  # fmt: skip
def test_what_is_not_a_sweep_is_still_refused(changes: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="is not a sweep saved by gemmsmith"):
        sweep_from_json({**SWEEP, **changes})
