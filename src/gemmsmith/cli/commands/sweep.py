"""gemmsmith sweep: one kernel at every point of a grid, timed on a GPU or counted on the simulator."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith import __version__
from gemmsmith.cli.job import CommandJob, cores, gpu_wanted, nodes_note, show_failure, wants_gpu
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions, TargetOptions
from gemmsmith.cli.options.groups import OptionGroup, option_words
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.options.output import TableOptions
from gemmsmith.cli.options.plot import PlotOptions
from gemmsmith.cli.options.problem import DEFAULT_SIZE
from gemmsmith.cli.options.record import RecordOptions
from gemmsmith.cli.recording import new_run
from gemmsmith.cli.render.output import item, print_json, progress, say
from gemmsmith.cli.render.sweep_plot import as_page_sweep, write_plot
from gemmsmith.cli.render.sweep_tables import experiments_json, print_experiments, print_sweep, sweep_csv, sweep_json
from gemmsmith.cli.sweep_plan import SweepPlan
from gemmsmith.cli.tasks.files import SentFiles, sent_files
from gemmsmith.cli.tasks.sweep_tasks import SentOutcomes, received, sweep_tasks
from gemmsmith.cluster.codec import decode
from gemmsmith.cluster.task import CPU, LIMIT_S, TaskResult
from gemmsmith.errors import MissingDeviceError, UsageError
from gemmsmith.explain.sampling import QUICK_DEPTH, QUICK_SAMPLE
from gemmsmith.problem import Problem
from gemmsmith.report.sweep_file import save_sweep
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.store.results import Measurement, Run
from gemmsmith.sweep.axes import RESOURCES, Axis, parse_axis
from gemmsmith.sweep.experiments import Experiment, experiment_named
from gemmsmith.sweep.families import RungFamily
from gemmsmith.sweep.grid import Point, check_size
from gemmsmith.sweep.measure import measure_points
from gemmsmith.sweep.quantities import quantity_named, telling
from gemmsmith.sweep.recording import Record, discard, recording
from gemmsmith.sweep.results import Outcome, Sweep
from gemmsmith.sweep.workbench import Workbench

_WORTH_TASKS = 4  # simulated points: fewer take less than starting processes
_MOST = 64
_OCCUPANCY_NOTE = "Predicted from the limits of the hardware, as NVIDIA's occupancy calculator does; nothing was run."
_TIMED_NOTE = "Measured as gemmsmith bench does; registers and spills by ptxas; occupancy predicted for {gpu}."
_COUNTED_NOTE = (
    f"Counted on the simulator from {QUICK_SAMPLE} block of each kind, extrapolated in K from {QUICK_DEPTH} and "
    f"{2 * QUICK_DEPTH}; registers and spills by ptxas; occupancy and waves predicted for {{gpu}}. Each kernel was "
    "verified with integers, bit for bit, on a few tiles. /k: per 1000 multiply-adds of a warp."
)


@dataclass(frozen=True)
class SweepOptions(OptionGroup):
    """What varies, over which shapes, and what is shown."""

    panel: ClassVar[str] = "Sweep"

    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="NAME=VALUES",
            help="BK=8,16,32: a parameter of a rung or a macro of a file, SIZE, M, N, K, dtype or WAVES; for occupancy "
            "alone registers, threads or smem. TM,TN=4x4,8x4 vary together. Repeated, it gives every combination.",
        ),
    ] = None
    experiment: Annotated[str, typer.Option("--experiment", help="One of the published experiments, by name.")] = ""
    list_: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False
    shapes: Annotated[
        str, typer.Option("--shapes", help=f"Shapes: MxNxK,… or the name of a suite. Default: {DEFAULT_SIZE}.")
    ] = ""
    dtype: Annotated[str, typer.Option("--dtype", help="Input type, where the rung takes several.")] = ""
    against: Annotated[str, typer.Option("--against", help="Baselines on a GPU: cublas,cublaslt,triton.")] = ""
    show: Annotated[str, typer.Option("--show", help="The quantity for bars and plots, such as occupancy.")] = ""
    max_points: Annotated[int, typer.Option("--max-points", help="Refuse a larger sweep.")] = _MOST

    @property
    def baselines(self) -> tuple[str, ...]:
        return tuple(word.strip() for word in self.against.split(",") if word.strip())


def command(
    kernel: Annotated[
        str, typer.Argument(metavar="RUNG|FILE.cu", help="A rung, by name or number, or a .cu file.")
    ] = "",
    *,
    on: OnOptions,
    asked: SweepOptions,
    options: KernelOptions,
    device: DeviceOptions,
    target: TargetOptions,
    record: RecordOptions,
    files: PlotOptions,
    cache: CacheOptions,
    output: TableOptions,
) -> None:
    """Run a kernel over a grid of parameters and sizes.

    Times on a GPU; counters and resources on the simulator.
    """
    if asked.list_:
        if output.json:
            print_json(experiments_json())
        else:
            print_experiments()
        return
    words = _words(kernel, asked, options, device, target)
    chosen = _experiment(asked, kernel, options)
    if chosen is not None:
        kernel, options = chosen.kernel, replace(options, config=chosen.fixed)
        asked = replace(asked, vary=list(chosen.vary), shapes=asked.shapes or chosen.shape)
    axes = tuple(parse_axis(text) for text in asked.vary or [])
    plan = SweepPlan(kernel, options, tuple(asked.vary or ()), asked.shapes, asked.dtype, _origin(device, axes, on),
                     target, asked.baselines)  # fmt: skip
    family, shapes, origin = plan.family, plan.all_shapes, plan.origin
    check_size(axes, shapes, asked.max_points)
    _check_baselines(asked, device, origin)
    main = _main_quantity(asked.show, chosen, axes, origin)
    if origin != "predicted":
        record.check()
    if origin == "simulated" and isinstance(family, RungFamily):
        hint = "sweep it on a GPU (--device gpu), or --vary registers, threads or smem"
        device.check_simulated(family.spec, Problem(1, 1, 1, dtype=family.spec.dtypes[0]), hint)
    there = on.gpu_kind if on.on_cluster else ""
    if origin == "measured" and on.on_cluster and not there:
        raise UsageError("a sweep on GPUs of a cluster must know which", "name them: --gpu-kind H200")
    bench = plan.workbench(cache.compiler, there)
    points = plan.points(bench)
    ran: list[TaskResult] = []
    here = None
    if on.asked or (not on.on and origin == "simulated" and _is_worth_tasks(points)):
        outcomes, remarks, ran = _on_workers(plan, points, words, on, record, cache, output)
        device_name = _device_of(ran) or _device_words(origin, bench, None)
    else:
        here = cuda_device() if origin == "measured" else None
        outcomes, remarks = _measured(points, bench, origin, asked.baselines, record, lambda: new_run(words, here))
        device_name = _device_words(origin, bench, here)
    if len(shapes) > 1:
        axes = (Axis(("shape",), tuple((f"{m}x{n}x{k}",) for m, n, k in shapes)), *axes)
    found = Sweep(
        kernel=family.name, fixed=_fixed(options), axes=axes, outcomes=outcomes, origin=origin,
        device=device_name, gpu=bench.gpu.name, main=main, note=_note(origin, bench, points),
        baselines=asked.baselines, remarks=remarks, experiment=chosen,
    )  # fmt: skip
    _show(found, words, files, output)
    if ran and on.named:
        item(nodes_note(ran), "dim", stderr=True)
    _exit(outcomes)


def _words(
    kernel: str, asked: SweepOptions, options: KernelOptions, device: DeviceOptions, target: TargetOptions
) -> str:
    """The command that repeats this sweep."""
    kept = option_words(replace(asked, max_points=_MOST), options, device, target, always=("device",))
    return shlex.join(["gemmsmith", "sweep", *([kernel] if kernel else []), *kept])


def _experiment(asked: SweepOptions, kernel: str, options: KernelOptions) -> Experiment | None:
    if not asked.experiment:
        if not kernel or not asked.vary:
            raise UsageError("say what to sweep: a kernel and --vary, or --experiment NAME",
                             "gemmsmith sweep padded --vary PAD=0,1,4,8; gemmsmith sweep --list")  # fmt: skip
        return None
    chosen = experiment_named(asked.experiment)
    if kernel or asked.vary or options.config or options.preset or options.define:
        raise UsageError(f"{chosen.name} names its kernel, parameters and values itself",
                         "leave out the others, or the name")  # fmt: skip
    return chosen


def _origin(device: DeviceOptions, axes: Sequence[Axis], on: OnOptions) -> str:
    """'predicted' for occupancy alone, 'measured' on a GPU, 'simulated' without one."""
    if any(name in RESOURCES for axis in axes for name in axis.names):
        return "predicted"
    return "measured" if wants_gpu(on, device.device, lambda: device.wants_gpu) else "simulated"


def _check_baselines(asked: SweepOptions, device: DeviceOptions, origin: str) -> None:
    if asked.baselines and origin != "measured":
        missing = origin == "simulated" and device.device == "auto"
        raise (MissingDeviceError if missing else UsageError)(
            "--against needs a GPU: baselines are timed, not simulated", "leave it out, or --device gpu"
        )


def _main_quantity(show: str, chosen: Experiment | None, axes: Sequence[Axis], origin: str) -> str:
    if show:
        return quantity_named(show).name
    if chosen is not None and origin != "measured":
        return chosen.shows
    return telling([name for axis in axes for name in axis.names], origin)


def _is_worth_tasks(points: Sequence[Point]) -> bool:
    """Whether cores are used without being asked."""
    return sum(point.problem is not None for point in points) >= _WORTH_TASKS and (os.cpu_count() or 1) > 1


def _on_workers(
    plan: SweepPlan, points: Sequence[Point], words: str, on: OnOptions, record: RecordOptions, cache: CacheOptions,
    output: TableOptions,
) -> tuple[tuple[Outcome, ...], tuple[str, ...], list[TaskResult]]:  # fmt: skip
    """Every point as a task, remarks, and the tasks' results; each is recorded as soon as it is there."""
    files = sent_files([plan.kernel], plan.options.include) if not on.dry_run else SentFiles()
    gpu = gpu_wanted(on) if plan.origin == "measured" else CPU
    tasks = sweep_tasks(plan, points, files.digest, gpu, on.limit(LIMIT_S))
    recorded = not record.no_db and plan.origin != "predicted"
    job = CommandJob(words, tasks, on, cores(), files.trees, record.db, recorded,
                     lambda value: decode(SentOutcomes, value).measurements, cache.cache_dir, output.json)  # fmt: skip
    ran = job.results()
    for result in ran:
        if not result.ok:
            show_failure(result)
    return *received(points, tasks, ran), ran


