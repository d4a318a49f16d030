"""gemmsmith occupancy: how many blocks of a kernel an SM holds, what limits it, and how a grid fills the GPU."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any

import typer

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
from gemmsmith.cli.output import bytes_text, console, print_json, progress, table
from gemmsmith.errors import UsageError
from gemmsmith.explain.occupancy import RESOURCES, Occupancy, Step, Waves, curve, occupancy, steps, waves
from gemmsmith.gpus import GPU, gpu_named, gpus
from gemmsmith.kernels.spec import Config, KernelSpec
from gemmsmith.kernels.user import UserOptions
from gemmsmith.problem import Problem, dtype_named

_EXAMPLE = 4096  # M = N = K when no shape is given
_CURVE_GPU = "H200"  # whose curve is drawn when no GPU is named
_BAR = 30
_NOTE = "predicted from the limits of the hardware, as NVIDIA's occupancy calculator does; not measured"


@dataclass(frozen=True)
class Demand:
    """What one block of a kernel takes on one GPU, and how many blocks there are (None: not said)."""

    gpu: GPU
    threads: int
    registers: int
    static_smem: int
    dynamic_smem: int = 0
    barriers: int = 0
    grid: int | None = None

    @property
    def block(self) -> dict[str, int]:
        names = ("threads", "registers", "static_smem", "dynamic_smem", "barriers")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Row:
    """One GPU's answer."""

    demand: Demand
    occupancy: Occupancy
    waves: Waves | None


def command(
    kernel: Annotated[str, typer.Argument(metavar="[RUNG|FILE.cu]", help="A kernel; or give numbers.")] = "",
    gpu: Annotated[str, typer.Option("--gpu", help="One GPU, such as H200, or all (the default).")] = "",
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
    shape = (m, n, k)
    if grid and shape != (None, None, None):
        raise UsageError("--grid and --m, --n, --k both say how many blocks there are", "give one of them")
    if kernel:
        if threads is not None or registers is not None:
            raise UsageError(f"both a kernel ({kernel}) and numbers (--threads, --registers) are given",
                             "the kernel is compiled to learn them; leave one out")  # fmt: skip
        is_file = kernel.endswith((".cu", ".cuh")) or "/" in kernel
        if not is_file and (smem or dynamic_smem):
            raise UsageError(f"both a rung ({kernel}) and numbers (--smem, --dynamic-smem) are given",
                             "the rung says how much shared memory it takes; change it with --config")  # fmt: skip
        if smem and dynamic_smem:
            raise UsageError("of a file, --smem and --dynamic-smem are the same", "give one of them")
        user = UserOptions(entry, grid if is_file else "", block, smem or dynamic_smem, signature)
        spec, values = find_kernel(kernel, config, preset, define, user)
        extents = [_EXAMPLE if extent is None else extent for extent in shape]
        problem = Problem(*extents, dtype=dtype_named(dtype) if dtype else spec.dtypes[0])
        blocks = _number("--grid", grid) if grid and not is_file else None
        demands, skipped = _from_kernel(spec, values, problem, chosen, blocks, Compiler(cache_dir))
        title = f"{spec.name} {values}".rstrip() + (f" for {problem}" if not grid else "")
    else:
        for option, given in (("--config", config), ("--preset", preset), ("-D", define), ("--entry", entry),
                              ("--block", block), ("--signature", signature), ("--dtype", dtype)):  # fmt: skip
            if given:
                raise UsageError(f"{option} is for a kernel, and none is named", "name a rung or a .cu file first")
        if shape != (None, None, None):
            raise UsageError("numbers alone do not say which tile a block owns, so a shape gives no grid",
                             "give --grid BLOCKS, or name a kernel")  # fmt: skip
        demands, skipped = _from_numbers(threads, registers, smem, dynamic_smem, grid, chosen), []
        title = f"{threads} threads, {registers} registers, {demands[0].static_smem + demands[0].dynamic_smem:,} B"
    rows = [_row(demand) for demand in demands]
    if not any(row.occupancy.fits for row in rows):
        where = " or ".join(row.occupancy.gpu for row in rows)
        raise UsageError(f"on {where}: {rows[0].occupancy.why}", "a launch of it would fail; make the block smaller")
    runs = _runs(rows[0].demand, resource) if resource else ()
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
    return gpus() if not name or name.strip().lower() == "all" else (gpu_named(name),)


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
) -> list[Demand]:
    if threads is None or registers is None:
        raise UsageError("name a kernel, or give at least --threads and --registers",
                         "gemmsmith occupancy warp_tile, or --threads 256 --registers 128 --smem 16384")  # fmt: skip
    static, dynamic = _number("--smem", smem or "0"), _number("--dynamic-smem", dynamic_smem or "0")
    if not 1 <= threads <= max(gpu.threads_per_block for gpu in chosen):
        raise UsageError(f"--threads {threads} is not between 1 and 1024, the most that a block may have")
    if not 0 <= registers <= max(gpu.registers_per_thread for gpu in chosen):
        raise UsageError(f"--registers {registers} is not between 0 and 255, the most that a thread may have")
    blocks = _number("--grid", grid) if grid else None
    return [Demand(gpu, threads, registers, static, dynamic, grid=blocks) for gpu in chosen]


