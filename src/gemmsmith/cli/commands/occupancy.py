"""gemmsmith occupancy: how many blocks of a kernel an SM holds, what limits it, and how a grid fills the GPU."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.markup import escape

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.options import (
    Block,
    CacheDir,
    Compiler,
    ConfigText,
    Defines,
    Entry,
    Json,
    PresetName,
    SignatureText,
    find_kernel,
)
from gemmsmith.cli.render.output import bytes_text, console, print_json, progress, table
from gemmsmith.errors import CompileError, GemmsmithError, UsageError
from gemmsmith.explain.occupancy import (
    RESOURCES,
    Occupancy,
    Step,
    Waves,
    curve,
    launched_blocks,
    occupancy,
    steps,
    waves,
)
from gemmsmith.gpus import GPU, example_gpus, gpu_named, gpus
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem, dtype_named
from gemmsmith.userfile.user_kernel import UserOptions

_EXAMPLE = 4096  # M = N = K when no shape is given
_CURVE_GPU = "H200"  # whose curve is drawn when no GPU is named
_BAR = 30
_NOTE = "predicted from the limits of the hardware, as NVIDIA's occupancy calculator does; not measured"


@dataclass(frozen=True)
class Row:
    """One GPU's answer; no waves where the grid is not known or the block does not fit."""

    gpu: GPU
    occupancy: Occupancy
    waves: Waves | None

    @property
    def smem(self) -> int:
        return self.occupancy.static_smem + self.occupancy.dynamic_smem


