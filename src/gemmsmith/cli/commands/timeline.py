"""gemmsmith timeline: the time a program spends in CUDA calls, kernels and copies, and a trace for Perfetto."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperOption

from gemmsmith.bench.machine import machine_facts
from gemmsmith.cli.command_table import COMMANDS
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.options.output import TableOptions
from gemmsmith.cli.render.output import item, print_json
from gemmsmith.cli.render.timeline_tables import print_timeline
from gemmsmith.errors import MissingDeviceError, UsageError
from gemmsmith.run.cuda import cuda_device, device_count
from gemmsmith.store.results import Machine
from gemmsmith.trace.mixed_rows import MixedRow, mixed_rows
from gemmsmith.trace.timeline import Recording, Table, Totals, tables, totals
from gemmsmith.trace.tools.record import check_name, record, usable
from gemmsmith.trace.tools.target import COMMAND, Target, target_of
from gemmsmith.trace.trace_file import write_trace

_ORIGIN = "measured"


class TimelineCommand(TyperCommand):
    """Our options precede the program; every word from there on is the program's, also --json and -h."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own, rest = split_words(args, self.valued)
        return super().parse_args(ctx, [*own, "--", *rest] if rest else own)

    @property
    def valued(self) -> frozenset[str]:
        """The options that take the word after them."""
        options = [p for p in self.params if isinstance(p, TyperOption) and not p.is_flag]
        return frozenset(name for option in options for name in option.opts)


def split_words(words: Sequence[str], valued: frozenset[str]) -> tuple[list[str], list[str]]:
    """Our options, and the program with its arguments; it begins with a name, with -m or with --."""
    at = 0
    while at < len(words):
        word = words[at]
        if word in ("-m", "--") or not word.startswith("-"):
            break
        at += 2 if word in valued else 1
    return list(words[:at]), list(words[at:])


COMMAND_CLASS = TimelineCommand


@dataclass(frozen=True)
class TimelineOptions(OptionGroup):
    """How the program is recorded and shown."""

    panel: ClassVar[str] = "Timeline"

    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE.json", help="Write a trace for ui.perfetto.dev; .json.gz is smaller."),
    ] = None
    tool: Annotated[str, typer.Option("--tool", help="auto, cupti, torch or nsys.")] = "auto"
    top: Annotated[int, typer.Option("--top", help="Rows of each table; 0: all.")] = 10
    by_grid: Annotated[
        bool, typer.Option("--by-grid", help="A row for each grid and block of a kernel, not one per name.")
    ] = False

    def __post_init__(self) -> None:
        if self.top < 0:
            raise UsageError(f"--top {self.top} is negative", "give the number of rows; 0 is all of them")
        if self.trace is not None and not self.trace.absolute().parent.is_dir():
            raise UsageError(f"--trace: there is no folder {self.trace.parent}")


def command(
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCRIPT.py … | -m MODULE … | -- COMMAND …",
            help="A Python script, a module, or a command of gemmsmith (-- bench warp_tile), with its own arguments.",
            show_default=False,
        ),
    ] = None,
    *,
    options: TimelineOptions,
    output: TableOptions,
) -> None:
    """Show where a program's time on the GPU went: CUDA calls, kernels, copies.

    The tables are those of Nsight Systems.
    """
    target = target_of(program or [], list(COMMANDS))
    check_name(options.tool)
    _need_gpu()
    recording = record(target, usable(options.tool), quiet=output.json or output.csv)
    machine = machine_facts(cuda_device())
    found = tables(recording.events, options.by_grid)
    mixed = mixed_rows(recording.events, options.by_grid)
    if options.trace is not None:
        write_trace(options.trace, recording, str(target))
    if output.json:
        print_json(to_json(target, machine, recording, totals(recording), found, mixed))
    elif output.csv:
        sys.stdout.write(to_csv(found))
    else:
        print_timeline(target, machine.gpu, recording, totals(recording), found, mixed, options.top, options.trace)
    if recording.exit_code != 0:
        item(f"exit code {recording.exit_code}: {target}", stderr=True)
        raise typer.Exit(_exit_code(target, recording.exit_code))


def _need_gpu() -> None:
    try:
        device_count()
    except MissingDeviceError as error:
        raise MissingDeviceError(
            error.message, "timeline records what a GPU does; `gemmsmith profile` counts on the simulator"
        ) from None


def _exit_code(target: Target, code: int) -> int:
    """A gemmsmith command has our exit codes already; any other failing program is 1."""
    return code if target.kind == COMMAND and code in (1, 2, 3) else 1


def to_json(
    target: Target, machine: Machine, recording: Recording, whole: Totals, found: Sequence[Table],
    mixed: Sequence[MixedRow],
) -> dict[str, Any]:  # fmt: skip
    """Everything, with full names; times in nanoseconds, sizes in bytes."""
    return {
        "program": target.words,
        "tool": recording.tool,
        "origin": _ORIGIN,
        "machine": asdict(machine) | {"packages": dict(machine.packages)},
        "exit_code": recording.exit_code,
        "totals_ns": asdict(whole),
        "tables": [
            {"report": table.key, "title": table.title, "unit": table.unit, "rows": [asdict(r) for r in table.rows]}
            for table in found
        ],
        "warnings": [asdict(mixture) | {"text": mixture.text} for mixture in mixed],
        "notes": list(recording.notes),
    }


def to_csv(found: Sequence[Table]) -> str:
    """report, unit, share, count, total … name, grid, block: one row per name."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("report", "unit", "share_percent", "count", "total", "average", "median", "min", "max", "stddev",
                   "name", "grid", "block"))  # fmt: skip
    for table in found:
        for row in table.rows:
            rows.writerow((table.key, table.unit, f"{row.share:.3f}", row.count, row.total, f"{row.average:.1f}",
                           f"{row.median:.1f}", row.minimum, row.maximum, f"{row.deviation:.1f}", row.name,
                           "x".join(map(str, row.grid or ())), "x".join(map(str, row.block or ()))))  # fmt: skip
    return text.getvalue()
