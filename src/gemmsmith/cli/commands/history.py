"""gemmsmith history: recorded runs, what got faster or slower between them, their export and repair."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from gemmsmith.cli.names import did_you_mean
from gemmsmith.cli.options.groups import OptionGroup, expand_groups
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.render.history_tables import (
    best_tflops,
    comparison_json,
    print_comparison,
    print_run,
    print_runs,
    short,
)
from gemmsmith.cli.render.output import print_json, say
from gemmsmith.cli.render.repair_text import print_repair, repair_json
from gemmsmith.errors import UsageError
from gemmsmith.problem import dtype_named
from gemmsmith.store.database import Results
from gemmsmith.store.export import FORMATS, flat_table, write_table
from gemmsmith.store.results import Run
from gemmsmith.store.run_comparison import LEAST_CHANGE, compare_runs
from gemmsmith.store.run_file import run_to_json

app = typer.Typer(name="history", add_completion=False)

_RUN_HELP = "An id or its beginning, 'latest', or 'latest~2' for two before."
_RunName = Annotated[str, typer.Argument(metavar="RUN", help=_RUN_HELP)]


@dataclass(frozen=True)
class DatabaseOptions(OutputOptions):
    """The database that is read; before a subcommand or after it."""

    db: Annotated[
        Path | None,
        # Not with typer's envvar: a subcommand would take the variable for its own option, and override one before it.
        typer.Option("--db", metavar="FILE", help="The results database. Default: GEMMSMITH_DB, or the user's own."),
    ] = None

    def over(self, before: object) -> DatabaseOptions:
        """These options, and those given before the subcommand."""
        if not isinstance(before, DatabaseOptions):
            return self
        return DatabaseOptions(json=self.json or before.json, db=self.db or before.db)


@dataclass(frozen=True)
class FilterOptions(OptionGroup):
    """Which runs."""

    panel: ClassVar[str] = "Filter"

    gpu: Annotated[str, typer.Option("--gpu", help="Only GPUs with this in their name.")] = ""
    since: Annotated[str, typer.Option("--since", help="Only runs from this date or time (UTC) on: 2026-11-15.")] = ""


@app.callback(invoke_without_command=True)
@expand_groups
def runs(
    ctx: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="How many runs, newest first.", rich_help_panel="Filter")
    ] = 20,
    *,
    chosen: FilterOptions,
    database: DatabaseOptions,
) -> None:
    """List, show, compare, export and repair recorded measurements.

    Without a subcommand: list the runs.
    """
    if ctx.invoked_subcommand is not None:
        if chosen != FilterOptions():
            raise UsageError("--gpu and --since before a subcommand have no effect", "write them after it")
        ctx.obj = database
        return
    with Results.open(database.db, read_only=True) as results:
        ids = results.ids()
        found = results.runs(gpu=chosen.gpu, since=chosen.since, limit=limit)
    if database.json:
        listed = [_summary(run, ids) for run in found]
        print_json({"database": str(results.path), "recorded": len(ids), "runs": listed})
    elif not ids:
        say(f"No runs in {results.path} yet. Record one with: gemmsmith bench warp_tile")
    elif not found:
        say(f"None of the {len(ids)} runs in {results.path} is of that GPU and time.")
    else:
        print_runs(found, ids)


@app.command("show")
@expand_groups
def show(ctx: typer.Context, run: _RunName = "latest", *, database: DatabaseOptions) -> None:
    """Show one run: the machine, and everything that was measured."""
    given = database.over(ctx.obj)
    with Results.open(given.db, read_only=True) as results:
        found = results.run(run)
    if given.json:
        print_json(run_to_json(found))
    else:
        print_run(found)


@app.command("compare")
@expand_groups
def compare(
    ctx: typer.Context,
    a: Annotated[str | None, typer.Argument(metavar="[A", help=f"The earlier run. {_RUN_HELP}")] = None,
    b: Annotated[str | None, typer.Argument(metavar="B]", help="The later run. Without A and B: the last two.")] = None,
    least: Annotated[
        float, typer.Option("--least", min=0, max=100, help="Treat changes below this many per cent as noise.")
    ] = 100 * LEAST_CHANGE,
    everything: Annotated[bool, typer.Option("--all", help="Also list what stayed the same.")] = False,
    *,
    database: DatabaseOptions,
) -> None:
    """Say what got faster or slower from A to B, beyond noise.

    Exits 1 where one of our kernels got slower.
    """
    if math.isnan(least):
        raise UsageError("--least must be a number of per cent")
    if a is not None and b is None:
        raise UsageError(f"compare {a} with which run?", f"give both: gemmsmith history compare {a} latest; or none")
    given = database.over(ctx.obj)
    with Results.open(given.db, read_only=True) as results:
        found = compare_runs(results.run(a or "latest~1"), results.run(b or "latest"), least / 100)
        ids = results.ids()
    if given.json:
        print_json(comparison_json(found))
    else:
        print_comparison(found, ids, everything)
    if found.regressions:
        raise typer.Exit(1)


@app.command("export")
@expand_groups
def export(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")],
    format_: Annotated[
        str, typer.Option("--format", help=f"{', '.join(FORMATS)}. Default: by the file's suffix.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    run: Annotated[
        str, typer.Option("--run", help="Only this run: an id or its beginning, or 'latest'.", rich_help_panel="Filter")
    ] = "",
    contender: Annotated[
        str, typer.Option("--contender", help="Only this kernel or library.", rich_help_panel="Filter")
    ] = "",
    shape: Annotated[
        str, typer.Option("--shape", metavar="MxNxK", help="Only this shape.", rich_help_panel="Filter")
    ] = "",
    dtype: Annotated[str, typer.Option("--dtype", help="Only this input type.", rich_help_panel="Filter")] = "",
    *,
    chosen: FilterOptions,
    database: DatabaseOptions,
) -> None:
    """Write recorded measurements to a file, one row per timing, for other programs."""
    given = database.over(ctx.obj)
    kind = (format_ or out.suffix.removeprefix(".")).lower()
    if kind not in FORMATS:
        raise UsageError(f"unknown format {kind!r}", f"{did_you_mean(kind, FORMATS)}use --format {'|'.join(FORMATS)}")
    extents = _extents(shape)
    if dtype:
        dtype_named(dtype)  # an unknown one is a mistake, not a filter that nothing passes
    with Results.open(given.db, read_only=True) as results:
        records = results.measurements(
            run=run, contender=contender, shape=extents, dtype=dtype, gpu=chosen.gpu, since=chosen.since
        )  # fmt: skip
    if not records:
        filters = {"run": run, "contender": contender, "shape": shape, "dtype": dtype, **vars(chosen)}
        asked = " ".join(f"--{name} {value}" for name, value in filters.items() if value)
        raise UsageError(
            f"no measurement in {results.path}" + (f" matches {asked}" if asked else ""),
            "nothing was written; gemmsmith history lists the runs, gemmsmith bench records them",
        )
    table = flat_table(records)
    write_table(table, kind, out, overwrite=force)
    size = {"measurements": len(records), "rows": len(table.rows), "columns": len(table.columns)}
    if given.json:
        print_json({"file": str(out), "format": kind, "database": str(results.path), **size})
        return
    say(f"{out}: {size['rows']} rows of {size['columns']} columns, from {len(records)} measurements.")


@app.command("repair")
@expand_groups
def repair_(
    ctx: typer.Context,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The new file. Default: beside the old, .repaired.db.")
    ] = None,
    *,
    database: DatabaseOptions,
) -> None:
    """Check every row, and copy what is intact to a new file if something is damaged.

    The damaged file stays as it is. Exits 1 where something was lost.
    """
    from gemmsmith.store.repair import repair

    given = database.over(ctx.obj)
    done = repair(given.db, out)
    if given.json:
        print_json(repair_json(done))
    else:
        print_repair(done)
    if done.written is not None and done.found.lost:
        raise typer.Exit(1)


def _extents(text: str) -> tuple[int, int, int] | None:
    if not text:
        return None
    found = re.fullmatch(r"(\d{1,10})(?:[xX×](\d{1,10})[xX×](\d{1,10}))?", text)
    if found is None:
        raise UsageError(f"{text!r} is not a shape", "write MxNxK, or one number for a cube")
    m, n, k = (int(part or found[1]) for part in found.groups())
    return m, n, k


def _summary(run: Run, ids: tuple[str, ...]) -> dict[str, Any]:
    best = best_tflops(run)
    return {
        "id": run.id,
        "short": short(run.id, ids),
        "started": run.started,
        "command": run.command,
        "gpu": run.machine.gpu,
        "driver": run.machine.driver,
        "gemmsmith": run.gemmsmith,
        "measurements": len(run.measurements),
        "best": None if best is None else {"tflops": best.tflops, "contender": best.identity.name,
                                           "problem": str(best.problem), "origin": best.origin},
    }  # fmt: skip