def command(
    kernel: Annotated[str, typer.Argument(metavar="RUNG|FILE.cu", help="A kernel; or give numbers.")] = "",
    gpu: Annotated[
        str, typer.Option("--gpu", help="One GPU, such as H200, or all; default: one per architecture.")
    ] = "",
    threads: Annotated[int | None, typer.Option("--threads", help="Threads a block.")] = None,
    registers: Annotated[int | None, typer.Option("--registers", help="Registers a thread.")] = None,
    smem: Annotated[str, typer.Option("--smem", help="Static shared memory in bytes; of a FILE, dynamic.")] = "",
    dynamic_smem: Annotated[str, typer.Option("--dynamic-smem", help="Dynamic shared memory in bytes.")] = "",
    grid: Annotated[str, typer.Option("--grid", help="Blocks in the grid; of a FILE, also an expression.")] = "",
    m: Annotated[int | None, typer.Option("--m", help="Rows of C; 4096 unless told.")] = None,
    n: Annotated[int | None, typer.Option("--n", help="Columns of C; 4096 unless told.")] = None,
    k: Annotated[int | None, typer.Option("--k", help="Inner extent; 4096 unless told.")] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="Input type, where the rung takes several.")] = "",
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    entry: Entry = "",
    block: Block = "",
    signature: SignatureText = "",
    resource: Annotated[str, typer.Option("--curve", help=f"Against one resource: {', '.join(RESOURCES)}.")] = "",
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Occupancy of a kernel, or of numbers: blocks and warps an SM holds, the resource that limits, waves and tail."""
    chosen = _chosen_gpus(gpu, resource)
    is_file = kernel.endswith((".cu", ".cuh")) or "/" in kernel
    shape = [extent for extent in (m, n, k) if extent is not None]
    if grid and shape and not is_file:
        raise UsageError("--grid and --m, --n, --k both say how many blocks there are", "give one of them")
    skipped: list[str] = []
    if kernel:
        numbers = {"--threads": threads is not None, "--registers": registers is not None}
        if not is_file:
            numbers |= {"--smem": bool(smem), "--dynamic-smem": bool(dynamic_smem)}
        if clash := [option for option, given in numbers.items() if given]:
            raise UsageError(f"both a kernel ({kernel}) and numbers ({', '.join(clash)}) are given",
                             "a kernel is compiled to learn its numbers; leave one out")  # fmt: skip
        if smem and dynamic_smem:
            raise UsageError("of a file, --smem and --dynamic-smem are the same", "give one of them")
        user = UserOptions(entry, grid if is_file else "", block, smem or dynamic_smem, signature)
        spec, values = find_kernel(kernel, config, preset, define, user)
        problem = Problem(*_shape(m, n, k), dtype=dtype_named(dtype) if dtype else spec.dtypes[0])
        blocks = _number("--grid", grid) if grid and not is_file else None
        rows, skipped = _from_kernel(spec, values, problem, chosen, blocks, Compiler(cache_dir))
        title = f"{spec.name} {values}".rstrip() + (f" for {problem}" if blocks is None else "")
    else:
        named = {"--config": config, "--preset": preset, "-D": define, "--entry": entry, "--block": block,
                 "--signature": signature, "--dtype": dtype}  # fmt: skip
        if stray := [option for option, given in named.items() if given]:
            raise UsageError(f"{stray[0]} is for a kernel, and none is named", "name a rung or a .cu file first")
        if shape:
            raise UsageError("numbers alone do not say which tile a block owns, so a shape gives no grid",
                             "give --grid BLOCKS, or name a kernel")  # fmt: skip
        rows = _from_numbers(threads, registers, smem, dynamic_smem, grid, chosen)
        title = f"{threads} threads, {registers} registers, {rows[0].smem:,} B of shared memory"
    if sizes := [row.waves.grid for row in rows if row.waves]:
        title += f", {sizes[0]:,} blocks"
    # A curve shows what would fit, so it is drawn even where nothing does.
    if not resource and not any(row.occupancy.fits for row in rows):
        where = " or ".join(row.occupancy.gpu for row in rows)
        raise UsageError(f"on {where}: {rows[0].occupancy.why}", "a launch of it would fail; make the block smaller")
    runs = _runs(rows[0], resource) if resource else []
    if json:
        print_json(_facts(title, rows, skipped, resource, runs))
    else:
        _print(title, rows, skipped, resource, runs)


def _chosen_gpus(name: str, resource: str) -> tuple[GPU, ...]:
    if resource and resource not in RESOURCES:
        raise UsageError(f"--curve {resource!r} is not a resource", f"use one of {', '.join(RESOURCES)}")
    if name.strip().lower() == "all" and resource:
        raise UsageError("a curve is drawn for one GPU", "name it, such as --gpu H200")
    if not name and resource:
        return (gpu_named(_CURVE_GPU),)
    if not name:
        return example_gpus()
    return gpus() if name.strip().lower() == "all" else (gpu_named(name),)


def _shape(m: int | None, n: int | None, k: int | None) -> tuple[int, int, int]:
    return _EXAMPLE if m is None else m, _EXAMPLE if n is None else n, _EXAMPLE if k is None else k


def _number(option: str, text: str) -> int:
    try:
        value = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise UsageError(f"{option} {text!r} is not an integer") from None
    if value < 0:
        raise UsageError(f"{option} {text} is negative")
    return value


def _from_numbers(
    threads: int | None, registers: int | None, smem: str, dynamic_smem: str, grid: str, chosen: tuple[GPU, ...]
) -> list[Row]:
    if threads is None or registers is None:
        raise UsageError("name a kernel, or give at least --threads and --registers",
                         "gemmsmith occupancy warp_tile, or --threads 256 --registers 128 --smem 16384")  # fmt: skip
    static, dynamic = _number("--smem", smem or "0"), _number("--dynamic-smem", dynamic_smem or "0")
    if not 1 <= threads <= max(gpu.threads_per_block for gpu in chosen):
        raise UsageError(f"--threads {threads} is not between 1 and 1024, the most that a block may have")
    if not 0 <= registers <= max(gpu.registers_per_thread for gpu in chosen):
        raise UsageError(f"--registers {registers} is not between 0 and 255, the most that a thread may have")
    blocks = _number("--grid", grid) if grid else None
    return [_row(gpu, blocks, threads, registers, static, dynamic) for gpu in chosen]


def _from_kernel(
    spec: KernelSpec, config: Config, problem: Problem, chosen: tuple[GPU, ...], blocks: int | None, compiler: Compiler
) -> tuple[list[Row], list[str]]:
    """Compile for each GPU; those for which it does not compile are returned as sentences, unless it is all of them."""
    check_accepts(spec, problem)
    config, seen = aligned_code(spec, config, problem)
    geometry = spec.geometry(seen, config)
    rows: list[Row] = []
    failures: list[tuple[GPU, GemmsmithError]] = []
    with progress() as bar:
        task = bar.add_task(f"compiling {spec.name}", total=len(chosen))
        for gpu in chosen:
            try:
                if gpu.arch < spec.min_arch or spec.arch_specific not in (0, gpu.arch):
                    needed = f"sm_{spec.min_arch}{' and no other' if spec.arch_specific else ''}"
                    raise UsageError(f"{spec.name} needs {needed}, and {gpu.name} is sm_{gpu.arch}")
                used = compiler(spec, config, seen, f"sm_{gpu.arch}").resources
                found = _row(gpu, blocks, geometry.threads, used.registers, used.static_smem, geometry.smem,
                             used.barriers)  # fmt: skip
                rows.append(found if blocks is not None else _filled(found, spec, geometry))
            except (UsageError, CompileError) as error:
                failures.append((gpu, error))
            bar.advance(task)
    if not rows:
        raise failures[0][1]
    return rows, [f"{gpu.name}: {error.message}" for gpu, error in failures]


def _row(gpu: GPU, grid: int | None, threads: int, registers: int, static: int, dynamic: int, barriers: int = 0) -> Row:
    found = occupancy(gpu, threads=threads, registers=registers, static_smem=static, dynamic_smem=dynamic,
                      barriers=barriers)  # fmt: skip
    return Row(gpu, found, waves(gpu, grid, found.blocks_per_sm) if grid is not None and found.fits else None)


def _filled(row: Row, spec: KernelSpec, geometry: Geometry) -> Row:
    """With the waves of a kernel's own grid."""
    held = row.occupancy.blocks_per_sm
    return replace(row, waves=waves(row.gpu, launched_blocks(row.gpu, geometry, spec.persistent, held), held)
                   if held else None)  # fmt: skip