def _device_of(ran: Sequence[TaskResult]) -> str:
    """The GPU that the tasks ran on; '' without one."""
    return next((r.node.machine.gpu for r in ran if r.node is not None), "")


def _measured(
    points: Sequence[Point], bench: Workbench, origin: str, baselines: Sequence[str], record: RecordOptions,
    new: Callable[[], Run],
) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:  # fmt: skip
    """The outcome of every point in the order of the sweep, and remarks."""
    wanted = not record.no_db and origin != "predicted"
    with _recorder(wanted, record.db, new) as keep, progress() as bar:
        task = bar.add_task("sweeping", total=len(points))

        def finished(measurements: Iterable[Measurement], count: int = 1) -> None:
            for measurement in measurements:
                keep(measurement)
            bar.advance(task, count)

        def doing(text: str) -> None:
            bar.update(task, description=text)

        return measure_points(points, bench, origin, baselines, doing, finished)


@contextmanager
def _recorder(wanted: bool, path: Path | None, new: Callable[[], Run]) -> Iterator[Record]:
    if not wanted:
        yield discard
        return
    with recording(path, new) as keep:
        yield keep


def _fixed(options: KernelOptions) -> str:
    return ",".join(filter(None, (options.preset, options.config, *(options.define or []))))


def _device_words(origin: str, bench: Workbench, here: CudaDevice | None) -> str:
    if here is not None:
        return here.name
    return bench.gpu.name if origin == "predicted" else f"simulator, {bench.arch}"


