"""The time model in the views: the k-loop on cycles, machine code with counts and stall reasons."""

from __future__ import annotations

import base64
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsmith import view
from gemmsmith.explain.timing.cycles import Span, WarpCycles
from gemmsmith.report.view.data import code, pipeline
from gemmsmith.report.view.data.cycle_axis import slot_places
from gemmsmith.report.view.data.player_steps import steps
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.report.view.page import write_view
from gemmsmith.trace.launch_trace import Kind

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@cache
def subject() -> ViewSubject:
    return view("mma_pipelined", 128, 128, 128).subject


def unpacked(given: dict[str, str]) -> list[int]:
    ((kind, text),) = given.items()
    return [int(value) for value in np.frombuffer(base64.b64decode(text), f"<i{int(kind[1:]) // 8}")]


def test_warps_are_drawn_on_the_cycles_of_the_time_model() -> None:
    one = subject()
    assert one.cycles is not None
    found = pipeline.build(one)
    assert found is not None
    assert f"{one.cycles.cycles:,.0f} cycles, predicted for H200" in found.notice
    axis = found.data["cycles"]
    for warp in one.cycles.warps:
        columns = axis["warps"][str(warp.number)]
        at = 0
        for n, (wait, long) in enumerate(zip(unpacked(columns["wait"]), unpacked(columns["long"]), strict=True)):
            assert abs(at + wait - warp.spans[n].start) <= 1
            at += wait + long
            assert abs(at - warp.spans[n].end) <= 1


def test_slots_of_the_trace_have_cycles_in_the_same_order() -> None:
    one = subject()
    assert one.cycles is not None
    slots, cycles = zip(*slot_places(one.trace, one.cycles), strict=True)
    assert len(slots) > 20
    assert list(slots) == sorted(set(slots))
    assert list(cycles) == sorted(cycles)
    assert (slots[-1], cycles[-1]) == (one.trace.slots, round(one.cycles.cycles))


def test_machine_code_has_counts_and_stall_reasons_of_the_block() -> None:
    one = subject()
    found = code.build(one)
    assert found is not None
    rows = found.data["sass"]
    matrix = [row for row in rows if row[0].split()[0].startswith("HMMA")]
    # 128 × 128 × 128 by HMMA.16816: 16 × 8 × 16 each.
    assert sum(row[4] for row in matrix) == 8 * 16 * 8
    reasons = {found.data["reasons"][reason] for row in rows for reason, _ in row[5]}
    assert {"barrier", "long_scoreboard"} <= reasons
    assert "Warps wait longest at" in found.notice


def test_without_a_time_the_views_keep_to_slots_and_say_so() -> None:
    bare = replace(subject(), cycles=None)
    loop, listing = pipeline.build(bare), code.build(bare)
    assert loop is not None
    assert listing is not None
    assert loop.data["cycles"] is None
    assert "issue slots" in loop.notice
    assert "no stall reasons" in listing.notice


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed")
def test_the_axis_can_be_chosen_and_a_machine_instruction_says_what_it_waits_for(tmp_path: Path) -> None:
    sync: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    file = write_view(tmp_path / "view.html", subject())
    with sync.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, said = running.new_page(viewport={"width": 390, "height": 800}), []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{file.as_uri()}#pipeline")
        assert page.inner_text(".said").startswith("cycle ")
        page.select_option("#view-pipeline select >> nth=0", "slots")
        assert page.inner_text(".said").startswith("slot ")
        assert "slots" in page.inner_text("#view-pipeline select >> nth=1")
        page.select_option("#view-pipeline select >> nth=0", "cycles")
        page.keyboard.press("End")
        assert page.inner_text(".said").startswith("cycle ")
        page.goto(f"{file.as_uri()}#code")
        page.click("#tab-code")
        page.click("[data-list=sass] > div:has-text('HMMA') >> nth=0")
        text = page.inner_text(".said")
        assert "issued by the block" in text
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        running.close()
    assert not said


def test_the_player_stops_where_the_model_has_something_to_show() -> None:
    """Steps are moments of the model, not slots of the trace: the first load is one, and so is the end."""
    one = subject()
    found = pipeline.build(one)
    assert one.cycles is not None
    assert found is not None
    moments = unpacked(found.data["cycles"]["steps"])
    assert moments == sorted(set(moments))
    assert (moments[0], moments[-1]) == (0, round(one.cycles.cycles))
    copies = {round(span.start) for warp in one.cycles.warps for span in warp.spans if span.kind is Kind.COPY}
    assert copies <= set(moments)


def test_many_events_leave_the_telling_ones_and_the_end() -> None:
    waits, loads = [(n, Kind.BARRIER) for n in range(0, 9000, 10)], [(n, Kind.LOAD_SHARED) for n in range(9000)]
    assert steps([*waits, *loads], 9500) == [*range(0, 9000, 10), 9500]
    many = steps([(n, Kind.BARRIER) for n in range(8998)], 9500)
    assert 1000 < len(many) <= 2001
    assert (many[0], many[-1]) == (0, 9500)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed")
def test_a_wait_that_ends_after_the_window_is_drawn(tmp_path: Path) -> None:
    """Warp 0 issues at 0 and at 9,000, warp 1 all the time: in a window between, warp 0 waits."""
    sync: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    one = subject()
    assert one.cycles is not None

    def span(since: int, start: int) -> Span:
        return Span(Kind.ARITHMETIC, since, start, start + 1, 0, "barrier", 1, "a.cu", 1)

    idle = WarpCycles(0, (span(0, 0), span(1, 9000)))
    busy = WarpCycles(1, tuple(span(n, n + 9) for n in range(0, 9000, 10)))
    cycles = replace(one.cycles, cycles=9001.0, warps=(idle, busy, *one.cycles.warps[2:]))
    file = write_view(tmp_path / "view.html", replace(one, cycles=cycles))
    with sync.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = running.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{file.as_uri()}#pipeline:2")
        page.select_option("#view-pipeline select >> nth=1", "600")
        page.evaluate("""() => { const scrub = document.querySelector('.scrub');
          scrub.value = String(Math.round(Number(scrub.max) / 2)); scrub.dispatchEvent(new Event('input')); }""")
        pixel = page.evaluate("""() => {
          const canvas = document.querySelector('#view-pipeline canvas'), scale = canvas.width / canvas.clientWidth;
          return [...canvas.getContext('2d').getImageData(canvas.width * 0.8, (22 + 9) * scale, 1, 1).data];
        }""")
        wanted = page.evaluate("""() => { const c = document.createElement('canvas').getContext('2d');
          c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--bad-soft').trim();
          c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; }""")
        running.close()
    assert pixel == wanted
