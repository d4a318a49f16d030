"""gemmsmith climb: the whole ladder on this machine, as a table and as a page."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gemmsmith import __version__
from gemmsmith.bench.bench import bench
from gemmsmith.bench.kernel_contender import KernelContender
from gemmsmith.bench.rig import TimingPolicy, cuda_rig
from gemmsmith.cli.commands.explain import DEFAULT_GPU, GpuName, arch_of
from gemmsmith.cli.ladder import check_page, gather_ladder, ladder_story, left_out, save_page
from gemmsmith.cli.options import CacheDir, Compiler, DeviceName, Json, find_device
from gemmsmith.cli.recording import new_run
from gemmsmith.cli.render.climb_tables import print_climb
from gemmsmith.cli.render.output import print_json, progress
from gemmsmith.errors import MissingDeviceError, UsageError
from gemmsmith.gpus import GPU, gpu_named, gpu_of_device
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.report.collect import CollectedRung, verify_rung
from gemmsmith.report.report_model import Made, ReportModel
from gemmsmith.run.baselines import baseline_named
from gemmsmith.run.contender import Contender
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.sim.device import SimDevice
from gemmsmith.store.database import Results
from gemmsmith.store.recorded import recorded_runs
from gemmsmith.store.results import Measurement, Run
from gemmsmith.store.run_file import run_to_json

_SIZE = 4096
_SIMULATED = 256  # the largest cube that the simulator verifies
_SIZES = (512, 1024, 2048, 4096, 8192)
# Who is timed beside fp32 rungs, and beside 16-bit ones.
_BASELINES = {"fp32": ("cublas", "cublas-tf32", "cublaslt")}
_OTHERS = ("cublas", "cublaslt")


@dataclass(frozen=True)
class Climb:
    """What a climb found: on which device, for which size and GPU, and the times where they could be measured."""

    story: ReportModel
    gathered: tuple[CollectedRung, ...]
    device: str
    on_gpu: bool
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        rejected = any(m.rejected for run in self.story.measured for m in run.measurements)
        return all(step.ok for step in self.gathered) and not rejected


def command(
    size: Annotated[int, typer.Option("--size", help="M = N = K of the table and of the simulator's counts.")] = _SIZE,
    sizes: Annotated[
        str, typer.Option("--sizes", help="Sizes to time, on a GPU: 512,1024; up to --size if empty.")
    ] = "",
    device: DeviceName = "auto",
    gpu: GpuName = "",
    html: Annotated[Path, typer.Option("--html", help="The page to write.")] = Path("climb.html"),
    no_html: Annotated[bool, typer.Option("--no-html", help="Write no page.")] = False,
    within: Annotated[float, typer.Option("--within", help="Half the median's interval, relative.")] = 0.005,
    budget: Annotated[float, typer.Option("--budget", help="Seconds a size, at most, to reach it, on a GPU.")] = 4.0,
    no_db: Annotated[bool, typer.Option("--no-db", help="Do not record what a GPU measured.")] = False,
    db: Annotated[Path | None, typer.Option("--db", help="The results database.")] = None,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Climb the ladder: verify every rung, count what it does, time it where there is a GPU, and write a page."""
    if size < 1:
        raise UsageError(f"--size {size} is not positive")
    plan = TimingPolicy(within, budget)
    where = find_device(device)
    extents = _extents(sizes, size)
    target = _target(gpu, where)
    if not no_html:
        check_page(html)
    arch = where.arch if isinstance(where, CudaDevice) else arch_of(target, "")
    given = {"--size": "" if size == _SIZE else str(size), "--sizes": sizes, "--gpu": gpu,
             "--device": "" if device == "auto" else device}  # fmt: skip
    words = shlex.join(["gemmsmith", "climb", *(w for name, value in given.items() if value for w in (name, value))])
    compiler = Compiler(cache_dir)
    notes = [note] if (note := left_out(arch)) else []
    gathered = _gather(where, size, arch, compiler)
    blank = new_run(words, where if isinstance(where, CudaDevice) else None)
    made = Made(blank.command, blank.started, blank.gemmsmith, blank.machine)
    measured: tuple[Run, ...] = ()
    if isinstance(where, CudaDevice):
        measured = (_timed(where, blank, gathered, extents, compiler, plan, None if no_db else (db,), notes),)
    story = ladder_story(gathered, target, size, made, measured, () if measured else recorded_runs())
    climb = Climb(story, gathered, where.name, isinstance(where, CudaDevice), tuple(dict.fromkeys(notes)))
    page = None if no_html else save_page(html, story)
    if json:
        print_json(_facts(climb))
    else:
        print_climb(climb.story, climb.gathered, climb.device, climb.notes, page)
    if not climb.ok:
        raise typer.Exit(1)


