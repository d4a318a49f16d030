"""How commands print: prose wrapped once to the width of the terminal, tables, one JSON object, progress bars."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gemmsmith.cli.render.ascii import is_unicode, to_ascii

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.progress import Progress
    from rich.table import Table

WIDEST = 100  # columns on a wider terminal, and in a pipe
_NARROWEST = 20
_COMMANDS = ("repeat: ", "next: ", "look: ")  # begin a line with a command, which must be copied as one line
_WORD = 12  # columns that the longest word of a text column has, unless it is shorter
Column = tuple[str, str]
"""(heading, 'left' for text that may wrap, 'right' for numbers, 'bar' for what must not wrap)."""


def columns(stderr: bool = False) -> int:
    """Columns to print in: COLUMNS where it is set, else the terminal's up to 100, else 100."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isascii() and wanted.isdigit() and int(wanted[:6]) > 0:
        return max(_NARROWEST, int(wanted[:6]))
    stream = sys.stderr if stderr else sys.stdout
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else WIDEST
    except (OSError, ValueError):  # no file behind the stream
        width = WIDEST
    return min(WIDEST, max(_NARROWEST, width or WIDEST))


def console(stderr: bool = False, width: int = 0) -> Console:
    """A console of that many columns, or of ``width``, that changes nothing of what it is given."""
    from rich.console import Console

    return Console(stderr=stderr, width=width or columns(stderr), highlight=False, emoji=False)


def wrap(text: str, width: int, indent: str = "", hang: str = "") -> str:
    """``text`` in lines of ``width`` columns. A line that fits stays as it is; a word is never broken, nor a command.

    indent   before every line
    hang     before every further line of one that had to be wrapped, besides
    """
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        body = line.lstrip(" ")
        own = indent + line[: len(line) - len(body)]
        if len(own + body) <= width or body.startswith(_COMMANDS):
            lines.append(own + body)
        else:
            lines += textwrap.wrap(body, width, initial_indent=own, subsequent_indent=own + hang,
                                   break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines)


def say(
    text: str = "", style: str = "", *, indent: str = "", hang: str = "", lead: str = "", lead_style: str = "bold",
    stderr: bool = False,
) -> None:  # fmt: skip
    """Print prose, wrapped to the terminal. ``lead`` is the beginning of ``text``, printed in its own style."""
    from rich.text import Text

    stream = sys.stderr if stderr else sys.stdout
    if not is_unicode(stream):
        text, lead = to_ascii(text), to_ascii(lead)
    shown = Text(wrap(text, columns(stderr), indent, hang), style=style)
    if lead:
        shown.stylize(lead_style, len(indent), len(indent) + len(lead))
    console(stderr).print(shown, soft_wrap=True)


def patch(text: str) -> None:
    """Print a patch as it is: no line is wrapped, so that it can be applied."""
    from rich.text import Text

    console().print(Text(text if is_unicode(sys.stdout) else to_ascii(text)), soft_wrap=True)


def item(text: str, style: str = "", *, indent: str = "", lead: str = "", stderr: bool = False) -> None:
    """A line of a list: what is wrapped hangs by two columns."""
    say(text, style, indent=indent, hang="  ", lead=lead, stderr=stderr)


def print_table(
    columns_: Sequence[Column], rows: Iterable[Sequence[str]], title: str = "", title_style: str = "italic"
) -> None:
    """A table under its title. Cells are rich markup. Only text columns wrap: a number is never broken."""
    if title:
        say(title, title_style)
    made = table(columns_, rows)
    # A table that needs more columns gets them: the terminal may wrap its lines, but no number is cut.
    console(width=max(columns(), _least_width(made))).print(made)


def _least_width(made: Table) -> int:
    """The columns in which every number and every word of a usual length is whole."""
    from rich.text import Text

    widths = []
    for column in made.columns:
        cells = [Text.from_markup(str(cell)) for cell in (column.header, *column.cells)]
        pieces = [piece for cell in cells for piece in (cell.split() if column.no_wrap else cell.plain.split())]
        widest = max((len(piece) for piece in pieces), default=0)
        widths.append(widest if column.no_wrap else min(widest, _WORD))
    return sum(widths) + 2 * (len(widths) - 1)


def table(columns_: Sequence[Column], rows: Iterable[Sequence[str]]) -> Table:
    """The same as an object of rich."""
    from rich.table import Table

    shown = (lambda cell: cell) if is_unicode(sys.stdout) else to_ascii
    result = Table(header_style="bold", pad_edge=False, box=None, show_header=any(heading for heading, _ in columns_))
    for heading, side in columns_:
        justify: JustifyMethod = "right" if side == "right" else "left"
        result.add_column(shown(heading), justify=justify, no_wrap=side != "left", overflow="fold")
    for row in rows:
        result.add_row(*(shown(cell) for cell in row))
    return result


def print_json(value: dict[str, Any]) -> None:
    """One object, with keys in the order given; NaN is not JSON and must not get here."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def progress() -> Progress:
    """A progress bar on stderr that vanishes when done, so that stdout holds only results; none without a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    where = console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(), console=where, transient=True, disable=not where.is_terminal,
    )  # fmt: skip


def bytes_text(count: int) -> str:
    """A byte count for people."""
    if count >= 1024**2:
        return f"{count / 1024**2:.1f} MB"
    return f"{count / 1024:.1f} KB" if count >= 1024 else f"{count} B"
