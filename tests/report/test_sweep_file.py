"""Sweep files round-trip, and a saved timing counts as recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from report_sample import sweeps

from gemmsmith.errors import UsageError
from gemmsmith.report.report_model import Sweep
from gemmsmith.report.sweep_file import as_recorded, read_sweeps, recorded_sweeps, save_sweep, sweep_to_json


@pytest.mark.parametrize("sweep", sweeps(), ids=lambda sweep: sweep.title)
def test_a_sweep_round_trips_through_json(sweep: Sweep, tmp_path: Path) -> None:
    odd = replace(sweep, more_is_better=False, points=(replace(sweep.points[0], value=0.1 + 0.2, note="n"),
                                                       *sweep.points[1:]))  # fmt: skip
    save_sweep(tmp_path / "one.json", odd)
    (found,) = read_sweeps(tmp_path / "one.json")
    assert repr(found) == repr(odd), "repr: NaN is not equal to itself"
    both = json.dumps([sweep_to_json(odd), sweep_to_json(sweep)])
    (tmp_path / "two.json").write_text(both)
    assert repr(read_sweeps(tmp_path / "two.json")) == repr((odd, sweep))


@pytest.mark.parametrize("change", [
    {"parameters": ["BK", "TM"]}, {"points": [{"values": ["8"]}]}, {"title": 7}, {"extra": 1},
    {"more_is_better": "yes"}, {"points": 3}, {"origin": "guessed"},
])  # fmt: skip
def test_what_is_not_a_sweep_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(sweep_to_json(sweeps()[0]) | change))
    with pytest.raises(UsageError, match=r"bad\.json is not a sweep saved by gemmsmith sweep --save\n"):
        read_sweeps(tmp_path / "bad.json")


def test_a_saved_timing_is_recorded_and_other_origins_stay() -> None:
    one = sweeps()[0]
    assert as_recorded(replace(one, origin="measured")).origin == "recorded"
    for origin in ("simulated", "predicted", "recorded"):
        assert as_recorded(replace(one, origin=origin)).origin == origin


def test_shipped_sweeps_are_recorded_elsewhere() -> None:
    assert all(s.origin != "measured" and s.points for s in recorded_sweeps())


@pytest.mark.parametrize("text", ["{", "", "3", "[[]]", "{}"])
def test_a_file_with_other_content_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(UsageError, match=r"bad\.json is not a sweep saved by gemmsmith sweep --save\n"):
        read_sweeps(tmp_path / "bad.json")
    with pytest.raises(UsageError, match=r"cannot read .*none\.json: No such file"):
        read_sweeps(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot write"):
        save_sweep(tmp_path / "none" / "x.json", sweeps()[0])
