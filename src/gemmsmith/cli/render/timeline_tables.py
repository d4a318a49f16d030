"""A timeline for people: tables of at most 100 columns, then what to be careful about."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from gemmsmith.cli.render.output import WIDTH, console, table
from gemmsmith.trace.kernel_names import short_name
from gemmsmith.trace.mixed_rows import MixedRow
from gemmsmith.trace.timeline import API, Extent, Recording, Row, Table, Totals
from gemmsmith.trace.tools.target import Target

_COLUMNS = (("share", "right"), ("total", "right"), ("count", "right"), ("average", "right"), ("median", "right"),
            ("min", "right"), ("max", "right"), ("stddev", "right"), ("name", "left"))  # fmt: skip
_NAME_WIDTH, _NAME_LEAST = 30, 8
_WARNINGS = 6
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def print_timeline(
    target: Target, gpu: str, recording: Recording, whole: Totals, found: Sequence[Table], mixed: Sequence[MixedRow],
    top: int, trace: Path | None,
) -> None:  # fmt: skip
    """The whole run in a line, the tables that have rows, warnings, notes, where the trace is."""
    out = console()
    out.print(f"[bold]{escape(_cut(str(target), WIDTH))}[/bold]")
    for line in textwrap.wrap(_whole(whole, gpu, recording.tool), WIDTH):
        out.print(escape(line))
    if all(event.kind == API for event in recording.events):
        out.print("no kernel and no copy was recorded: the program gave the GPU nothing to do")
    for each in found:
        if each.rows:
            out.print()
            _print_table(each, top)
    cautions = [mixture.text for mixture in mixed[:_WARNINGS]]
    if len(mixed) > _WARNINGS:
        cautions.append(f"{len(mixed) - _WARNINGS} more rows mix sizes: --json lists them")
    notes = [*recording.notes]
    if any(mixture.reason in ("kernels", "grids") for mixture in mixed):
        notes.append("--by-grid gives each grid and block its own row")
    for mark, lines in (("warning", cautions), ("note", notes)):
        if lines:
            out.print()
        for text in lines:
            wrapped = textwrap.fill(f"{mark}: {text}", WIDTH, subsequent_indent="  ")
            out.print(escape(wrapped), style="yellow" if mark == "warning" else None)
    out.print()
    if trace is None:
        out.print("--trace FILE.json writes this run for ui.perfetto.dev")
    else:
        out.print(escape(f"{trace}: open it at ui.perfetto.dev"))


def amount(value: float, unit: str) -> str:
    """1.234 ms, 56.70 µs, 8 ns; 4.194 MB: four digits and the unit that fits."""
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
    result = table(title, _COLUMNS, [_cells(row, found.unit) for row in shown])
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
    """The start and the end of a long name: template arguments that tell kernels apart stand at its end."""
    if len(text) <= width:
        return text
    tail = width // 4
    return f"{text[: width - tail - 1]}…{text[-tail:]}"
