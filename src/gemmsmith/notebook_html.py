"""How results look in a notebook: a heading, a few facts, and tables that can be unfolded. Text is escaped here.

The colours are the notebook's own, so that the form is readable on light and dark pages: nothing sets a background or
the colour of text. A state is a word first, and the colour of a border besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_GOOD, _BAD, _PLAIN = "#2e9e5b", "#d64545", "#8a8f98"  # borders, visible on black and on white
_CELL = "text-align:{side};padding:0 .8em 0 0"


def card(title: str, parts: Iterable[str], *, good: bool | None = None) -> str:
    """A result: its title and ``parts``, which are HTML already. ``good`` colours the border; None: neither."""
    colour = _PLAIN if good is None else _GOOD if good else _BAD
    style = f"border-left:4px solid {colour};padding:2px 0 2px 10px;margin:4px 0;max-width:60em;overflow-x:auto"
    return f'<div class="gemmsmith" style="{style}"><strong>{escape(title)}</strong>{"".join(parts)}</div>'


def paragraph(text: str, *, small: bool = False) -> str:
    style = "margin:3px 0" + (";font-size:smaller;opacity:.8" if small else "")
    return f'<p style="{style}">{escape(text)}</p>' if text else ""


def listing(items: Sequence[str]) -> str:
    """Sentences, one below the other."""
    made = "".join(f"<li>{escape(each)}</li>" for each in items)
    return f'<ul style="margin:3px 0;padding-left:1.2em">{made}</ul>' if items else ""


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    return table((), [row for row in rows if row[1]], numbers=False)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> str:
    """A table; ``numbers``: every column but the first is set to the right."""
    right = "right" if numbers else "left"
    sides = ["left", *[right] * 20]

    def cells(tag: str, row: Sequence[str]) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        return "".join(
            f'<{tag}{scope} style="{_CELL.format(side=side)}">{escape(cell)}</{tag}>'
            for cell, side in zip(row, sides, strict=False)
        )

    head = f"<thead><tr>{cells('th', heads)}</tr></thead>" if any(heads) else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    style = "border-collapse:collapse;margin:3px 0;font-size:inherit;color:inherit"  # pages may not inherit them
    return f'<table style="{style}">{head}<tbody>{body}</tbody></table>'


def preformatted(text: str) -> str:
    style = "margin:3px 0;overflow-x:auto;background:none;color:inherit;font-size:smaller"
    return f'<pre style="{style}">{escape(text)}</pre>'


def folded(summary: str, content: str) -> str:
    """Content that is shown on demand."""
    return f'<details style="margin:3px 0"><summary>{escape(summary)}</summary>{content}</details>' if content else ""
