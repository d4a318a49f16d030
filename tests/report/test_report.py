"""The page: one file that loads nothing, escapes everything, omits what is missing, and never mixes origins."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import stat
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from explained import LADDER
from report_reading import Node, read
from report_sample import BOTH, FEW, GPU, MACHINE, bare, measurement, run, sample
from unsimulated import unsimulated

from gemmsmith.errors import UsageError
from gemmsmith.explain.occupancy import curve, steps
from gemmsmith.ladder.registry import rungs as ladder_rungs
from gemmsmith.problem import BF16, FP16, TF32, Problem
from gemmsmith.report import page, write_page
from gemmsmith.report.charts.words import sentence
from gemmsmith.report.compact import compact
from gemmsmith.report.figures.machine import _smem_values
from gemmsmith.report.figures.names import anchors, contender
from gemmsmith.report.figures.speed import over_sizes
from gemmsmith.report.files import replace_file
from gemmsmith.report.header_comment import HEADINGS, read_header_comment
from gemmsmith.report.highlight import highlight
from gemmsmith.report.ladder_picture import ladder_picture, write_ladder_picture
from gemmsmith.report.reasons import reason
from gemmsmith.report.report_model import Made, ReportModel, Rung, Sweep, SweepPoint
from gemmsmith.report.speeds import headline, speeds_of
from gemmsmith.store.results import Machine, Run

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


@cache
def html(kind: str = "sample") -> str:
    return page({"sample": sample, "bare": bare, "both": lambda: sample(BOTH)}[kind]())


@cache
def tree(kind: str = "sample") -> Node:
    return read(html(kind))


def nothing() -> ReportModel:
    """A rung with nothing but its source."""
    rung = Rung(0, "mine", "my own kernel", "", "mine.cu", "__global__ void mine() {}\n", "", "fp32")
    made = Made("gemmsmith report", "2026-01-02", "0.1.0", Machine("h", "Linux", "cpu", "3.11"))
    return ReportModel(GPU, Problem(64, 64, 64), (rung,), made)


def section(kind: Node, key: str) -> Node:
    return next(n for n in kind.all("section") if n.attributes.get("id") == key)


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


# --- escaping


@cache
def hostile() -> Node:
    """Every external text is an injection attempt."""
    model, ours = sample(), sample().rungs[0]
    header = f"// Idea      {EVIL}\n// Owns      x\n//\n//  {EVIL}\n"
    source = f"{header}\n__global__ void k() {{}} // {EVIL}\n/* {EVIL}\n{EVIL} */\n"
    assert ours.profile is not None
    line = replace(ours.profile.lines[0], file=EVIL + ".cu", number=6, text=EVIL)
    bad = replace(ours, name=EVIL, file=EVIL + ".cu", summary=EVIL, teaches=EVIL, source=source, config=EVIL,
                  verified=EVIL, why=(EVIL, EVIL), before=EVIL, loop=(EVIL,), trusted=False,
                  profile=replace(ours.profile, lines=(line, replace(line, file=EVIL + ".cuh"))))  # fmt: skip
    machine = replace(MACHINE, gpu=EVIL, host=EVIL, packages=((EVIL, EVIL),))
    one = measurement("cublas", "baseline", "fp32", 4096, 50.0)
    timed = Run(EVIL, EVIL, EVIL, EVIL, machine, (
        replace(one, identity=replace(one.identity, name=EVIL)), replace(one, rejected=EVIL),
        replace(one, identity=replace(one.identity, name=EVIL, kind="rung")),
    ))  # fmt: skip
    sweep = Sweep(EVIL, (EVIL, "b"), EVIL, tuple(
        SweepPoint((a, b), 1.0) if a != b else SweepPoint((a, b), illegal=EVIL)
        for a in (EVIL, "1") for b in (EVIL, "1")
    ), "recorded", EVIL, EVIL)  # fmt: skip
    published = tuple(replace(p, source=EVIL, config=EVIL, baseline=EVIL, gpu=EVIL) for p in model.published)
    made = replace(model.made, command=EVIL, date=EVIL, gemmsmith=EVIL, machine=machine)
    gpu = replace(model.gpu, name=EVIL, sources=(("compute", EVIL),))
    return read(page(replace(model, gpu=gpu, rungs=(bad, *model.rungs[1:]), made=made, sweeps=(sweep,),
                             recorded=(timed, *model.recorded), published=published)))  # fmt: skip


def test_hostile_names_and_sources_stay_text() -> None:
    made = hostile()
    known = {n.tag for n in tree().walk()} | {"strong"}
    assert len(made.all("script")) == 1
    assert "alert" not in made.one("script").text
    assert not made.all("img")
    for node in made.walk():
        assert not [name for name in node.attributes if name.startswith("on")]
        assert node.tag in known, node.tag
    assert EVIL in made.text


def test_a_hostile_source_line_is_shown_verbatim() -> None:
    bodies = [table.one("tbody") for table in hostile().all("table", "source")]
    rows = [row.all("td")[-1].text for body in bodies for row in body.all("tr")]
    assert f"__global__ void k() {{}} // {EVIL}" in rows
    assert f"{EVIL} */" in rows


def test_anchors_are_plain_and_unique() -> None:
    rungs = [replace(nothing().rungs[0], name=name) for name in ("a b", "a<b", EVIL, "", "ok_1")]
    made = anchors(rungs)
    assert len(set(made.values())) == len(rungs)
    assert all(re.fullmatch(r"rung-[A-Za-z0-9_-]+", anchor) for anchor in made.values())


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


# --- origins


def test_a_recorded_figure_names_its_gpu_and_a_predicted_one_says_so() -> None:
    def hero(kind: str) -> str:
        return tree(kind).all("dl", "figures")[0].text

    assert "recorded on H200" in hero("sample")
    assert "predicted" not in hero("sample")
    assert "predicted" in hero("bare")
    assert "predicted to go from" in tree("bare").all("h1")[0].text


def test_measured_runs_take_precedence_and_curves_do_not_mix_machines() -> None:
    mine = replace(run(("naive",), (512,)), machine=replace(MACHINE, gpu="NVIDIA GeForce RTX 3050"))
    speeds = speeds_of(replace(sample(), measured=(mine,)))
    assert [(s.origin, s.gpu, s.problem.m) for s in speeds.of("naive")] == [("measured", "RTX 3050", 512)]
    assert {(s.origin, s.gpu) for s in speeds.of("warp_tile")} == {("recorded", "H200")}


def test_rejected_and_unverified_timings_are_listed_and_not_drawn() -> None:
    timed = run()
    bad = tuple(
        replace(m, rejected="above the roofline") if m.identity.name == "naive"
        else replace(m, verified=False) if m.identity.name == "coalesced" else m
        for m in timed.measurements
    )  # fmt: skip
    model = replace(sample(), recorded=(replace(timed, measurements=bad),))
    speeds = speeds_of(model)
    assert speeds.of("naive") == speeds.of("coalesced") == ()
    words = section(read(page(model)), "method").text
    assert "above the roofline" in words
    assert "not verified" in words


def test_each_input_type_has_its_own_baseline() -> None:
    half = measurement("cublas", "baseline", "fp16", 4096, 700.0)
    half = replace(half, problem=replace(half.problem, dtype=FP16), ratios=())
    timed = replace(run(), measurements=(*run().measurements, half))
    speeds = speeds_of(replace(sample(), recorded=(timed,)))
    full = speeds.at("cublas", Problem(4096, 4096, 4096))
    assert full is not None
    assert full.tflops == pytest.approx(51.3)
    assert [s.tflops for s in speeds.of("cublas:fp16")] == pytest.approx([700.0])
    assert contender("cublas:fp16", "fp16") == "cuBLAS fp16"


@pytest.mark.parametrize("change", [
    {"dtype": TF32}, {"dtype": BF16}, {"trans_b": True}, {"out_dtype": FP16}, {"beta": 1.0}, {"config": "BM=256"},
])  # fmt: skip
def test_only_timings_of_the_ladders_type_layout_and_configuration_count(change: dict[str, Any]) -> None:
    model = sample(BOTH)
    one = measurement("mma_swizzled", "rung", "fp16", 4096, 999.0, FP16)
    problem = one.problem.with_(**{k: v for k, v in change.items() if k != "config"})
    own = replace(one.identity, config=change.get("config", one.identity.config))
    odd = replace(one, problem=problem, identity=own)
    faster = replace(model.recorded[0], measurements=(odd, *model.recorded[0].measurements))
    speeds = speeds_of(replace(model, recorded=(faster,)))
    at = speeds.at("mma_swizzled", model.problem)
    assert at is not None
    assert at.tflops == pytest.approx(398.0)
    assert [name for name, _ in speeds.others] == [f"mma_swizzled at {problem}"]
    assert "999.0 TFLOPS, recorded on H200" in speeds.others[0][1]
    alone = speeds_of(replace(model, recorded=(replace(faster, measurements=(odd,)),)))
    assert alone.known == ()


def test_page_and_terminal_give_the_same_reason() -> None:
    model = sample(BOTH)
    timed = tuple(replace(m, timings=tuple(replace(t, median=t.median * 5) for t in m.timings))
                  if m.identity.name == "warp_tile" else m for m in model.recorded[0].measurements)  # fmt: skip
    slower = replace(model, recorded=(replace(model.recorded[0], measurements=timed),))
    rung = next(r for r in slower.rungs if r.name == "warp_tile")
    text_of_step = reason(rung, slower, speeds_of(slower))
    assert "so it does not explain this step. The idea: a level between block and thread" in text_of_step
    text = unescape(page(slower))
    assert f'<p class="why">{sentence(text_of_step)}</p>' in text
    assert f'<p class="why">{rung.why[1]}</p>' not in text


def test_a_share_of_the_baseline_is_never_taken_across_machines() -> None:
    timed = run(("warp_tile",))
    alone = tuple(replace(m, ratios=()) for m in timed.measurements)
    rung = replace(timed, measurements=tuple(m for m in alone if m.identity.kind == "rung"))
    base = replace(timed, measurements=tuple(m for m in alone if m.identity.kind == "baseline"))
    there = speeds_of(replace(sample(), recorded=(rung, base)))
    assert there.of("warp_tile")[-1].of_baseline == pytest.approx(44.6 / 51.3)
    apart = speeds_of(replace(sample(), recorded=(rung,), measured=(base,)))
    assert math.isnan(apart.of("warp_tile")[-1].of_baseline)


def test_tf32_is_never_labelled_fp32() -> None:
    assert contender("cublas-tf32", "tf32") == "cuBLAS TF32"
    assert contender("cublas", "tf32") == "cuBLAS tf32"
    assert "cuBLAS TF32 fp32" not in tree().text


# --- a rung's view


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
