"""The page: one file that loads nothing, has charts and tables, and omits what is missing."""

from __future__ import annotations

import base64
import hashlib
import re
import stat
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from report_pages import html, nothing, section, tree
from report_reading import read
from report_sample import FEW, GPU, sample
from unsimulated import unsimulated

from gemmsmith.errors import UsageError
from gemmsmith.explain.occupancy import curve, steps
from gemmsmith.ladder.registry import rungs as ladder_rungs
from gemmsmith.report import page, write_page
from gemmsmith.report.compact import compact
from gemmsmith.report.figures.machine import _smem_values
from gemmsmith.report.figures.speed import over_sizes
from gemmsmith.report.files import replace_file
from gemmsmith.report.ladder_picture import ladder_picture, write_ladder_picture
from gemmsmith.report.speeds import headline, speeds_of

# --- one file that loads nothing


@pytest.mark.parametrize("kind", ["sample", "bare"])
def test_the_page_loads_nothing(kind: str) -> None:
    for node in tree(kind).walk():
        for name, value in node.attributes.items():
            assert name not in ("src", "srcset", "style", "data", "action", "poster", "background"), (node.tag, name)
            assert not name.startswith("on"), (node.tag, name)
            if name in ("href", "xlink:href"):
                assert value.startswith("#"), value
        assert node.tag not in ("link", "iframe", "object", "embed", "base", "form", "img")
    style = tree(kind).one("style").text
    assert "@import" not in style
    assert set(re.findall(r"url\(([^)]*)\)", style)) <= {"#hatch", "#hatch-back", "#hatch-ink", "#dots"}
    assert not re.search(r"fetch|XMLHttpRequest|import\(|WebSocket|innerHTML|eval", tree(kind).one("script").text)


@pytest.mark.parametrize("kind", ["sample", "bare"])
def test_the_policy_allows_the_two_inline_blocks_and_nothing_else(kind: str) -> None:
    (meta,) = (m for m in tree(kind).all("meta") if m.attributes.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in meta.attributes["content"].split("; "))

    def digest(tag: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(tree(kind).one(tag).text.encode()).digest()).decode() + "'"

    assert rules == {"default-src": "'none'", "style-src": digest("style"), "script-src": digest("script"),
                     "base-uri": "'none'", "form-action": "'none'"}  # fmt: skip


def test_ids_are_unique_and_every_link_has_a_target() -> None:
    ids = [n.attributes["id"] for n in tree().walk() if "id" in n.attributes]
    assert len(ids) == len(set(ids))
    links = [n.attributes["href"] for n in tree().walk() if "href" in n.attributes]
    assert len(links) > 40
    assert {link.removeprefix("#") for link in links} <= set(ids)
    for node in tree().walk():
        for name in node.attributes.get("aria-labelledby", "").split():
            assert name in ids


def test_the_whole_ladder_stays_under_five_megabytes() -> None:
    """Estimated from the sample's rungs: the ladder has as many times more, and each an animation of up to 25 kB."""
    rungs = sum(len(part) for part in html().split('<article class="view rung')[1:])
    overview = len(html()) - rungs
    whole = overview + (rungs / len(FEW) + 25_000) * len(ladder_rungs())
    assert whole < 5_000_000, f"{whole:,.0f} bytes"


def test_rendering_is_deterministic() -> None:
    assert page(sample()) == html()


# --- charts and tables


@pytest.mark.parametrize("kind", ["sample", "bare", "both"])
def test_every_chart_has_a_title_marks_and_a_data_table(kind: str) -> None:
    figures = tree(kind).all("figure", "has-chart")
    assert len(figures) > 15
    for figure in figures:
        heading = figure.one("h3").text
        drawn = figure.all("svg", "chart")
        assert drawn, heading
        for svg in drawn:
            assert svg.all("title")[0].text.strip()
            assert svg.one("desc").text.strip()
            assert svg.all(class_="mark"), f"{heading} is empty"
        if not figure.all("div", "panels"):  # one drawing of several for all widths
            assert len({len(svg.all(class_="mark")) for svg in drawn}) == 1, "wide and narrow show the same data"
        table = figure.one("details").one("table")
        assert table.one("thead").all("th")
        assert table.one("tbody").all("tr")
        assert figure.all("span", "tag"), f"{heading} does not say where its figures come from"
        assert "nan" not in re.split(r"\W+", figure.text.lower())


def test_ladder_bar_lengths_are_proportional_to_speed() -> None:
    model, speeds = sample(), speeds_of(sample())
    chart = next(f for f in tree().all("figure") if f.attributes.get("id") == "chart-ladder")
    for svg in chart.all("svg", "chart"):
        bars = svg.all("rect", "mark")
        values = [float(b.attributes["data-value"]) for b in bars]
        known = [headline(r, model, speeds) for r in model.rungs]
        assert values == pytest.approx([s.tflops for s in known if s is not None])
        lengths = [b.number("width") for b in bars]
        assert [a / values[-1] for a in values] == pytest.approx([b / lengths[-1] for b in lengths], abs=0.003)
    rows = [[c.text for c in row.all("td")] for row in chart.one("tbody").all("tr")]
    assert [row[1] for row in rows] == [*FEW, "cuBLAS fp32", "cuBLASLt fp32", "cuBLAS TF32"]
    assert {row[-1] for row in rows} == {"recorded"}