def _runs(row: Row, resource: str) -> list[Step]:
    """The steps of a curve without gaps: what lies between two of its values is allocated as the upper one."""
    at = row.occupancy
    points = curve(row.gpu, resource, threads=at.threads, registers=at.registers, static_smem=at.static_smem,
                   dynamic_smem=at.dynamic_smem, barriers=at.barriers)  # fmt: skip
    runs: list[Step] = []
    for step in steps(points):
        runs.append(replace(step, first=runs[-1].last + 1 if runs else min(step.first, 1)))
    return runs


def _facts(title: str, rows: list[Row], skipped: list[str], resource: str, runs: list[Step]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "kernel": title, "origin": "predicted", "note": _NOTE, "skipped": skipped,
        "gpus": [
            {
                **dataclasses.asdict(row.occupancy), "arch": f"sm_{row.gpu.arch}",
                "reserved_smem": row.gpu.reserved_smem_per_block, "sms": row.gpu.sms,
                "waves": dataclasses.asdict(row.waves) if row.waves else None,
            }
            for row in rows
        ],
    }  # fmt: skip
    if resource:
        facts["curve"] = {
            "resource": resource, "gpu": rows[0].occupancy.gpu,
            "steps": [
                {
                    "first": run.first, "last": run.last, "blocks_per_sm": run.occupancy.blocks_per_sm,
                    "warps_per_sm": run.occupancy.warps_per_sm, "fraction": run.occupancy.fraction,
                    "limiters": list(run.occupancy.limiters),
                }
                for run in runs
            ],
        }  # fmt: skip
    return facts


def _print(title: str, rows: list[Row], skipped: list[str], resource: str, runs: list[Step]) -> None:
    out = console()
    columns = [("GPU", "left"), ("regs", "right"), ("shared", "right"), ("blocks", "right"), ("warps", "right"),
               ("occupancy", "right"), ("limited by", "left")]  # fmt: skip
    with_waves = any(row.waves for row in rows)
    if with_waves:
        columns += [("waves", "right"), ("tail", "right"), ("imbalance", "right")]
    out.print(table(escape(title), columns, map(_cells, rows)))
    out.print()
    if len(rows) == 1:
        _print_limits(rows[0].occupancy)
    for why in dict.fromkeys(row.occupancy.why for row in rows):
        names = ", ".join(row.occupancy.gpu for row in rows if row.occupancy.why == why)
        out.print(f"[bold]{names}[/bold]: {why}")
    for sentence in skipped:
        out.print(f"[dim]skipped {escape(sentence)}[/dim]")
    if resource:
        out.print()
        _print_curve(rows[0], resource, runs)
    out.print(f"\n[dim]Blocks and warps an SM holds at once, {_NOTE}.[/dim]")
    if with_waves:
        out.print("[dim]Tail: how full the last wave is. Imbalance: the busiest SM's blocks over the average.[/dim]")


def _print_limits(found: Occupancy) -> None:
    rows = []
    for limit in found.limits:
        mark = "[bold]◀ limits[/bold]" if limit.resource in found.limiters else ""
        rows.append((limit.resource, "any" if limit.blocks is None else str(limit.blocks), mark))
    console().print(table("", (("resource", "left"), ("blocks it allows", "right"), ("", "left")), rows), "")


def _cells(row: Row) -> list[str]:
    found, gpu = row.occupancy, row.gpu
    cells = [gpu.name, str(found.registers), bytes_text(row.smem),
             str(found.blocks_per_sm), f"{found.warps_per_sm}/{gpu.warps_per_sm}", _percent(found.fraction),
             ", ".join(found.limiters) if found.fits else "[red]does not fit[/red]"]  # fmt: skip
    if some := row.waves:
        count = f"{some.waves:.2f}" if some.waves < 1000 else f"{some.waves:,.0f}"
        cells += [count, _percent(some.tail_utilisation), f"{some.imbalance:.2f}"]
    return cells


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g}%"


def _print_curve(row: Row, resource: str, runs: list[Step]) -> None:
    """One line a step; the one the kernel stands on is marked."""
    found = row.occupancy
    unit = {"registers": "registers a thread", "threads": "threads a block", "smem": "shared memory, B a block"}
    here = {"registers": found.registers, "threads": found.threads, "smem": row.smem}
    lines = []
    for run in runs:
        span = f"{run.first:,}" if run.first == run.last else f"{run.first:,} to {run.last:,}"
        now = run.occupancy
        lines.append((
            span, str(now.blocks_per_sm), str(now.warps_per_sm), _percent(now.fraction),
            "█" * round(_BAR * now.fraction) or "·", ", ".join(now.limiters) if now.fits else "does not fit",
            "[bold]◀ here[/bold]" if run.first <= here[resource] <= run.last else "",
        ))  # fmt: skip
    columns = ((unit[resource], "right"), ("blocks", "right"), ("warps", "right"), ("", "right"), ("occupancy", "left"),
               ("limited by", "left"), ("", "left"))  # fmt: skip
    console().print(table(f"{found.gpu}: occupancy against {resource}, one line a step", columns, lines))
