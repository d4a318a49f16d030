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
from gemmsmith.report.view.data import code, pipeline
from gemmsmith.report.view.data.cycle_axis import slot_places
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.report.view.page import write_view

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
