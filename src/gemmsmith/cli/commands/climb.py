"""gemmsmith climb: the whole ladder on this machine, as a table and as a page."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from gemmsmith import __version__
from gemmsmith.bench.rig import TimingPolicy, cuda_rig
from gemmsmith.cli.climb_on import count_on, say_tasks, time_on, verify_on
from gemmsmith.cli.climb_timing import groups_of, rivals_of, timed_at
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.job import wants_gpu
from gemmsmith.cli.ladder import check_page, collect_ladder, ladder_model, left_out, rung_names, save_page
from gemmsmith.cli.ladder_views import check_folder, views_folder, with_links, write_ladder_views
from gemmsmith.cli.names import gpu_from
from gemmsmith.cli.options.device import DEFAULT_GPU, CacheOptions, DeviceOptions, GpuName
from gemmsmith.cli.options.groups import OptionGroup, option_words
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.record import RecordOptions
from gemmsmith.cli.options.timing import TimingOptions
from gemmsmith.cli.recording import new_run
from gemmsmith.cli.render.climb_tables import print_climb
from gemmsmith.cli.render.output import print_json, progress
from gemmsmith.cli.timed_subject import time_ladder
from gemmsmith.errors import UsageError
from gemmsmith.explain.timing.timed import to_json as timed_to_json
from gemmsmith.gpus import GPU, gpu_of_device
from gemmsmith.ladder.registry import rung_named
from gemmsmith.report.collect import CollectedRung, verify_rung
from gemmsmith.report.report_model import Made, ReportModel
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.sim.device import SimDevice
from gemmsmith.store.database import Results
from gemmsmith.store.recorded import recorded_runs
from gemmsmith.store.results import Measurement, Run
from gemmsmith.store.run_file import run_to_json

_SIZE = 4096
_SIMULATED = 256  # the largest cube that the simulator verifies
_SIZES = (512, 1024, 2048, 4096, 8192)
_TIMING = TimingOptions(budget=4.0)


@dataclass(frozen=True)
class Climb:
    """The result of a climb: the page's model, each rung, the device, and notes."""

    model: ReportModel
    gathered: tuple[CollectedRung, ...]
    device: str
    on_gpu: bool
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        rejected = any(m.rejected for run in self.model.measured for m in run.measurements)
        return all(step.ok for step in self.gathered) and not rejected


@dataclass(frozen=True)
class ClimbOptions(OptionGroup):
    """Sizes, and the page."""

    panel: ClassVar[str] = "Ladder"

    size: Annotated[int, typer.Option("--size", help="M = N = K of the table and of the simulated counts.")] = _SIZE
    sizes: Annotated[
        str, typer.Option("--sizes", help="Sizes to time on a GPU: 512,1024. Default: powers of 2 up to --size.")
    ] = ""
    html: Annotated[Path, typer.Option("--html", help="The page to write.")] = Path("climb.html")
    no_html: Annotated[bool, typer.Option("--no-html", help="Write no page.")] = False
    times: Annotated[
        bool, typer.Option("--times", help="Time every rung with the cycle model; say from it why each step is faster.")
    ] = False
    views: Annotated[
        bool, typer.Option("--views", help="Also write the views of every rung, into a folder beside the page.")
    ] = False

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"--size {self.size} is not positive")
        if self.views and self.no_html:
            raise UsageError("choose one of --views and --no-html")


