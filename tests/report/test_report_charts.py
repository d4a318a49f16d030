"""Charts: scales, ticks, and one mark per datum at the right position."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from report_reading import Node, read

from gemmsmith.explain.occupancy import curve, steps
from gemmsmith.gpus import gpu_named
from gemmsmith.report.charts.bars import Bar, Reference, draw_bars
from gemmsmith.report.charts.cells import SHADES, Cell, draw_cells, shade
from gemmsmith.report.charts.frame import NARROW, SMALL, WIDE, Canvas, Drawing, Table, chart
from gemmsmith.report.charts.lines import Line, draw_lines, finite_points
from gemmsmith.report.charts.roof import Ceiling, Roof, Spot, draw_roofline
from gemmsmith.report.charts.rows import Kind, Row, draw_dots, draw_stacked
from gemmsmith.report.charts.scale import Scale, log_ticks, nice_ticks, nice_top, spread
from gemmsmith.report.charts.steps import draw_steps
from gemmsmith.report.charts.svg import colour, dash, el, number, shape
from gemmsmith.report.charts.words import compact, percent, seconds, sentence, short, tflops, times

CANVASES = pytest.mark.parametrize("canvas", [WIDE, NARROW], ids=["wide", "narrow"])


def marks(drawing: Drawing) -> list[Node]:
    return read(drawing.body).all(class_="mark")


def ticks(drawing: Drawing, axis: str) -> dict[str, float]:
    """The position of each tick's grid line, by label; 'x' lines are vertical."""
    found = {}
    for group in read(drawing.body).all("g", "axes"):
        lines = group.all("line", "grid")
        labels = [t.text for t in group.all("text", "tick")]
        upright = all(ln.number("x1") == ln.number("x2") for ln in lines)
        if upright == (axis == "x"):
            found |= dict(zip(labels, (ln.number(f"{axis}1") for ln in lines), strict=True))
    return found


def between(at: dict[str, float], value: float) -> float:
    """The position of ``value`` on a linear axis, from its first and last tick."""
    (low, first), *_, (high, last) = ((float(label), place) for label, place in at.items())
    return first + (last - first) * (value - low) / (high - low)


# --- scales


