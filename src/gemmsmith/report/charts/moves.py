"""Quantities before and after a change, as bars of their ratio on a logarithmic axis with ×1 in the middle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gemmsmith.report.charts.frame import Canvas, Drawing
from gemmsmith.report.charts.scale import Scale
from gemmsmith.report.charts.svg import group, join, line, rect, text, width_of


@dataclass(frozen=True)
class Move:
    """One quantity: its values before and after, and their ratio; infinite where it appeared, 0 where it is gone."""

    label: str
    before: str
    now: str
    ratio: float
    words: str


_LARGEST = 64.0  # a ratio beyond it is drawn at the end of the axis


def draw_moves(canvas: Canvas, moves: Sequence[Move]) -> Drawing:
    """Left of the middle: less than before; right: more."""
    label_width = 0.0 if canvas.narrow else 12 + max(width_of(m.label, canvas.font) for m in moves)
    values = [f"{m.before} → {m.now}" for m in moves]
    room = 12 + max(width_of(v, canvas.font) for v in values)
    pitch, thick = (44.0, 16.0) if canvas.narrow else (30.0, 18.0)
    right = canvas.width - 6 if canvas.narrow else canvas.width - room
    drawn = [min(_LARGEST, max(m.ratio, 1 / m.ratio if m.ratio > 0 else _LARGEST)) for m in moves]
    reach, word = max(2.0, *drawn), 10 + max(width_of(m.words, canvas.font) for m in moves)
    scale = Scale(1 / reach, reach, label_width + 8 + word, right - word, log=True)
    middle, bottom = scale(1.0), 22 + pitch * len(moves)
    parts = [text(middle - 8, 12, "◂ less", "tick", "end"), text(middle + 8, 12, "more ▸", "tick")]
    for at, (move, value) in enumerate(zip(moves, values, strict=True)):
        y = 22 + at * pitch + (pitch - thick - 2 if canvas.narrow else (pitch - thick) / 2)
        end = scale(min(max(move.ratio, 1 / _LARGEST), _LARGEST))
        less = end < middle
        one = [
            text(0, (y - 6) if canvas.narrow else y + thick / 2 + 4.5, move.label, "name"),
            text(canvas.width, (y - 6) if canvas.narrow else y + thick / 2 + 4.5, value, "value halo", "end"),
            rect(min(end, middle), y, abs(end - middle), thick, f"{'s3' if less else 's2'} fill mark",
                 f"{move.label}: {value}, {move.words}", 3, None if math.isinf(move.ratio) else move.ratio),
            text(end - 6 if less else end + 6, y + thick / 2 + 4.5, move.words, "tick halo",
                 "end" if less else "start"),
        ]  # fmt: skip
        parts.append(group(*one))
    parts.append(line(middle, 18, middle, bottom, "reference-line"))
    return Drawing(join(*parts), bottom + 6)
