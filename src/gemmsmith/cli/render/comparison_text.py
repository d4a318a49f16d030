"""A comparison of two kernels or launches as text: sentences first, then the rows of both."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape

from gemmsmith.cli.render.diagnosis_text import print_quick_check
from gemmsmith.cli.render.output import item, print_table, say
from gemmsmith.explain.comparison_rows import Row
from gemmsmith.explain.diagnosis import MODEL
from gemmsmith.explain.profile import MACHINE, PTX
from gemmsmith.verify.quick_check import QuickCheck

_OF_PTX = ("Requests, wavefronts and conflicts are those of {level}. ptxas may join loads, so machine code may have "
           "fewer.")  # fmt: skip
_OF_MACHINE = "Requests, wavefronts, conflicts and instructions are those of the machine code, as in gemmsmith profile."


def print_comparison(
    titles: Sequence[str], names: Sequence[str], sentences: Sequence[str], found: Sequence[Row],
    checks: Sequence[QuickCheck | None] = (None, None), model: str = MODEL, level: str = PTX,
) -> None:  # fmt: skip
    """``titles`` and ``names`` are those of X and Y: a line each, and the heads of their columns.

    What ``checks`` found comes before every figure. ``model`` says how times were found, ``level`` what was counted.
    """
    for letter, title in zip("XY", titles, strict=True):
        item(f"{letter}  {title}", lead=letter)
    for letter, check in zip("XY", checks, strict=True):
        print_quick_check(letter, check)
    say()
    for sentence in sentences:
        item(f"- {sentence}")
    say()
    rows, section = [], ""
    for row in found:
        shown = row.section if row.section != section else ""
        rows.append(tuple(escape(cell) for cell in (shown, row.name, row.shown(row.left), row.shown(row.right))))
        section = row.section
    heads = [(f"{letter} {escape(name)}", "right") for letter, name in zip("XY", names, strict=True)]
    print_table((("", "left"), ("", "left"), *heads), rows)
    say()
    say(_OF_MACHINE if level == MACHINE else _OF_PTX.format(level=level), "dim")
    say(model, "dim")
