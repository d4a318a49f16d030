"""gemmsmith occupancy: how many blocks of a kernel an SM holds, what limits it, and how a grid fills the GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import typer

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.kernels import is_file
from gemmsmith.cli.names import gpu_from
from gemmsmith.cli.options.device import DEFAULT_ARCH, DEFAULT_GPU, CacheOptions
from gemmsmith.cli.options.groups import OptionGroup, option_words
from gemmsmith.cli.options.kernel import ConfigOptions, KernelOptions
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import DEFAULT_SIZE
from gemmsmith.cli.product_kernel import product_kernel
from gemmsmith.cli.render.occupancy_tables import Row, occupancy_json, print_occupancy
from gemmsmith.cli.render.output import print_json, progress
from gemmsmith.cli.subject import kernel_title
from gemmsmith.errors import CompileError, GemmsmithError, UsageError
from gemmsmith.explain.occupancy import RESOURCES, Step, curve, launched_blocks, occupancy, steps, waves
from gemmsmith.gpus import GPU, cuda_limits, example_gpus, gpus
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem, dtype_named


@dataclass(frozen=True)
class OccupancyOptions(OptionGroup):
    """A GPU, and numbers where no kernel is named. Of a file, --smem and --grid are the launch's."""

    panel: ClassVar[str] = "Occupancy"

    gpu: Annotated[str, typer.Option("--gpu", help="One GPU, such as H200, or all. Default: one per architecture.")] = (
        ""
    )
    threads: Annotated[int | None, typer.Option("--threads", help="Threads per block.")] = None
    registers: Annotated[int | None, typer.Option("--registers", help="Registers per thread.")] = None
    smem: Annotated[str, typer.Option("--smem", help="Static shared memory in bytes; for a FILE, dynamic.")] = ""
    dynamic_smem: Annotated[str, typer.Option("--dynamic-smem", help="Dynamic shared memory in bytes.")] = ""
    grid: Annotated[str, typer.Option("--grid", help="Blocks in the grid; for a FILE, also an expression.")] = ""
    curve: Annotated[
        str, typer.Option("--curve", help=f"Occupancy over a range of one resource: {', '.join(RESOURCES)}.")
    ] = ""
    m: Annotated[int | None, typer.Option("--m", help=f"Rows of C. Default: {DEFAULT_SIZE}.")] = None
    n: Annotated[int | None, typer.Option("--n", help=f"Columns of C. Default: {DEFAULT_SIZE}.")] = None
    k: Annotated[int | None, typer.Option("--k", help=f"Columns of A. Default: {DEFAULT_SIZE}.")] = None
    dtype: Annotated[str, typer.Option("--dtype", help="Input type, where the rung takes several.")] = ""

    @property
    def extents(self) -> tuple[int, int, int]:
        m, n, k = (DEFAULT_SIZE if extent is None else extent for extent in (self.m, self.n, self.k))
        return m, n, k

    @property
    def has_shape(self) -> bool:
        return any(extent is not None for extent in (self.m, self.n, self.k))


@dataclass(frozen=True)
class FileOptions(ConfigOptions):
    """A kernel's configuration, and a file's launch but for --grid and --smem."""

    entry: Annotated[str, typer.Option("--entry", help="The kernel's name, where a file has several.")] = ""
    block: Annotated[str, typer.Option("--block", help="Threads of a block: '32,32' or '256'.")] = ""
    signature: Annotated[
        str, typer.Option("--signature", help="What the kernel's parameters are, in order: 'A,B,C,M,N,K'.")
    ] = ""

    def with_launch(self, grid: str, smem: str) -> KernelOptions:
        return KernelOptions(self.config, self.preset, self.define, self.entry, grid, self.block, smem, self.signature)


@dataclass(frozen=True)
class Answer:
    """What is printed: a title, a row per GPU, and the GPUs that were skipped."""

    title: str
    rows: list[Row]
    skipped: list[str]