def command(
    options: ClimbOptions,
    device: DeviceOptions,
    gpu: GpuName = "",
    timing: TimingOptions = _TIMING,
    *,
    on: OnOptions,
    record: RecordOptions,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Climb the ladder: verify every rung, count what it does, time it on a GPU.

    Writes a page with charts. Exits 1 if a rung is wrong.
    """
    plan = TimingPolicy(timing.within, timing.budget)
    extents = _extents(options.sizes, options.size)
    there = on.asked and wants_gpu(on, device.device, lambda: device.wants_gpu)
    if there and on.on_cluster and not (gpu or on.gpu_kind):
        raise UsageError("climbing on GPUs of a cluster must know which", "name them: --gpu-kind H200")
    where = device.open() if not (there and on.on_cluster) else SimDevice()
    target = _target(gpu or (on.gpu_kind if there and on.on_cluster else ""), where)
    if not options.no_html:
        check_page(options.html)
    if options.views:
        check_folder(views_folder(options.html))
    arch = where.arch if isinstance(where, CudaDevice) else f"sm_{target.arch}"
    given = {"--size": "" if options.size == _SIZE else str(options.size), "--sizes": options.sizes, "--gpu": gpu}
    words = [word for name, value in given.items() if value for word in (name, value)]
    notes = [note] if (note := left_out(arch)) else []
    command_line = shlex.join(["gemmsmith", "climb", *words, *option_words(device)])
    blank = new_run(command_line, where if isinstance(where, CudaDevice) else None)
    made = Made(blank.command, blank.started, blank.gemmsmith, blank.machine)
    measured: tuple[Run, ...] = ()
    if on.dry_run:
        say_tasks(rung_names(arch), options.size, arch, extents, there, on, output.json)
    if on.asked:
        simulated = 0 if there else min(options.size, _SIMULATED)
        gathered = count_on(rung_names(arch), options.size, arch, simulated, blank.command, on, cache, record, notes)
        if there:
            gathered = verify_on(gathered, options.size, blank.command, on, cache, record)
            measured = (time_on(gathered, extents, plan, blank.command, on, cache, record, blank, notes),)
    else:
        gathered = _collect(where, options.size, arch, cache.compiler)
    if isinstance(where, CudaDevice) and not there:
        measured = (_timed(where, blank, gathered, extents, cache.compiler, plan, record, notes),)
    if options.times:
        gathered = time_ladder(gathered, options.size, target)
    model = ladder_model(gathered, target, options.size, made, measured, () if measured else recorded_runs())
    if options.views:
        names = [rung.name for rung in model.rungs if rung.simulated]
        folder = views_folder(options.html)
        write_ladder_views(folder, names, arch, target, cache.compiler)
        model = with_links(model, folder, names)
        notes.append(f"views of {len(names)} rungs in {folder}")
    name = measured[0].machine.gpu if there else where.name
    climb = Climb(model, gathered, name, there or isinstance(where, CudaDevice), tuple(dict.fromkeys(notes)))
    page = None if options.no_html else save_page(options.html, model)
    if output.json:
        print_json(_facts(climb))
    else:
        print_climb(climb.model, climb.gathered, climb.device, climb.notes, page)
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
        return gpu_from(name)
    here = gpu_of_device(where.name, where.sms) if isinstance(where, CudaDevice) else None
    return here if here is not None else gpu_from(DEFAULT_GPU)


def _collect(where: SimDevice | CudaDevice, size: int, arch: str, compiler: Compiler) -> tuple[CollectedRung, ...]:
    """Verify and count every rung; on a GPU they are verified in this process."""
    if not isinstance(where, CudaDevice):
        return collect_ladder(size, arch, compiler, min(size, _SIMULATED))

    def verified(step: CollectedRung) -> CollectedRung:
        return replace(step, verdicts=verify_rung(where, rung_named(step.name), size, compiler))

    return collect_ladder(size, arch, compiler, 0, verified)


def _timed(
    device: CudaDevice,
    run: Run,
    gathered: tuple[CollectedRung, ...],
    extents: tuple[int, ...],
    compiler: Compiler,
    plan: TimingPolicy,
    record: RecordOptions,
    notes: list[str],
) -> Run:
    """Every correct rung and the baselines of its type, at all sizes; each result is recorded at once."""
    groups = groups_of([rung_named(step.name) for step in gathered if step.ok])
    found: list[Measurement] = []
    with ExitStack() as stack:
        results = None if record.no_db else stack.enter_context(Results.open(record.db))
        if results is not None:
            results.begin(run)
        bar = stack.enter_context(progress())
        task = bar.add_task("timing", total=len(extents) * len(groups))
        rig = stack.enter_context(cuda_rig(device, lambda text: bar.update(task, description=text), notes.append))
        for dtype, specs in groups.items():
            rivals = rivals_of(dtype.name, notes)
            for extent in extents:
                for measurement in timed_at(specs, rivals, extent, device, compiler, rig, plan):
                    if results is not None:
                        results.add(run.id, measurement)
                    found.append(measurement)
                bar.advance(task)
    return replace(run, measurements=tuple(found))


def _facts(climb: Climb) -> dict[str, Any]:
    model = climb.model
    return {
        "command": model.made.command, "gemmsmith": __version__, "date": model.made.date, "device": climb.device,
        "gpu": model.gpu.name, "arch": climb.gathered[0].compiled.arch, "compiler": climb.gathered[0].compiled.compiler,
        "size": model.problem.m, "ok": climb.ok, "notes": list(climb.notes),
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
                "time": None if step.timed is None else timed_to_json(step.timed),
            }
            for rung, step in zip(model.rungs, climb.gathered, strict=True)
        ],
        "measured": [run_to_json(run) for run in model.measured],
        "recorded": [run_to_json(run) for run in model.recorded],
    }  # fmt: skip
