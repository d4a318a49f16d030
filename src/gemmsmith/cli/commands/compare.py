"""gemmsmith compare: two kernels side by side, the differences that matter first and in words."""

from __future__ import annotations

import csv
import io
import sys
from typing import Annotated

import typer
from rich.markup import escape

from gemmsmith.cli.commands.explain import DEFAULT_GPU, DEFAULT_SIZE, GpuName, Subject, arch_of, choose, wrapped
from gemmsmith.cli.commands.profile import measured, measured_on
from gemmsmith.cli.options import Arch, CacheDir, Compiler, DeviceName, Json
from gemmsmith.cli.render.output import console, print_json, progress, table
from gemmsmith.errors import UsageError
from gemmsmith.explain.comparison import Comparison, compare, to_json
from gemmsmith.explain.comparison_rows import origin_of
from gemmsmith.explain.diagnosis import MODEL
from gemmsmith.gpus import gpu_named
from gemmsmith.run.cuda import cuda_device
from gemmsmith.userfile.user_kernel import UserOptions

_Kernel = Annotated[str, typer.Argument(metavar="RUNG|FILE.cu", help="A rung of the ladder, or a .cu file.")]
_Config = Annotated[str, typer.Option(help="Parameters of a rung, or macros of a file: BM=64,BN=64.")]
_Preset = Annotated[str, typer.Option(help="One of the rung's published configurations.")]
_Launch = Annotated[
    str, typer.Option(help="Of a file, where it is not found: 'block=32,32; grid=ceil(N/32),ceil(M/32); entry=mine'.")
]
_FIELDS = ("entry", "grid", "block", "smem", "signature")


def command(
    x: _Kernel,
    y: _Kernel,
    gpu: GpuName = DEFAULT_GPU,
    m: Annotated[int, typer.Option("--m", help="Rows of C.")] = DEFAULT_SIZE,
    n: Annotated[int, typer.Option("--n", help="Columns of C.")] = DEFAULT_SIZE,
    k: Annotated[int, typer.Option("--k", help="Inner extent.")] = DEFAULT_SIZE,
    dtype: Annotated[str, typer.Option("--dtype", help="Input type, where a rung takes several.")] = "",
    device: DeviceName = "sim",
    x_config: _Config = "",
    y_config: _Config = "",
    x_preset: _Preset = "",
    y_preset: _Preset = "",
    x_launch: _Launch = "",
    y_launch: _Launch = "",
    arch: Arch = "",
    cache_dir: CacheDir = None,
    json: Json = False,
    csv_: Annotated[bool, typer.Option("--csv", help="One row a quantity.")] = False,
) -> None:
    """Put two kernels side by side: resources, memory, instructions, main loop; on a GPU also what ncu measures."""
    if json and csv_:
        raise UsageError("choose one of --json and --csv")
    target = gpu_named(gpu)
    on_gpu = measured_on(device)
    where = cuda_device().arch if on_gpu else arch_of(target, arch)
    sides = [
        choose(name, (m, n, k), dtype, config, preset, None, launch_options(launch), where, Compiler(cache_dir))
        for name, config, preset, launch in ((x, x_config, x_preset, x_launch), (y, y_config, y_preset, y_launch))
    ]
    with progress() as bar:
        task = bar.add_task("comparing", total=4 if on_gpu else 2)
        pairs = []
        for side in sides:
            pairs.append(side.profile())
            bar.advance(task)
        seen = []
        for side, preset, config in zip(sides, (x_preset, y_preset), (x_config, y_config), strict=True):
            if on_gpu:
                seen.append(measured(side, preset, None, config))
                bar.advance(task)
    found = compare(pairs[0], pairs[1], target, (seen[0], seen[1]) if on_gpu else None)
    if json:
        print_json(to_json(found))
    elif csv_:
        sys.stdout.write(rows_csv(found))
    else:
        _print(sides, found)


def launch_options(text: str) -> UserOptions:
    """'block=32,32; grid=…' as options of a user's file."""
    given = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, equals, value = part.partition("=")
        if name.strip() not in _FIELDS or not equals or not value.strip():
            raise UsageError(f"{part!r} says nothing about a launch", f"write NAME=VALUE; names: {', '.join(_FIELDS)}")
        given[name.strip()] = value.strip()
    entry, grid, block, smem, signature = (given.get(name, "") for name in _FIELDS)
    return UserOptions(entry, grid, block, smem, signature)


def rows_csv(found: Comparison) -> str:
    """section, name, x, y, origin: one row a quantity."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("section", "name", found.left.case.profile.kernel, found.right.case.profile.kernel, "origin"))
    for row in found.rows:
        values = [v if isinstance(v, str) else "" if v != v else f"{v:.10g}" for v in (row.left, row.right)]
        rows.writerow((row.section, row.name, *values, origin_of(row)))
    return text.getvalue()


def _print(sides: list[Subject], found: Comparison) -> None:
    out = console()
    for letter, side in zip("XY", sides, strict=True):
        out.print(f"[bold]{letter}[/bold]  {escape(wrapped(side.title))}")
    out.print()
    for sentence in found.sentences:
        out.print(escape(wrapped(f"- {sentence}")))
    out.print()
    rows, section = [], ""
    for row in found.rows:
        rows.append(
            (row.section if row.section != section else "", row.name, row.shown(row.left), row.shown(row.right))
        )
        section = row.section
    names = [side.spec.name for side in sides]
    columns = (("", "left"), ("", "left"), (f"X {names[0]}", "right"), (f"Y {names[1]}", "right"))
    out.print(table("", columns, [tuple(escape(cell) for cell in row) for row in rows]))
    out.print()
    out.print(f"[dim]{escape(wrapped(MODEL))}[/dim]")