def _from_kernel(
    spec: KernelSpec, config: Config, problem: Problem, chosen: tuple[GPU, ...], blocks: int | None, compiler: Compiler
) -> tuple[list[Demand], list[str]]:
    """Compile for each architecture; GPUs too old for the kernel are returned as sentences."""
    spec.accepts(problem)
    geometry = spec.geometry(problem, config)
    demands, skipped = [], []
    with progress() as bar:
        task = bar.add_task(f"compiling {spec.name}", total=len(chosen))
        for gpu in chosen:
            if gpu.arch < spec.min_arch:
                skipped.append(f"{gpu.name}: {spec.name} needs sm_{spec.min_arch}, and it is sm_{gpu.arch}")
            else:
                used = compiler(spec, config, problem, f"sm_{gpu.arch}").resources
                grid = geometry.blocks if blocks is None else blocks
                demands.append(Demand(gpu, geometry.threads, used.registers, used.static_smem, geometry.smem,
                                      used.barriers, grid))  # fmt: skip
            bar.advance(task)
    if not demands:
        raise UsageError("; ".join(skipped), "choose a newer GPU with --gpu")
    return demands, skipped


def _row(demand: Demand) -> Row:
    result = occupancy(demand.gpu, **demand.block)
    known = demand.grid is not None and result.fits
    return Row(demand, result, waves(demand.gpu, demand.grid or 0, result.blocks_per_sm) if known else None)


def _runs(demand: Demand, resource: str) -> tuple[Step, ...]:
    return steps(curve(demand.gpu, resource, **demand.block))


def _facts(title: str, rows: list[Row], skipped: list[str], resource: str, runs: tuple[Step, ...]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "kernel": title, "origin": "predicted", "note": _NOTE, "skipped": skipped,
        "gpus": [
            {
                **dataclasses.asdict(row.occupancy), "arch": f"sm_{row.demand.gpu.arch}",
                "reserved_smem": row.demand.gpu.reserved_smem_per_block, "sms": row.demand.gpu.sms,
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


def _print(title: str, rows: list[Row], skipped: list[str], resource: str, runs: tuple[Step, ...]) -> None:
    out = console()
    columns = [("GPU", "left"), ("regs", "right"), ("shared", "right"), ("blocks", "right"), ("warps", "right"),
               ("occupancy", "right"), ("limited by", "left")]  # fmt: skip
    with_waves = any(row.waves for row in rows)
    if with_waves:
        columns += [("grid", "right"), ("waves", "right"), ("tail", "right"), ("imbalance", "right")]
    out.print(table(title, columns, [_cells(row, with_waves) for row in rows]))
    out.print()
    for why in dict.fromkeys(row.occupancy.why for row in rows):
        names = ", ".join(row.occupancy.gpu for row in rows if row.occupancy.why == why)
        out.print(f"[bold]{names}[/bold]: {why}")
    for sentence in skipped:
        out.print(f"[dim]skipped {sentence}[/dim]")
    if resource:
        out.print()
        _print_curve(rows[0], resource, runs)
    tail = (
        " Tail: how full the last wave is. Imbalance: the busiest SM's blocks over the average." if with_waves else ""
    )
    out.print(f"\n[dim]Blocks and warps an SM holds at once, {_NOTE}.{tail}[/dim]")


def _cells(row: Row, with_waves: bool) -> list[str]:
    found, gpu = row.occupancy, row.demand.gpu
    cells = [gpu.name, str(found.registers), bytes_text(found.static_smem + found.dynamic_smem),
             str(found.blocks_per_sm), f"{found.warps_per_sm}/{gpu.warps_per_sm}", _percent(found.fraction),
             ", ".join(found.limiters) if found.fits else "[red]does not fit[/red]"]  # fmt: skip
    if with_waves and row.waves is not None:
        some = row.waves
        cells += [f"{some.grid:,}", f"{some.waves:.2f}", _percent(some.tail_utilisation), f"{some.imbalance:.2f}"]
    return cells


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f}%"


def _print_curve(row: Row, resource: str, runs: tuple[Step, ...]) -> None:
    """One line a step; the one the kernel stands on is marked."""
    found = row.occupancy
    unit = {"registers": "registers a thread", "threads": "threads a block", "smem": "shared memory, B a block"}
    here = {"registers": found.registers, "threads": found.threads, "smem": found.static_smem + found.dynamic_smem}
    lines = []
    for place, run in enumerate(runs):
        # A value between two of the curve's belongs to the next one: it is allocated as that.
        below = runs[place - 1].last if place else -1
        span = f"{run.first:,}" if run.first == run.last else f"{run.first:,} to {run.last:,}"
        now = run.occupancy
        lines.append((
            span, str(now.blocks_per_sm), str(now.warps_per_sm), _percent(now.fraction),
            "█" * round(_BAR * now.fraction) or "·", ", ".join(now.limiters) if now.fits else "does not fit",
            "[bold]◀ here[/bold]" if below < here[resource] <= run.last else "",
        ))  # fmt: skip
    columns = ((unit[resource], "right"), ("blocks", "right"), ("warps", "right"), ("", "right"), ("occupancy", "left"),
               ("limited by", "left"), ("", "left"))  # fmt: skip
    console().print(table(f"{found.gpu}: occupancy against {resource}, one line a step", columns, lines))