def test_speed_over_size_has_a_mark_for_every_timing() -> None:
    (chart,) = over_sizes(sample(), speeds_of(sample()))
    timings = len(sample().recorded[0].measurements)
    assert len(read(chart.wide).all(class_="mark")) == timings == len(chart.table.rows)


def test_shared_memory_steps_are_complete() -> None:
    held = {"threads": 64, "registers": 32, "static_smem": 1024, "barriers": 1}
    quick = steps(curve(GPU, "smem", _smem_values(GPU), **held))
    full = steps(curve(GPU, "smem", **held))
    assert [(s.first, s.occupancy.blocks_per_sm) for s in quick] == [(s.first, s.occupancy.blocks_per_sm) for s in full]
    assert len(quick) > 8


def test_a_rung_with_wrong_results_has_no_speed() -> None:
    first, *rest = sample().rungs
    model = replace(sample(), rungs=(replace(first, trusted=False, verified="C[3][5] is wrong"), *rest))
    made = read(page(model))
    chart = next(f for f in made.all("figure") if f.attributes.get("id") == "chart-ladder")
    assert len(chart.all("svg", "wide")[0].all("rect", "mark")) == len(FEW) - 1
    assert "wrong results" in chart.text
    assert "C[3][5] is wrong" in section(made, "rungs").text


# --- missing data: one line says how to get it


@pytest.mark.parametrize(("key", "words"), [
    ("sizes", "gemmsmith climb"), ("sweeps", "gemmsmith sweep RUNG --vary"), ("published", "gemmsmith climb"),
    ("method", "gemmsmith climb"),
])  # fmt: skip
def test_a_section_without_data_is_one_line(key: str, words: str) -> None:
    there, gone = section(tree("sample"), key), section(tree("bare"), key)
    assert not there.all(class_="missing")
    assert words in gone.one(class_="missing").text
    if key != "method":
        assert not gone.all("figure")
        assert there.all("figure")


def test_a_page_with_almost_no_data_renders() -> None:
    made = read(page(nothing()))
    assert not made.all("figure")
    assert [n.text for n in made.all("h1")] == ["One rung of matrix multiplication", "mine"]
    keys = [s.attributes["id"] for s in made.all("section") if s.all(class_="missing") and "id" in s.attributes]
    assert keys == [
        "ladder",
        "sizes",
        "roofline",
        "occupancy",
        "memory",
        "instructions",
        "sweeps",
        "published",
        "method",
    ]
    assert "void mine() {}" in made.text


# --- files


def test_the_page_is_replaced_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "climb.html"
    assert write_page(target, nothing()) == target
    first = target.read_text(encoding="utf-8")
    assert first == compact(page(nothing()))
    assert stat.S_IMODE(target.stat().st_mode) == 0o644

    def fail(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="full"):
        replace_file(target, "half")
    assert target.read_text(encoding="utf-8") == first
    assert [p.name for p in tmp_path.iterdir()] == ["climb.html"]


def test_the_ladder_picture_is_a_standalone_file(tmp_path: Path) -> None:
    root = ET.parse(write_ladder_picture(tmp_path / "ladder.svg", sample())).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    found = [n for n in root.iter() if "mark" in n.get("class", "").split()]
    assert len(found) == len(FEW)
    for node in root.iter():
        assert not any(name.endswith(("href", "src")) for name in node.attrib)
    assert "http" not in ladder_picture(sample()).replace("http://www.w3.org/2000/svg", "")
    assert root.findtext("{http://www.w3.org/2000/svg}title")


def test_a_picture_without_speeds_is_refused() -> None:
    with pytest.raises(UsageError, match="no rung has a speed"):
        ladder_picture(nothing())


def test_a_rung_that_is_not_simulated_has_no_counts() -> None:
    """The view has its idea, resources and recorded speed, and says why there are no counts."""
    with unsimulated("wgmma_tma"):
        model = sample((*FEW, "mma_swizzled", "wgmma_tma"))
    rung = model.rungs[-1]
    assert (rung.name, rung.simulated, rung.profile, rung.diagnosis, rung.changes) == (
        "wgmma_tma",
        False,
        None,
        None,
        (),
    )
    assert rung.before == "mma_swizzled"
    root = read(page(model))
    view = next(n for n in root.all("article", "rung") if n.attributes["id"] == "rung-wgmma_tma")
    assert "The simulator does not support this rung's instructions yet" in view.text
    assert "No counts: the simulator does not support" in view.text
    assert "1.38 times as fast as mma_swizzled" in view.text
    assert "gemmsmith explain wgmma_tma" not in view.text
    assert not view.all("td", "counts")
