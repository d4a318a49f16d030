"""The ladder as an SVG file for the README, on a light card so that it is readable on dark pages too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from gemmsmith.errors import UsageError
from gemmsmith.report.charts.frame import WIDE, Canvas, Drawing, document
from gemmsmith.report.charts.patterns import patterns
from gemmsmith.report.charts.svg import el, join, rect, text
from gemmsmith.report.figures.ladder import Ladder, ladder_parts
from gemmsmith.report.files import inline, replace_file
from gemmsmith.report.report_model import ReportModel
from gemmsmith.report.speeds import speeds_of
from gemmsmith.report.summary import headline_words

_SVG = "http://www.w3.org/2000/svg"  # an XML namespace; nothing fetches it
_MARGIN = 28.0
_HEAD = 84.0
_BETWEEN = 12.0
_RULES = (
    ':root { --sans: system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }\n'
    ".chart .headline { font-size: 21px; font-weight: 800; } .chart .where { font-size: 14px; fill: var(--soft); }\n"
    ".chart .panel { font-size: 15px; font-weight: 700; }\n"
    ".sheet { fill: var(--card); stroke: var(--grid-strong); }\n"
)


def ladder_picture(model: ReportModel) -> str:
    """The picture as the text of an SVG file."""
    speeds = speeds_of(model)
    panels = ladder_parts(model, speeds, {})
    if not panels:
        raise UsageError("no rung has a speed to draw", "gemmsmith climb measures or predicts one for each rung")
    title = panels[0].title if len(panels) == 1 else headline_words(model, speeds)
    canvas = Canvas(WIDE.width + 2 * _MARGIN, WIDE.font)
    caption = " ".join(panel.caption for panel in panels)
    return str(document("ladder", title, caption, canvas, _drawn(title, panels, canvas), "chart", _SVG)) + "\n"


def write_ladder_picture(path: str | Path, model: ReportModel) -> Path:
    """Write the picture. Atomic for readers."""
    return replace_file(path, ladder_picture(model))


def _drawn(title: str, panels: Sequence[Ladder], canvas: Canvas) -> Drawing:
    """Stack the panels, each with its own scale; the shared subtitle appears once."""
    where = dict.fromkeys(panel.where for panel in panels)
    parts, y = [], _HEAD
    for panel in panels:
        if len(panels) > 1:
            parts.append(text(_MARGIN, y + 14, panel.heading, "panel"))
            y += 24
        inside = panel.draw(WIDE)
        parts.append(el("g", inside.body, transform=f"translate({_MARGIN:g} {y:g})"))
        y += inside.height
        if panel.note:
            parts.append(text(_MARGIN, y + 10, panel.note, "tick"))
            y += 22
        y += _BETWEEN
    height = y - _BETWEEN + 20
    style = inline("colours.css") + _RULES + inline("charts.css")
    body = join(
        el("style", Markup(style)), patterns(), rect(0.5, 0.5, canvas.width - 1, height - 1, "sheet", radius=14),
        text(_MARGIN, 40, title, "headline"), text(_MARGIN, 64, f"TFLOPS at {'; '.join(where)}", "where"), *parts,
    )  # fmt: skip
    return Drawing(body, height)
