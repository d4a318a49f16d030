"""The trace as a file: JSON and back, Perfetto's events, and what is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from recorded_launches import traced

from gemmsmith.errors import UsageError
from gemmsmith.trace.launch_trace import VERSION, Kind
from gemmsmith.trace.perfetto import perfetto_text
from gemmsmith.trace.recording.patterns import Patterns
from gemmsmith.trace.recording.warp_log import Item, WarpLog
from gemmsmith.trace.trace_json import from_json, read_trace, trace_text


@pytest.mark.parametrize("name", ["shared_tile", "async_copy", "mma_swizzled"])
def test_a_trace_comes_back_from_json(name: str) -> None:
    trace = traced(name)
    assert from_json(json.loads(trace_text(trace))) == trace


def test_perfetto_events_of_a_track_do_not_overlap() -> None:
    made = json.loads(perfetto_text(traced("async_copy")))
    slices = [event for event in made["traceEvents"] if event["ph"] == "X"]
    assert slices
    for track in {event["tid"] for event in slices}:
        mine = sorted((event["ts"], event["ts"] + event["dur"]) for event in slices if event["tid"] == track)
        assert all(one[1] <= other[0] for one, other in pairwise(mine))
    named = {event["tid"] for event in made["traceEvents"] if event["ph"] == "M" and event["name"] == "thread_name"}
    assert {event["tid"] for event in slices} <= named


@pytest.mark.parametrize("text", ["{}", "no json", '{"format": "gemmsmith-trace", "version": 99}', "[]"])
def test_what_is_no_trace_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        read_trace(path)
    with pytest.raises(UsageError):
        read_trace(tmp_path / "missing.json")
    assert VERSION == 1


def test_a_long_log_keeps_its_beginning_and_its_end() -> None:
    log = WarpLog(0, 30)
    for n in range(100):
        log.now(Item(n, Kind.BARRIER, 1))
    events = log.events()
    assert [event.instruction for event in events] == [*range(20), *range(90, 100)]
    assert log.skipped == 70
    assert events[-1].start == 99


def test_a_stretch_is_put_into_program_order() -> None:
    log = WarpLog(0, 30)
    for position, kind in ((5, Kind.ARITHMETIC), (3, Kind.LOAD_SHARED), (4, Kind.ARITHMETIC), (7, Kind.OTHER)):
        log.add(Item(position, kind, 1))
    assert [(event.instruction, event.count) for event in log.events()] == [(3, 1), (4, 2), (7, 1)]


def test_equal_patterns_are_kept_once() -> None:
    patterns = Patterns()
    one, two = (patterns.split(base + 4 * np.arange(32)) for base in (100, 900))
    assert one == (0, 100)
    assert two == (0, 900)
    assert patterns.split(np.full(32, -1)) == (-1, -1)
