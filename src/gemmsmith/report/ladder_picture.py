"""The ladder as a picture of its own, for a README: an SVG on a light card, which reads on a dark page as well."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from gemmsmith.errors import UsageError
from gemmsmith.report.charts.frame import WIDE, Canvas, Drawing, document
from gemmsmith.report.charts.patterns import patterns
from gemmsmith.report.charts.svg import el, join, rect, text
from gemmsmith.report.figures.speed import Ladder, ladder_parts
from gemmsmith.report.files import inline, replace_file
from gemmsmith.report.speeds import speeds_of
from gemmsmith.report.story import Story

_SVG = "http://www.w3.org/2000/svg"  # the name of the language, not an address that anything fetches
_MARGIN = 28.0
_HEAD = 84.0
_RULES = (
    ':root { --sans: system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }\n'
    ".chart .headline { font-size: 21px; font-weight: 800; } .chart .where { font-size: 14px; fill: var(--soft); }\n"
    ".sheet { fill: var(--card); stroke: var(--grid-strong); }\n"
)


def ladder_picture(story: Story) -> str:
    """The picture as the text of an SVG file."""
    made = ladder_parts(story, speeds_of(story), {})
    if made is None:
        raise UsageError("no rung has a speed to draw", "gemmsmith climb measures or predicts one for each rung")
    canvas = Canvas(WIDE.width + 2 * _MARGIN, WIDE.font)
    return str(document("ladder", made.title, made.caption, canvas, _drawn(made, canvas), "chart", _SVG)) + "\n"


def write_ladder_picture(path: str | Path, story: Story) -> Path:
    """Write the picture: a reader sees the old file or the new one, never a part."""
    return replace_file(path, ladder_picture(story))


def _drawn(made: Ladder, canvas: Canvas) -> Drawing:
    inside = made.draw(WIDE)
    notes = [made.note] if made.note else []
    height = _HEAD + inside.height + 22 * len(notes) + 20
    style = inline("colours.css") + _RULES + inline("charts.css")
    body = join(
        el("style", Markup(style)), patterns(),
        rect(0.5, 0.5, canvas.width - 1, height - 1, "sheet", radius=14),
        text(_MARGIN, 40, made.title, "headline"), text(_MARGIN, 64, f"TFLOPS at {made.where}", "where"),
        el("g", inside.body, transform=f"translate({_MARGIN:g} {_HEAD:g})"),
        *(text(_MARGIN, _HEAD + inside.height + 22 * i + 10, note, "tick") for i, note in enumerate(notes)),
    )  # fmt: skip
    return Drawing(body, height)
