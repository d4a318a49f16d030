"""Hatching patterns, shared by the whole page, so that nothing is told apart by colour alone."""

from __future__ import annotations

from markupsafe import Markup

from gemmsmith.report.charts.svg import el


def patterns() -> Markup:
    """The definitions behind the CSS classes hatch, hatch-back, dots and hatch-ink."""

    def made(name: str, inside: Markup, degrees: int) -> Markup:
        return el("pattern", inside, id=name, width=6, height=6, patternUnits="userSpaceOnUse",
                  patternTransform=f"rotate({degrees})")  # fmt: skip

    stroke = el("rect", x=0, y=0, width=2, height=6, class_="over")
    return el(
        "defs", made("hatch", stroke, 45), made("hatch-back", stroke, -45), made("hatch-ink", _thin(), 45),
        made("dots", el("circle", cx=3, cy=3, r=1.3, class_="over"), 0),
    )  # fmt: skip


def _thin() -> Markup:
    return el("rect", x=0, y=0, width=1, height=6, class_="over-ink")