def _extents(sizes: str, size: int) -> tuple[int, ...]:
    if not sizes:
        return (*(s for s in _SIZES if s < size), size)
    try:
        found = tuple(dict.fromkeys(int(word) for word in sizes.split(",")))
    except ValueError:
        raise UsageError(f"--sizes {sizes!r} are not sizes", "write them as 512,1024,4096") from None
    if min(found) < 1:
        raise UsageError(f"--sizes {sizes!r}: every size must be positive")
    return found if size in found else (*found, size)


def _target(name: str, where: SimDevice | CudaDevice) -> GPU:
    """The GPU that occupancy and predictions are for: the one named, this machine's, or the default."""
    if name:
        return gpu_named(name)
    here = gpu_of_device(where.name, where.sms) if isinstance(where, CudaDevice) else None
    return here if here is not None else gpu_named(DEFAULT_GPU)


def _gather(where: SimDevice | CudaDevice, size: int, arch: str, compiler: Compiler) -> tuple[CollectedRung, ...]:
    """Verify and count every rung; a GPU verifies in this process."""
    doing = "verifying and counting"
    if not isinstance(where, CudaDevice):
        return gather_ladder(size, arch, compiler, min(size, _SIMULATED), doing)

    def verified(step: CollectedRung) -> CollectedRung:
        return replace(step, verdicts=verify_rung(where, rung_named(step.name), size, compiler))

    return gather_ladder(size, arch, compiler, 0, doing, verified)


def _timed(
    device: CudaDevice,
    run: Run,
    gathered: tuple[CollectedRung, ...],
    extents: tuple[int, ...],
    compiler: Compiler,
    plan: TimingPolicy,
    database: tuple[Path | None] | None,
    notes: list[str],
) -> Run:
    """Every rung that is right, beside the baselines of its type, over all sizes; each result is kept at once."""
    right = [rung_named(step.name) for step in gathered if step.ok]
    groups = {dtype: [s for s in right if s.dtypes[0] == dtype] for dtype in dict.fromkeys(s.dtypes[0] for s in right)}
    found: list[Measurement] = []
    with ExitStack() as stack:
        results = None if database is None else stack.enter_context(Results.open(*database))
        if results is not None:
            results.begin(run)
        bar = stack.enter_context(progress())
        task = bar.add_task("timing", total=len(extents) * len(groups))
        rig = stack.enter_context(cuda_rig(device, lambda text: bar.update(task, description=text), notes.append))
        for dtype, specs in groups.items():
            kernels: list[Contender] = [KernelContender(s, s.config(), device, compiler) for s in specs]
            rivals = _rivals(dtype.name, notes)
            for extent in extents:
                problem = Problem(extent, extent, extent, dtype=dtype)
                for measurement in bench(kernels, rivals, [problem], rig, plan):
                    if results is not None:
                        results.add(run.id, measurement)
                    found.append(measurement)
                bar.advance(task)
    return replace(run, measurements=tuple(found))


def _rivals(dtype: str, notes: list[str]) -> list[Contender]:
    found = []
    for name in _BASELINES.get(dtype, _OTHERS):
        try:
            found.append(baseline_named(name))
        except MissingDeviceError as error:
            notes.append(f"{name} left out: {error.message}; {error.hint}")
    return found


def _facts(climb: Climb) -> dict[str, Any]:
    story = climb.story
    return {
        "command": story.made.command, "gemmsmith": __version__, "date": story.made.date, "device": climb.device,
        "gpu": story.gpu.name, "arch": climb.gathered[0].compiled.arch, "compiler": climb.gathered[0].compiled.compiler,
        "size": story.problem.m, "ok": climb.ok, "notes": list(climb.notes),
        "rungs": [
            {
                "rung": rung.number, "name": rung.name, "dtype": rung.dtype, "config": rung.config,
                "verified": rung.trusted, "verdicts": [v.to_json() for v in step.verdicts],
                "registers": step.compiled.resources.registers, "spilled": step.compiled.resources.spills,
                "shared_bytes": step.compiled.resources.static_smem + step.geometry.smem,
                "threads": step.geometry.threads, "simulated": rung.simulated,
                "occupancy": {"origin": "predicted", "fraction": rung.occupancy.fraction if rung.occupancy else None},
                "counted": {"origin": "simulated", **{n: v for n, v in step.profile.metrics if v == v}}
                if step.profile is not None else None,
                "why": list(rung.why),
            }
            for rung, step in zip(story.rungs, climb.gathered, strict=True)
        ],
        "measured": [run_to_json(run) for run in story.measured],
        "recorded": [run_to_json(run) for run in story.recorded],
    }  # fmt: skip
