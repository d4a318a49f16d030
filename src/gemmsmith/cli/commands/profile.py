"""gemmsmith profile: what a launch did, in the profiler's words; from the simulator, or from ncu on a GPU."""

from __future__ import annotations

import csv
import io
import math
import shutil
import sys
from typing import Annotated, Any

import typer
from rich.markup import escape

from gemmsmith.cli.commands.explain import DEFAULT_GPU, GpuName, Subject, arch_of, choose, wrapped
from gemmsmith.cli.options import (
    Arch,
    Block,
    CacheDir,
    Compiler,
    ConfigText,
    Defines,
    DeviceName,
    Entry,
    Grid,
    Json,
    Kernel,
    PresetName,
    SignatureText,
    Smem,
)
from gemmsmith.cli.render.output import console, print_json, progress
from gemmsmith.cli.render.profile_tables import print_lines, print_profile
from gemmsmith.errors import UsageError
from gemmsmith.explain.metrics import BY_NAME, METRICS
from gemmsmith.explain.ncu import find_ncu, measure
from gemmsmith.explain.occupancy import Occupancy, occupancy
from gemmsmith.explain.profile import Profile, plain, to_json
from gemmsmith.explain.sampling import BUDGET, affordable
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.gpus import GPU, gpu_named
from gemmsmith.run.cuda import cuda_device, gpu_available
from gemmsmith.userfile.user_kernel import UserOptions

_SIZE = 512


def command(
    kernel: Kernel,
    m: Annotated[int, typer.Option("--m", help="Rows of C.")] = _SIZE,
    n: Annotated[int, typer.Option("--n", help="Columns of C.")] = _SIZE,
    k: Annotated[int, typer.Option("--k", help="Inner extent.")] = _SIZE,
    dtype: Annotated[str, typer.Option("--dtype", help="Input type, where the rung takes several.")] = "",
    device: DeviceName = "auto",
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            help=f"Simulate this many blocks and scale up; 0: all. Default: all up to {BUDGET:,} "
            "multiply-adds, then a sample.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Simulate everything, however long it takes.")] = False,
    lines: Annotated[bool, typer.Option("--lines", help="The source with its counts, line by line.")] = False,
    gpu: GpuName = "",
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    arch: Arch = "",
    entry: Entry = "",
    grid: Grid = "",
    block: Block = "",
    smem: Smem = "",
    signature: SignatureText = "",
    cache_dir: CacheDir = None,
    json: Json = False,
    csv_: Annotated[bool, typer.Option("--csv", help="One row a metric; with --lines one row a source line.")] = False,
) -> None:
    """Count what a launch did: sectors, wavefronts, bank conflicts, instructions; on a GPU also stalls, hit rates."""
    if json and csv_:
        raise UsageError("choose one of --json and --csv")
    if sample is not None and sample < 0:
        raise UsageError(f"--sample {sample} is negative", "give the number of blocks to simulate; 0 is all of them")
    if sample and full:
        raise UsageError("choose one of --sample and --full")
    on_gpu = measured_on(device)
    if on_gpu and sample:
        raise UsageError("--sample is the simulator's", "add --device sim, or leave it out")
    target = gpu_named(gpu or DEFAULT_GPU)
    where = cuda_device().arch if on_gpu else arch_of(target, arch)
    subject = choose(kernel, (m, n, k), dtype, config, preset, define,
                     UserOptions(entry, grid, block, smem, signature), where, Compiler(cache_dir),
                     simulated=not on_gpu)  # fmt: skip
    automatic = sample is None and not full
    blocks, depth = sample or 0, 0
    if automatic:
        blocks, depth = affordable(subject.spec.geometry(subject.problem, subject.config), subject.problem)
    with progress() as bar:
        task = bar.add_task(f"{'measuring' if on_gpu else 'simulating'} {subject.spec.name}", total=1)
        if on_gpu:
            found = measured(subject, preset, define, config, lines=lines)
        else:
            found = simulate(subject.spec, subject.config, subject.problem, subject.compiled, sample=blocks,
                             depth=depth)  # fmt: skip
        bar.advance(task)
    held = _held(found, target)
    if json:
        print_json(to_json(found) | {"occupancy": _occupancy_json(held)})
    elif csv_:
        sys.stdout.write(lines_csv(found) if lines else metrics_csv(found))
    elif lines:
        print_lines(subject.spec, found, automatic)
    else:
        out = console()
        out.print(f"[bold]{escape(wrapped(subject.title))}[/bold]")
        print_profile(found, held, target, automatic)


