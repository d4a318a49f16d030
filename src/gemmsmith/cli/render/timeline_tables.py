"""A timeline as tables, then warnings and notes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from gemmsmith.cli.render.output import columns, console, item, say, table
from gemmsmith.trace.kernel_names import short_name
from gemmsmith.trace.mixed_rows import MixedRow
from gemmsmith.trace.timeline import API, Extent, Recording, Row, Table, Totals
from gemmsmith.trace.tools.target import Target

_COLUMNS = (("share", "right"), ("total", "right"), ("count", "right"), ("average", "right"), ("median", "right"),
            ("min", "right"), ("max", "right"), ("stddev", "right"), ("name", "bar"))  # fmt: skip
_ALL_COLUMNS = 98  # terminal columns; fewer leave out min, max and stddev, which --csv and --json have
_NARROW = (0, 1, 2, 3, 4, 8)
_NAME_WIDTH, _NAME_LEAST = 30, 8
_WARNINGS = 6
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def print_timeline(
    target: Target, gpu: str, recording: Recording, whole: Totals, found: Sequence[Table], mixed: Sequence[MixedRow],
    top: int, trace: Path | None,
) -> None:  # fmt: skip
    """Totals in a line, the tables that have rows, warnings, notes, and where the trace is."""
    say(_cut(str(target), columns()), "bold")
    say(_whole(whole, gpu, recording.tool))
    if all(event.kind == API for event in recording.events):
        say("no kernel and no copy was recorded: the program gave the GPU nothing to do")
    for each in found:
        if each.rows:
            say()
            _print_table(each, top)
    cautions = [mixture.text for mixture in mixed[:_WARNINGS]]
    if len(mixed) > _WARNINGS:
        cautions.append(f"{len(mixed) - _WARNINGS} more rows mix sizes: --json lists them")
    notes = [*recording.notes]
    if any(mixture.reason in ("kernels", "grids") for mixture in mixed):
        notes.append("--by-grid gives each grid and block its own row")
    for mark, lines, style in (("warning", cautions, "yellow"), ("note", notes, "")):
        if lines:
            say()
        for text in lines:
            item(f"{mark}: {text}", style)
    say()
    if trace is None:
        say("--trace FILE.json writes this run for ui.perfetto.dev")
    else:
        item(f"{trace}: open it at ui.perfetto.dev")


def amount(value: float, unit: str) -> str:
    """1.234 ms, 56.70 µs, 8 ns; 4.194 MB: four digits and a unit."""
    for size, name in _TIMES if unit == "ns" else _SIZES:
        if value >= size:
            number = value / size
            digits = 0 if size == 1.0 and number == int(number) else max(0, 3 - len(str(int(number))) + 1)
            return f"{number:.{min(3, digits)}f} {name}"
    return "0"


def _whole(whole: Totals, gpu: str, tool: str) -> str:
    def time(value: int) -> str:
        return amount(value, "ns").replace(" ", "\N{NO-BREAK SPACE}")

    busy = f" ({100 * whole.gpu_busy / whole.wall:.1f}% of it)" if whole.wall else ""
    return (
        f"measured on {gpu} with {tool}: {time(whole.wall)} in all; GPU busy {time(whole.gpu_busy)}{busy}; "
        f"kernels {time(whole.kernels)}; copies and fills {time(whole.memory)}; in CUDA calls {time(whole.api)}"
    )


def _print_table(found: Table, top: int) -> None:
    shown = found.rows[:top] if top else found.rows
    left = len(found.rows) - len(shown)
    title = f"{found.title}: {amount(found.total, found.unit)}" + (f", {left} more rows: --top 0" if left else "")
    say(title, "italic")
    kept = range(len(_COLUMNS)) if columns() >= _ALL_COLUMNS else _NARROW
    cells = [_cells(row, found.unit) for row in shown]
    result = table([_COLUMNS[at] for at in kept], [[row[at] for at in kept] for row in cells])
    result.padding = (0, 1, 0, 0)
    console().print(result)


def _cells(row: Row, unit: str) -> list[str]:
    values = (row.total, row.average, row.median, row.minimum, row.maximum, row.deviation)
    total, *rest = (amount(value, unit) for value in values)
    return [f"{row.share:.1f}%", total, str(row.count), *rest, escape(label(row))]


def label(row: Row) -> str:
    """A row's name, cut to fit, with grid and block where the row has them: gemm ⟨8×8, 256⟩."""
    launch = f" ⟨{_extent(row.grid)}, {_extent(row.block)}⟩" if row.grid and row.block else ""
    return _cut(short_name(row.name), max(_NAME_LEAST, _NAME_WIDTH - len(launch))) + launch


def _extent(extent: Extent) -> str:
    x, y, z = extent
    return f"{x}×{y}×{z}" if z > 1 else f"{x}×{y}" if y > 1 else str(x)


def _cut(text: str, width: int) -> str:
    """The start and the end of a long name: the template arguments that distinguish kernels are at its end."""
    if len(text) <= width:
        return text
    tail = width // 4
    return f"{text[: width - tail - 1]}…{text[-tail:]}"