def _note(origin: str, bench: Workbench, points: Sequence[Point]) -> str:
    if origin == "predicted":
        return _OCCUPANCY_NOTE
    sizes = {str(point.problem) for point in points if point.problem is not None}
    at = f"At {sizes.pop()}. " if len(sizes) == 1 else ""
    return at + (_TIMED_NOTE if origin == "measured" else _COUNTED_NOTE).format(gpu=bench.gpu.name)


def _show(found: Sweep, words: str, files: PlotOptions, output: TableOptions) -> None:
    if output.json:
        print_json(sweep_json(found, words, __version__))
    elif output.csv:
        sys.stdout.write(sweep_csv(found))
    else:
        print_sweep(found)
    if files.plot is not None:
        drawn = write_plot(found, files.plot, words)
        say(f"wrote {files.plot}" if drawn else f"nothing to draw in {files.plot}", stderr=True)
    if files.save is not None:
        save_sweep(files.save, as_page_sweep(found, words))
        say(f"wrote {files.save}", stderr=True)


def _exit(outcomes: Sequence[Outcome]) -> None:
    """1 where a result is wrong or no legal point gave one, 2 where no point is legal."""
    states = [outcome.state for outcome in outcomes]
    if "wrong" in states or ("ok" not in states and "failed" in states):
        raise typer.Exit(1)
    if "ok" not in states:
        raise typer.Exit(UsageError.exit_code)