def command(
    kernel: Annotated[
        str, typer.Argument(metavar="RUNG|FILE.cu", help="A kernel. Without one, give --threads and --registers.")
    ] = "",
    *,
    asked: OccupancyOptions,
    options: FileOptions,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Show how many blocks fit on an SM, what limits them, and the number of waves.

    For a kernel, which is compiled, or for numbers of threads, registers and shared memory.
    """
    chosen = _chosen_gpus(asked.gpu, asked.curve)
    is_source = bool(kernel) and is_file(kernel)
    if asked.grid and asked.has_shape and not is_source:
        raise UsageError("--grid and --m, --n, --k both say how many blocks there are", "give one of them")
    if kernel:
        answer = _of_kernel(kernel, is_source, asked, options, chosen, cache.compiler)
    else:
        answer = _of_numbers(asked, options, chosen)
    rows, title = answer.rows, answer.title
    if sizes := [row.waves.grid for row in rows if row.waves]:
        title += f", {sizes[0]:,} blocks"
    # A curve shows what would fit, so it is drawn even where nothing does.
    if not asked.curve and not any(row.occupancy.fits for row in rows):
        where = " or ".join(row.occupancy.gpu for row in rows)
        raise UsageError(f"on {where}: {rows[0].occupancy.why}", "the launch would fail; make the block smaller")
    runs = _runs(rows[0], asked.curve) if asked.curve else []
    if output.json:
        print_json(occupancy_json(title, rows, answer.skipped, asked.curve, runs))
    else:
        print_occupancy(title, rows, answer.skipped, asked.curve, runs)


def _of_kernel(
    kernel: str, is_source: bool, asked: OccupancyOptions, options: FileOptions, chosen: tuple[GPU, ...],
    compiler: Compiler,
) -> Answer:  # fmt: skip
    numbers = {"--threads": asked.threads is not None, "--registers": asked.registers is not None}
    if not is_source:
        numbers |= {"--smem": bool(asked.smem), "--dynamic-smem": bool(asked.dynamic_smem)}
    if clash := [option for option, given in numbers.items() if given]:
        raise UsageError(f"both a kernel ({kernel}) and numbers ({', '.join(clash)}) are given",
                         "a kernel is compiled to learn its numbers; leave one out")  # fmt: skip
    if asked.smem and asked.dynamic_smem:
        raise UsageError("for a file, --smem and --dynamic-smem are the same", "give one of them")
    launch = options.with_launch(asked.grid if is_source else "", asked.smem or asked.dynamic_smem)
    spec, config = product_kernel(kernel, launch, compiler, DEFAULT_ARCH)
    problem = spec.problem(*asked.extents, dtype_named(asked.dtype) if asked.dtype else None)
    blocks = _number("--grid", asked.grid) if asked.grid and not is_source else None
    rows, skipped = _from_kernel(spec, config, problem, chosen, blocks, compiler)
    return Answer(kernel_title(spec, config) + (f" for {problem}" if blocks is None else ""), rows, skipped)


def _of_numbers(asked: OccupancyOptions, options: FileOptions, chosen: tuple[GPU, ...]) -> Answer:
    given = option_words(options, OccupancyOptions(dtype=asked.dtype))
    if given:
        name = "-D" if given[0].startswith("-D") else given[0].split("=")[0]
        raise UsageError(f"{name} is for a kernel, and none is named", "name a rung or a .cu file first")
    if asked.has_shape:
        raise UsageError("numbers alone do not say which tile a block owns, so a shape gives no grid",
                         "give --grid BLOCKS, or name a kernel")  # fmt: skip
    rows = _from_numbers(asked, chosen)
    title = f"{asked.threads} threads, {asked.registers} registers, {rows[0].smem:,} B of shared memory"
    return Answer(title, rows, [])


def _chosen_gpus(name: str, resource: str) -> tuple[GPU, ...]:
    if resource and resource not in RESOURCES:
        raise UsageError(f"--curve {resource!r} is not a resource", f"use one of {', '.join(RESOURCES)}")
    if name.strip().lower() == "all" and resource:
        raise UsageError("a curve is drawn for one GPU", "name it, such as --gpu H200")
    if not name and resource:
        return (gpu_from(DEFAULT_GPU),)
    if not name:
        return example_gpus()
    return gpus() if name.strip().lower() == "all" else (gpu_from(name),)


def _number(option: str, text: str) -> int:
    try:
        value = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise UsageError(f"{option} {text!r} is not an integer") from None
    if value < 0:
        raise UsageError(f"{option} {text} is negative")
    return value


def _from_numbers(asked: OccupancyOptions, chosen: tuple[GPU, ...]) -> list[Row]:
    threads, registers = asked.threads, asked.registers
    if threads is None or registers is None:
        raise UsageError("name a kernel, or give at least --threads and --registers",
                         "gemmsmith occupancy warp_tile, or --threads 256 --registers 128 --smem 16384")  # fmt: skip
    static, dynamic = _number("--smem", asked.smem or "0"), _number("--dynamic-smem", asked.dynamic_smem or "0")
    most = cuda_limits()
    if not 1 <= threads <= most.threads_per_block:
        raise UsageError(f"--threads {threads} is not between 1 and {most.threads_per_block}, the most per block")
    if not 0 <= registers <= most.registers_per_thread:
        raise UsageError(
            f"--registers {registers} is not between 0 and {most.registers_per_thread}, the most per thread"
        )
    blocks = _number("--grid", asked.grid) if asked.grid else None
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
