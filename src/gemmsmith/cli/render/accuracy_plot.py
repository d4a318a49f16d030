"""A study of errors as a picture: a panel per kind of data, the largest error over K, all on one scale.

An SVG on a light card, readable on a dark page as well. A kernel has a colour, a shape and a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from gemmsmith.cli.render.accuracy_tables import Study
from gemmsmith.errors import UsageError
from gemmsmith.fills import fill_named
from gemmsmith.problem import FP32, ceil_div
from gemmsmith.report.charts.frame import Canvas, Drawing, document, x_axis, y_axis
from gemmsmith.report.charts.scale import Scale, log_ticks, spread
from gemmsmith.report.charts.svg import badge, colour, el, group, join, line, marker, polyline, rect, shape, text
from gemmsmith.report.charts.svg import width_of as width_of_text
from gemmsmith.report.files import inline, replace_file
from gemmsmith.verify.oracles.accuracy_study import Point

_SVG = "http://www.w3.org/2000/svg"  # the name of the language, not an address that anything fetches
_MARGIN, _FONT = 28.0, 13.0
_PANEL_WIDTH, _PANEL_HEIGHT, _BETWEEN = 330.0, 250.0, 26.0
_LEFT, _TOP, _BOTTOM, _RIGHT = 40.0, 62.0, 200.0, 292.0  # of the axes, inside a panel
_ACROSS = 3
_BADGE, _BADGE_GAP = 9.0, 19.0
_RULES = (
    ':root { --sans: system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }\n'
    ".chart .headline { font-size: 20px; font-weight: 800; } .chart .where { font-size: 13.5px; fill: var(--soft); }\n"
    ".chart .panel { font-size: 15px; font-weight: 700; } .chart .meaning { font-size: 12px; fill: var(--soft); }\n"
    ".sheet { fill: var(--card); stroke: var(--grid-strong); }\n"
)


def write_plot(study: Study, path: Path) -> None:
    try:
        replace_file(path, accuracy_picture(study))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def accuracy_picture(study: Study) -> str:
    """The picture as the text of an SVG file."""
    names = [d for d in study.plan.distributions if any(p.distribution == d for p in study.points)]
    across = min(_ACROSS, len(names))
    # At least as wide as two panels, so that the captions fit.
    inner = max(2, across) * (_PANEL_WIDTH + _BETWEEN) - _BETWEEN
    canvas = Canvas(inner + 2 * _MARGIN, _FONT)
    title = "Largest component-wise error over K"
    where = (
        f"{study.plan.m}×{study.plan.n} products of {study.operands}, {study.origin}: {study.device}, "
        f"gemmsmith {study.version}, {study.date}"
    )
    keys, top = _keys(study, inner, 106.0)
    scale = _scale(study.points)
    panels = []
    for at, name in enumerate(names):
        row, column = divmod(at, across)
        x, y = _MARGIN + column * (_PANEL_WIDTH + _BETWEEN), top + row * (_PANEL_HEIGHT + _BETWEEN)
        panels.append(el("g", _panel(study, name, scale), transform=f"translate({x:g} {y:g})"))
    height = top + ceil_div(len(names), across) * (_PANEL_HEIGHT + _BETWEEN)
    caption = "Largest |E| / (|A||B|) in units of 2⁻²⁴, fp32's roundoff; one logarithmic scale, 0 is not drawn"
    body = join(
        el("style", Markup(inline("colours.css") + _RULES + inline("charts.css"))),
        rect(0.5, 0.5, canvas.width - 1, height - 1, "sheet", radius=14),
        text(_MARGIN, 38, title, "headline"), text(_MARGIN, 60, where, "where"),
        text(_MARGIN, 80, caption, "where"), keys, *panels,
    )  # fmt: skip
    return str(document("accuracy", title, caption, canvas, Drawing(body, height), "chart", _SVG)) + "\n"


def _keys(study: Study, inner: float, top: float) -> tuple[Markup, float]:
    """The legend, in rows; and the position below it."""
    parts, x, y = [], _MARGIN, top
    for number, subject in enumerate(study.subjects, start=1):
        words = f"{subject.name} ({subject.arithmetic}{', baseline' if subject.is_baseline else ''})"
        width = 52 + width_of_text(words, _FONT)
        if x > _MARGIN and x + width > _MARGIN + inner:
            x, y = _MARGIN, y + 24
        parts += [badge(x + 9, y, number, _BADGE), marker(x + 28, y, shape(number), f"{colour(number)} fill"),
                  text(x + 40, y + 4.5, words, "name")]  # fmt: skip
        x += width
    return group(*parts), y + 26


def _in_fp32_units(point: Point) -> float:
    return point.errors.largest * point.unit / FP32.unit_roundoff


def _drawable(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _scale(points: Sequence[Point]) -> Scale:
    """One for all panels, in whole powers of ten."""
    values = [value for p in points if _drawable(value := _in_fp32_units(p))] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Scale(10.0**low, 10.0 ** max(high, low + 1), _BOTTOM, _TOP, log=True)


def _panel(study: Study, distribution: str, y: Scale) -> Markup:
    depths = sorted(study.plan.depths)
    low, high = (depths[0], depths[-1]) if len(depths) > 1 else (depths[0] / 2, depths[0] * 2)
    x = Scale(low, high, _LEFT + 12, _RIGHT - 30, log=True)
    mine = [p for p in study.points if p.distribution == distribution]
    curves, ends, zeros, lost = [], [], [], []
    for number, subject in enumerate(study.subjects, start=1):
        of = sorted((p for p in mine if p.subject == subject.name), key=lambda p: p.k)
        drawn = [p for p in of if _drawable(_in_fp32_units(p))]
        places = [(x(p.k), y(_in_fp32_units(p))) for p in drawn]
        zeros += [number] if of and all(p.errors.largest == 0 for p in of) else []
        lost += [number] if any(not math.isfinite(p.errors.largest) for p in of) else []
        if not places:
            continue
        curves.append(polyline(places, f"{colour(number)} curve"))
        curves += [
            marker(px, py, shape(number), f"{colour(number)} fill mark", _words(p), 4, _in_fp32_units(p))
            for (px, py), p in zip(places, drawn, strict=True)
        ]
        ends.append((number, places[-1]))
    names = []
    for (number, (px, py)), place in zip(ends, spread([py for _, (_, py) in ends], _BADGE_GAP, _TOP + 4, _BOTTOM - 4),
                                         strict=True):  # fmt: skip
        names += [line(px + 6, py, _RIGHT, place, "leader"), badge(_RIGHT + 9, place, number, _BADGE)]
    for at, (what, numbers) in enumerate((("no error at all", zeros), ("results that are not finite", lost))):
        if numbers:
            names.append(text(_LEFT + 8, _BOTTOM - 8 - 16 * at, f"{what}: {', '.join(map(str, numbers))}", "tick"))
    return group(
        text(0, 16, distribution, "panel"), text(0, 34, fill_named(distribution).meaning, "meaning"),
        y_axis(y, _thinned(log_ticks(y.low, y.high)), _LEFT, _RIGHT, _power, ""),
        x_axis(x, _apart(depths, x), _TOP, _BOTTOM, lambda k: f"{k:.0f}", "K"), *curves, *names,
    )  # fmt: skip


def _words(point: Point) -> str:
    return f"{point.subject}, {point.distribution}, K = {point.k}: {_in_fp32_units(point):.3g} units of 2⁻²⁴"


def _thinned(ticks: Sequence[float]) -> list[float]:
    """Powers of ten only, and no more than eight."""
    powers = [tick for tick in ticks if abs(math.log10(tick) - round(math.log10(tick))) < 1e-9]
    return powers[:: ceil_div(len(powers), 8)]


def _apart(depths: Sequence[int], x: Scale) -> list[float]:
    """The depths whose labels do not touch."""
    kept: list[float] = []
    for depth in depths:
        if not kept or x(depth) - x(kept[-1]) >= (width_of_text(f"{depth}", _FONT) + width_of_text(
            f"{kept[-1]:.0f}", _FONT)) / 2 + 6:  # fmt: skip
            kept.append(depth)
    return kept


def _power(value: float) -> str:
    """0.01 … 1000 as they are, then 10⁴."""
    power = round(math.log10(value))
    return (
        f"{value:g}" if -3 <= power <= 3 else f"10{str(power).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    )
