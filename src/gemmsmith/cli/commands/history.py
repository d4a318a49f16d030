"""gemmsmith history: what has been measured, what got faster or slower, and all of it as a file."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gemmsmith.cli.options import Json
from gemmsmith.cli.render.history_tables import (
    best_tflops,
    comparison_json,
    print_comparison,
    print_run,
    print_runs,
    short,
)
from gemmsmith.cli.render.output import print_json
from gemmsmith.errors import UsageError
from gemmsmith.problem import dtype_named
from gemmsmith.store.database import Results
from gemmsmith.store.export import FORMATS, flat_table, write_table
from gemmsmith.store.results import Run
from gemmsmith.store.run_comparison import LEAST_CHANGE, compare_runs
from gemmsmith.store.run_file import run_to_json

app = typer.Typer(help="List, show, compare and export recorded measurements.")

Database = Annotated[
    Path | None,
    # Not by typer's envvar: a subcommand would take it for an option of its own, and overrule one given before it.
    typer.Option("--db", metavar="FILE", help="The results database; GEMMSMITH_DB, or your own, unless told."),
]
_RUN_HELP = "An id or its beginning, 'latest', or 'latest~2' for two before."
_RunName = Annotated[str, typer.Argument(metavar="RUN", help=_RUN_HELP)]
_Gpu = Annotated[str, typer.Option("--gpu", help="Only GPUs with this in their name.")]
_Since = Annotated[str, typer.Option("--since", help="Only runs from this date or time (UTC) on: 2026-11-15.")]


@dataclass(frozen=True)
class _Given:
    """Options before a subcommand, which hold for it too."""

    db: Path | None = None
    json: bool = False


@app.callback(invoke_without_command=True)
def runs(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many runs, newest first.")] = 20,
    gpu: _Gpu = "",
    since: _Since = "",
    db: Database = None,
    json: Json = False,
) -> None:
    """List recorded runs, or show, compare or export them."""
    if ctx.invoked_subcommand is not None:
        if gpu or since:
            raise UsageError("--gpu and --since before a subcommand have no effect", "write them after it")
        ctx.obj = _Given(db, json)
        return
    with Results.open(db, read_only=True) as results:
        ids = results.ids()
        found = results.runs(gpu=gpu, since=since, limit=limit)
    if json:
        listed = [_summary(run, ids) for run in found]
        print_json({"database": str(results.path), "recorded": len(ids), "runs": listed})
    elif not ids:
        typer.echo(f"No runs in {results.path} yet. Record one with: gemmsmith bench warp_tile")
    elif not found:
        typer.echo(f"None of the {len(ids)} runs in {results.path} is of that GPU and time.")
    else:
        print_runs(found, ids)


@app.command("show")
def show(ctx: typer.Context, run: _RunName = "latest", db: Database = None, json: Json = False) -> None:
    """Show one run: where it took place and everything it measured."""
    given = _given(ctx, db, json)
    with Results.open(given.db, read_only=True) as results:
        found = results.run(run)
    if given.json:
        print_json(run_to_json(found))
    else:
        print_run(found)


@app.command("compare")
def compare(
    ctx: typer.Context,
    a: Annotated[str | None, typer.Argument(metavar="[A", help=f"The earlier run. {_RUN_HELP}")] = None,
    b: Annotated[str | None, typer.Argument(metavar="B]", help="The later run. Without A and B: the last two.")] = None,
    least: Annotated[float, typer.Option("--least", min=0, max=100, help="Changes of fewer per cent are noise.")] = 100
    * LEAST_CHANGE,
    everything: Annotated[bool, typer.Option("--all", help="Also list what stayed the same.")] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Say what got faster or slower from A to B beyond noise; exit code 1 where one of our kernels got slower."""
    if math.isnan(least):
        raise UsageError("--least must be a number of per cent")
    if a is not None and b is None:
        raise UsageError(f"compare {a} with which run?", f"give both: gemmsmith history compare {a} latest; or none")
    given = _given(ctx, db, json)
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
def export(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")],
    format_: Annotated[
        str, typer.Option("--format", help=f"{', '.join(FORMATS)}; by the file's ending unless told.")
    ] = "",
    run: Annotated[str, typer.Option("--run", help="Only this run: an id or its beginning, or 'latest'.")] = "",
    contender: Annotated[str, typer.Option("--contender", help="Only this kernel or library.")] = "",
    shape: Annotated[str, typer.Option("--shape", metavar="MxNxK", help="Only this shape.")] = "",
    dtype: Annotated[str, typer.Option("--dtype", help="Only this input type.")] = "",
    gpu: _Gpu = "",
    since: _Since = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    db: Database = None,
    json: Json = False,
) -> None:
    """Write recorded measurements to a file, one row a timing, for other programs."""
    given = _given(ctx, db, json)
    kind = (format_ or out.suffix.removeprefix(".")).lower()
    if kind not in FORMATS:
        raise UsageError(f"unknown format {kind!r}", f"use --format {'|'.join(FORMATS)}")
    extents = _extents(shape)
    if dtype:
        dtype_named(dtype)  # an unknown one is a mistake, not a filter that nothing passes
    with Results.open(given.db, read_only=True) as results:
        records = results.measurements(
            run=run, contender=contender, shape=extents, dtype=dtype, gpu=gpu, since=since
        )  # fmt: skip
    if not records:
        filters = {"run": run, "contender": contender, "shape": shape, "dtype": dtype, "gpu": gpu, "since": since}
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
    typer.echo(f"{out}: {size['rows']} rows of {size['columns']} columns, from {len(records)} measurements.")


def _given(ctx: typer.Context, db: Path | None, json: bool) -> _Given:
    before = ctx.obj if isinstance(ctx.obj, _Given) else _Given()
    return _Given(db or before.db, json or before.json)


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