@given(st.floats(0.001, 1e6), st.floats(1.1, 1e6), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_a_scale_keeps_order_and_ends(low: float, factor: float, a: float, b: float, log: bool) -> None:
    scale = Scale(low, low * factor, 10, 110, log)
    assert scale(low) == pytest.approx(10)
    assert scale(low * factor) == pytest.approx(110)
    first, second = sorted(low + (low * factor - low) * share for share in (a, b))
    assert scale(first) <= scale(second) + 1e-9


def test_a_logarithmic_scale_puts_equal_ratios_equally_far_apart() -> None:
    scale = Scale(1, 1000, 0, 300, log=True)
    assert [round(scale(v)) for v in (1, 10, 100, 1000)] == [0, 100, 200, 300]


@pytest.mark.parametrize(("low", "high", "log"), [(1, 1, False), (2, 1, False), (0, 5, True), (-1, 5, True),
                                                  (math.nan, 1, False), (0, math.inf, False)])  # fmt: skip
def test_an_empty_scale_is_refused(low: float, high: float, log: bool) -> None:
    with pytest.raises(ValueError, match="scale"):
        Scale(low, high, 0, 1, log)


@pytest.mark.parametrize(("high", "about", "expected"), [
    (70, 7, (0, 10, 20, 30, 40, 50, 60, 70)), (1, 5, (0, 0.2, 0.4, 0.6, 0.8, 1.0)), (64, 4, (0, 20, 40, 60)),
    (4, 4, (0, 1, 2, 3, 4)),
])  # fmt: skip
def test_ticks_are_round_numbers(high: float, about: int, expected: tuple[float, ...]) -> None:
    assert nice_ticks(0, high, about) == pytest.approx(expected)


@given(st.floats(1e-6, 1e9), st.integers(2, 10))
def test_an_axis_ends_on_a_tick_at_or_above_its_largest_value(high: float, about: int) -> None:
    top = nice_top(high, about)
    assert high <= top * (1 + 1e-9)
    assert nice_ticks(0, top, about)[-1] == pytest.approx(top)


def test_logarithmic_ticks_are_decades_with_2_and_5_where_there_are_few() -> None:
    assert log_ticks(0.4, 30) == pytest.approx((0.5, 1, 2, 5, 10, 20))
    assert log_ticks(0.05, 20_000) == pytest.approx((0.1, 1, 10, 100, 1000, 10_000))


@given(st.lists(st.floats(0, 400), max_size=14))
def test_spread_labels_keep_order_gap_and_bounds(places: list[float]) -> None:
    moved = spread(places, 23, 0, 400)
    by_want = [moved[i] for i in sorted(range(len(places)), key=lambda i: places[i])]
    assert by_want == sorted(by_want)
    assert all(b - a >= 23 - 1e-6 for a, b in itertools.pairwise(by_want))
    assert all(-1e-6 <= m <= 400 + 1e-6 for m in moved)


def test_labels_that_are_apart_do_not_move() -> None:
    assert spread([10, 50, 300], 23, 0, 400) == [10, 50, 300]
    assert spread([], 23, 0, 400) == []


def test_too_many_labels_are_spaced_evenly() -> None:
    assert spread([5, 5, 5], 23, 0, 20) == [0, 10, 20]


# --- words and elements


@pytest.mark.parametrize(("made", "expected"), [
    (short(0.50312), "0.503"), (short(46.0), "46"), (short(1234.5), "1,234"), (short(0), "0"), (short(math.nan), "–"),
    (short(1000), "1,000"), (tflops(0.5), "0.50"), (tflops(45.83), "45.8"), (percent(0.871), "87\u00a0%"),
    (percent(0.034), "3.4\u00a0%"), (percent(math.nan), "–"), (times(1.254), "×1.25"), (times(85.7), "×86"),
    (compact(65536), "65.5k"), (compact(999), "999"), (compact(4194304), "4.19M"), (seconds(0.00239), "2.39 ms"),
    (seconds(3.2e-6), "3.2 µs"), (sentence("one thread"), "One thread."), (sentence("cp.async is"), "cp.async is."),
    (sentence("fp16 or bf16."), "fp16 or bf16."), (sentence(""), ""),
])  # fmt: skip
def test_number_and_sentence_formats(made: str, expected: str) -> None:
    assert made == expected


def test_elements_escape_text_and_attributes() -> None:
    made = el("text", "<b>&", class_='x" onload="y')
    assert made == '<text class="x&#34; onload=&#34;y">&lt;b&gt;&amp;</text>'
    assert el("g", Markup("<a></a>")) == "<g><a></a></g>"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_non_finite_coordinate_is_an_error(value: float) -> None:
    with pytest.raises(ValueError, match="coordinate"):
        number(value)


def test_line_styles_are_distinct() -> None:
    looks = [(colour(r), dash(r), shape(r)) for r in range(1, 25)]
    assert len(set(looks)) == len(looks)
    for one, other in itertools.combinations(range(1, 13), 2):
        if colour(one) == colour(other):
            assert dash(one) != dash(other), "the dash differs"
            assert shape(one) != shape(other), "so does the shape"


# --- charts


@CANVASES
def test_a_bar_ends_where_its_value_is(canvas: Canvas) -> None:
    bars = [Bar("a", 10.0, "ten", 1), Bar("b", 40.0, "forty", 2, low=39, high=41), Bar("c", math.nan, "no figure")]
    drawing = draw_bars(canvas, bars, [Reference("limit", 20.0)], "TFLOPS")
    at = ticks(drawing, "x")
    found = marks(drawing)
    assert [float(m.attributes["data-value"]) for m in found] == [10, 40]
    ends = [m.number("x") + m.number("width") for m in found]
    assert ends == pytest.approx([between(at, 10), between(at, 40)], abs=0.02)
    assert all(m.number("x") == pytest.approx(at["0"], abs=0.02) for m in found)
    assert read(drawing.body).one("line", "reference-line").number("x1") == pytest.approx(at["20"], abs=0.02)
    assert "no figure" in read(drawing.body).text


def test_bars_of_another_origin_are_hatched_and_named() -> None:
    bars = [Bar("a", 1.0, "1", 1), Bar("b", 2.0, "2", 2, faint=True, ghost=3.0)]
    tree = read(draw_bars(WIDE, bars, [], "x", ghost="predicted", faint="recorded", solid="measured").body)
    assert [t.text for t in tree.one("g", "legend").all("text")] == ["measured", "recorded", "predicted"]
    known = [replace(bars[0], low=0.9, high=1.1), bars[1]]
    tree = read(draw_bars(WIDE, known, [], "x", solid="measured").body)
    assert [t.text for t in tree.one("g", "legend").all("text")] == ["measured", "95 % interval"]
    assert len(tree.all("line", "whisker")) == 2  # the bar's, and its entry in the legend
    tree = read(draw_bars(WIDE, bars, [], "x", ghost="predicted", faint="recorded", solid="measured").body)
    assert len(tree.all("rect", "hatch")) == 2  # the bar, and its entry in the legend
    assert [
        float(m.attributes["data-value"]) for m in tree.all("polygon", "ghost") if "data-value" in m.attributes
    ] == [3]


@pytest.mark.parametrize(("ghost", "beside"), [(50.0, 10.0), (12.0, 12.0)])
def test_a_bars_label_does_not_cover_its_ghost(ghost: float, beside: float) -> None:
    drawing = draw_bars(WIDE, [Bar("a", 10.0, "ten of them", 1, ghost=ghost, faint=True)], [Reference("", 60.0)], "x")
    (words,) = (t for t in read(drawing.body).all("text", "value") if t.text == "ten of them")
    assert words.number("x") == pytest.approx(between(ticks(drawing, "x"), beside) + 10, abs=0.02)


@CANVASES
def test_points_of_a_curve_are_where_their_values_are(canvas: Canvas) -> None:
    one = Line(
        "warp_tile", finite_points([(1024, 10.0, ""), (512, 1.0, ""), (2048, math.nan, ""), (4096, 100.0, "")]), 10
    )
    other = Line("cuBLAS fp32", finite_points([(512, 2.0, ""), (4096, 90.0, "")]), 0, short_label="cuBLAS")
    drawing = draw_lines(canvas, [one, other], "M = N = K", "TFLOPS")
    xs, ys = ticks(drawing, "x"), ticks(drawing, "y")
    found = [m for m in marks(drawing) if "s2" in m.classes]
    assert [m.attributes["data-value"] for m in found] == ["1", "10", "100"], "by size, without the one that is missing"
    assert [m.number("data-x") for m in found] == pytest.approx([xs["512"], xs["1024"], xs["4096"]], abs=0.02)
    assert [m.number("data-y") for m in found] == pytest.approx([ys["1"], ys["10"], ys["100"]], abs=0.02)
    assert ys["100"] < ys["10"], "faster is higher"
    words = read(drawing.body).text
    assert ("cuBLAS fp32" in words) != canvas.narrow or "cuBLAS" in words
    assert len(marks(drawing)) == 5


def test_every_curve_is_named_and_the_one_that_matters_is_thick() -> None:
    one = Line("one", ((512, 1.0, ""), (1024, 2.0, "")), 1)
    other = Line("other", ((512, 1.5, ""), (1024, 2.5, "")), 2, thick=True)
    drawing = read(draw_lines(WIDE, [one, other], "x", "y").body)
    assert len(drawing.all("polyline", "thick")) == 1
    named = [n.attributes["data-series"] for n in drawing.walk() if "data-series" in n.attributes]
    assert sorted(named) == ["one", "one", "other", "other"], "the curve and its name belong together"


@CANVASES
def test_the_roofline_bends_where_bandwidth_meets_the_peak(canvas: Canvas) -> None:
    spots = [Spot(1, "naive", 0.1, 1.0, ""), Spot(10, "warp_tile", 10.0, 10.0, "", hollow=True)]
    roofs = [Roof("DRAM", 1.0), Roof("L2", 10.0, "6 4")]
    drawing = draw_roofline(canvas, spots, roofs, [Ceiling("peak", 100.0)], "x", "y")
    xs, ys = ticks(drawing, "x"), ticks(drawing, "y")
    found = marks(drawing)
    assert [(m.number("cx"), m.number("cy")) for m in found] == [
        pytest.approx((xs["0.1"], ys["1"]), abs=0.02), pytest.approx((xs["10"], ys["10"]), abs=0.02)]  # fmt: skip
    assert "hollow" in found[1].classes
    assert "hollow" not in found[0].classes
    bends = []
    for roof in read(drawing.body).all("polyline", "roof"):
        points = [tuple(map(float, p.split(","))) for p in roof.attributes["points"].split()]
        bends.append(points[1])
    assert sorted(bends) == [
        pytest.approx((xs["10"], ys["100"]), abs=0.02),
        pytest.approx((xs["100"], ys["100"]), abs=0.02),
    ]


@CANVASES
def test_every_arithmetic_has_its_own_ceiling_inside_the_plot(canvas: Canvas) -> None:
    spots = [Spot(1, "naive", 0.1, 1.0, ""), Spot(14, "mma", 50.0, 400.0, ""), Spot(15, "too fast", 60.0, 5000.0, "")]
    ceilings = [Ceiling("fp32 peak", 100.0), Ceiling("fp16 peak", 1000.0)]
    drawing = draw_roofline(canvas, spots, [Roof("DRAM", 1.0), Roof("L2", 10.0, "6 4")], ceilings, "x", "y")
    xs, ys = ticks(drawing, "x"), ticks(drawing, "y")
    flat = [(r.number("x1"), r.number("y1"), r.number("y2")) for r in read(drawing.body).all("line", "roof")]
    assert flat == [pytest.approx((xs["10"], ys["100"], ys["100"]), abs=0.02),
                    pytest.approx((xs["100"], ys["1,000"], ys["1,000"]), abs=0.02)]  # fmt: skip
    tops = [min(float(p.split(",")[1]) for p in r.attributes["points"].split())
            for r in read(drawing.body).all("polyline", "roof")]  # fmt: skip
    assert tops == [pytest.approx(ys["1,000"], abs=0.02)] * 2, "slanted roofs rise to the highest"
    top = min(node.number("y1") for node in read(drawing.body).all("line", "grid"))
    assert all(mark.number("cy") >= top for mark in marks(drawing))
    assert {"fp32 peak", "fp16 peak"} <= {t.text for t in read(drawing.body).all("text", "reference")}


@CANVASES
def test_dots_are_where_their_values_are(canvas: Canvas) -> None:
    kinds = [Kind("global", "s1", "circle"), Kind("shared", "s2", "square")]
    rows = [Row("naive", (10.0, math.nan), 1), Row("tiled", (0.1, 1.0), 3)]
    drawing = draw_dots(canvas, kinds, rows, "bytes", labels=True)
    at = ticks(drawing, "x")
    found = marks(drawing)
    assert [m.attributes["data-value"] for m in found] == ["10", "0.1", "1"]
    assert [m.number("data-x") for m in found] == pytest.approx([at["10"], at["0.1"], at["1"]], abs=0.02)
    assert [m.tag for m in found] == ["circle", "circle", "rect"], "shape tells kinds apart"


@CANVASES
def test_segments_of_a_stack_follow_each_other(canvas: Canvas) -> None:
    kinds = [Kind("needed", "s1"), Kind("conflicts", "s2", overlay="hatch")]
    drawing = draw_stacked(canvas, kinds, [Row("a", (1.0, 0.5), 1), Row("b", (2.0, 0.0), 2)], "wavefronts")
    at = ticks(drawing, "x")
    first, second, third = marks(drawing)
    assert first.number("x") == pytest.approx(at["0"], abs=0.02)
    assert second.number("x") == pytest.approx(first.number("x") + first.number("width"), abs=0.02)
    assert third.number("x") + third.number("width") == pytest.approx(at["2"], abs=0.02)
    assert second.number("width") == pytest.approx(first.number("width") / 2, abs=0.02)


def test_shares_fill_the_whole_row() -> None:
    kinds = [Kind("x", "s1"), Kind("y", "s2")]
    drawing = draw_stacked(WIDE, kinds, [Row("a", (30.0, 10.0), 1), Row("b", (5.0, 5.0), 2)], "share", share=True)
    at, found = ticks(drawing, "x"), marks(drawing)
    for pair in (found[:2], found[2:]):
        assert sum(m.number("width") for m in pair) == pytest.approx(at["100\u00a0%"] - at["0\u00a0%"], abs=0.05)
    assert "75\u00a0%" in read(drawing.body).text


@pytest.mark.parametrize(("low", "high"), [(0, 32), (32, 0)])
def test_shades_cover_the_range(low: float, high: float) -> None:
    values = [shade(low + (high - low) * i / 32, low, high) for i in range(33)]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (0, SHADES - 1)
    assert shade(3, 3, 3) == SHADES - 1


@CANVASES
def test_cells_without_a_value_are_hatched(canvas: Canvas) -> None:
    rows = [
        ("4", 0, [Cell(1.0, "1.0"), Cell(math.nan, "illegal", "too large")]),
        ("8", 0, [Cell(2.0, "2.0", best=True)] * 2),
    ]
    drawing = draw_cells(canvas, ("x", "y"), rows, 1, 2, "TM", "TN")
    tree = read(drawing.body)
    assert [m.attributes["data-value"] for m in tree.all(class_="mark")] == ["1", "2", "2"]
    (none,) = tree.all("rect", "none")
    assert none.one("title").text == "too large"
    assert len(tree.all("rect", "hatch-ink")) == 1
    assert len(tree.all("rect", "best")) == 2
    boxes = [(m.number("x"), m.number("y"), m.number("width"), m.number("height")) for m in tree.all("rect", "cell")]
    for (x, y, w, h), (u, v, _, _) in itertools.combinations(boxes, 2):
        assert abs(x - u) >= w or abs(y - v) >= h, "cells do not overlap"


def test_occupancy_falls_in_steps_with_the_kernel_on_its_step() -> None:
    gpu = gpu_named("H200")
    stairs = steps(curve(gpu, "registers", threads=256, registers=64, static_smem=0))
    held = next(s.occupancy.fraction for s in stairs if s.first <= 64 <= s.last)
    drawing = draw_steps(SMALL, stairs, 64, held, "registers per thread", "s1")
    xs, ys = ticks(drawing, "x"), ticks(drawing, "y")
    (mark,) = marks(drawing)
    assert mark.number("cx") == pytest.approx(between(xs, 64), abs=0.02)
    assert mark.number("cy") == pytest.approx(ys["0\u00a0%"] + (ys["100\u00a0%"] - ys["0\u00a0%"]) * held, abs=0.02)
    path = read(drawing.body).one("polyline", "curve").attributes["points"].split()
    corners = [tuple(map(float, p.split(","))) for p in path]
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in itertools.pairwise(corners)), "no slope between levels"


def test_a_chart_has_title_description_and_both_drawings() -> None:
    table = Table(("a", "b"), (("x", "1"), ("y", "–")))
    made = chart("key", "A <title>", "What to see.", table, lambda c: draw_bars(c, [Bar("a", 1, "1")], [], "u"))
    for svg in (read(made.wide).one("svg"), read(made.narrow).one("svg")):
        assert svg.one("desc").text == "What to see."
        labels = svg.attributes["aria-labelledby"].split()
        assert [n.attributes["id"] for n in svg.walk() if n.attributes.get("id") in labels] == labels
        assert svg.all("title")[0].text == "A <title>"
    assert table.numeric == (False, True)