def measured_on(device: str) -> bool:
    """Whether to profile on the GPU; 'auto' does where there are a GPU and ncu. A missing ncu is an error for 'gpu'."""
    if device not in ("auto", "sim", "gpu"):
        raise UsageError(f"unknown device {device!r}", "use auto, sim or gpu")
    if device == "gpu":
        cuda_device()
        find_ncu()
    return device == "gpu" or (device == "auto" and shutil.which("ncu") is not None and gpu_available())


def measured(subject: Subject, preset: str, define: list[str] | None, config: str, *, lines: bool = False) -> Profile:
    """Run the kernel once, in a process of its own, under ncu; ``lines`` also counts by source line."""
    problem, user = subject.problem, subject.user
    command = ["-m", "gemmsmith", "run", subject.name, "--device", "gpu", "--dtype", problem.dtype.name,
               "--m", str(problem.m), "--n", str(problem.n), "--k", str(problem.k)]  # fmt: skip
    given = {"--config": config, "--preset": preset, "--entry": user.entry, "--grid": user.grid, "--block": user.block,
             "--smem": user.smem, "--signature": user.signature}  # fmt: skip
    command += [part for option, value in given.items() if value for part in (option, value)]
    command += [part for text in define or [] for part in ("-D", text)]
    return measure(subject.spec, subject.config, problem, subject.compiled, command, lines=lines)


def _held(profile: Profile, gpu: GPU) -> Occupancy:
    used, geometry = profile.resources, profile.geometry
    return occupancy(gpu, threads=geometry.threads, registers=used.registers, static_smem=used.static_smem,
                     dynamic_smem=geometry.smem, barriers=used.barriers)  # fmt: skip


def _occupancy_json(held: Occupancy) -> dict[str, Any]:
    return {"gpu": held.gpu, "origin": "predicted", "blocks_per_sm": held.blocks_per_sm,
            "warps_per_sm": held.warps_per_sm, "fraction": held.fraction, "limiters": list(held.limiters),
            "why": held.why}  # fmt: skip


def metrics_csv(profile: Profile) -> str:
    """kernel, metric, title, value, unit, origin, error: one row a metric; absent ones have no value."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("kernel", "metric", "title", "value", "unit", "origin", "relative_error"))
    errors = dict(profile.errors)
    for metric in METRICS:
        value = profile.value(metric.name)
        error = plain(errors.get(metric.name, 0.0))
        known = not math.isnan(value)
        doubt = f"{error:.6g}" if known and error is not None else ""
        rows.writerow((profile.kernel, metric.name, metric.title, _number(value) if known else "", metric.unit,
                       profile.origin if known else "absent", doubt))  # fmt: skip
    return text.getvalue()


def lines_csv(profile: Profile) -> str:
    """file, line, executed, then every metric that a line can have, samples and stall if measured, then the text."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    have = dict.fromkeys(name for line in profile.lines for name, _ in line.metrics)
    # The profiler has names for lines that it has not for launches; they come last.
    names = [*(m.name for m in METRICS if m.name in have), *(name for name in have if name not in BY_NAME)]
    sampled = any(line.samples is not None for line in profile.lines)
    rows.writerow(("file", "line", "executed", *names, *(("samples", "top_stall") if sampled else ()), "text"))
    for line in profile.lines:
        values = dict(line.metrics)
        waited = (line.samples, line.top_stall) if sampled else ()
        rows.writerow((line.file, line.number, line.executed, *(values.get(name, 0) for name in names), *waited,
                       line.text))  # fmt: skip
    return text.getvalue()


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6g}"
