"""A rung's own part of the page: what it does, its source with counts, and its header comment."""

from __future__ import annotations

import re
from html import unescape

import pytest
from explained import LADDER
from report_pages import tree
from report_sample import FEW, sample

from gemmsmith.ladder.registry import rungs as ladder_rungs
from gemmsmith.report.header_comment import HEADINGS, read_header_comment
from gemmsmith.report.highlight import highlight
from gemmsmith.report.speeds import headline, speeds_of


@pytest.mark.parametrize("name", FEW)
def test_a_rung_says_what_it_does_how_fast_it_is_and_why(name: str) -> None:
    rung = next(r for r in sample().rungs if r.name == name)
    view = next(n for n in tree().all("article", "rung") if n.attributes["id"] == f"rung-{name}")
    words = " ".join(view.text.split())
    idea = read_header_comment(rung.source).of("Idea")
    assert idea is not None
    assert idea.words in words
    speed = headline(rung, sample(), speeds_of(sample()))
    assert speed is not None
    assert f"{speed.tflops:.2f}" in words or f"{speed.tflops:.1f}" in words
    assert all(sentence in words for sentence in rung.why)
    assert rung.occupancy is not None
    assert rung.occupancy.why in words
    assert [n.text for n in view.all("h3") if n.text.startswith(("What limits it", "Why it differs"))] == [
        "What limits it" if name == "naive" else f"Why it differs from {rung.before}"
    ]
    assert len(view.all("svg", "small")) == 3 + 3 + (name == "warp_tile"), "occupancy, tiles, and the pipeline"


def test_the_source_listing_has_counts_per_line() -> None:
    rung = next(r for r in sample().rungs if r.name == "warp_tile")
    assert rung.profile is not None
    view = next(n for n in tree().all("article", "rung") if n.attributes["id"] == "rung-warp_tile")
    table = view.one("table", "source")
    shown = {int(row.one("th").text): row for row in table.one("tbody").all("tr")}
    source = rung.source.splitlines()
    skipped = read_header_comment(rung.source).lines
    assert list(shown) == list(range(skipped + 1, len(source) + 1))
    assert [row.all("td")[-1].text for row in shown.values()] == [s.rstrip() for s in source[skipped:]]
    hottest = max((n for n in rung.profile.lines if n.file == rung.file), key=lambda n: n.executed)
    assert "__fmaf_rn" in hottest.text
    cell = shown[hottest.number].one("td", "counts").all("span")[0]
    assert (cell.text, "heat-8" in cell.classes) == ("65.5k", True)


def test_every_rung_starts_with_the_six_headings() -> None:
    assert len(ladder_rungs()) >= len(LADDER)
    for spec in ladder_rungs():
        header = read_header_comment(spec.code)
        assert [s.heading for s in header.sections] == list(HEADINGS), spec.name
        assert all(s.words for s in header.sections), spec.name
        assert not spec.code.splitlines()[header.lines].startswith("//")


def test_a_file_without_headings_has_no_header_comment() -> None:
    assert read_header_comment("// my kernel\n__global__ void k() {}\n").lines == 0
    assert read_header_comment("").sections == ()


def test_a_drawing_is_kept_verbatim() -> None:
    source = "// Owns      A block\n//           of C:\n//\n//   +--+\n//   |t0|\n//\n// Needs  none\n"
    owns = read_header_comment(source).of("Owns")
    assert owns is not None
    assert (owns.words, owns.picture) == ("A block of C:", "+--+\n|t0|")


@pytest.mark.parametrize("spec", ladder_rungs(), ids=lambda spec: spec.name)
def test_highlighting_changes_no_character(spec: object) -> None:
    lines = spec.code.splitlines()  # type: ignore[attr-defined]
    plain = [unescape(re.sub(r"<[^>]*>", "", line)) for line in highlight(lines)]
    assert plain == lines


def test_block_comments_may_span_lines() -> None:
    made = highlight(["int a; /* one", "two < three", "four */ int b; // end"])
    assert made[0] == '<span class="k">int</span> a; <span class="c">/* one</span>'
    assert made[1] == '<span class="c">two &lt; three</span>'
    assert made[2] == '<span class="c">four */</span> <span class="k">int</span> b; <span class="c">// end</span>'
