"""gemmsmith sweep: one kernel at every point of a grid, timed on a GPU or counted on the simulator."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Protocol

import typer
from rich.markup import escape

from gemmsmith import __version__
from gemmsmith.cli.commands.explain import DEFAULT_SIZE, GpuName
from gemmsmith.cli.options import (
    Arch,
    Block,
    CacheDir,
    ConfigText,
    Defines,
    DeviceName,
    Entry,
    Grid,
    Json,
    PresetName,
    SignatureText,
    Smem,
)
from gemmsmith.cli.render.output import console, print_json, progress
from gemmsmith.cli.render.sweep_plot import as_story, check_plot, check_save, write_plot
from gemmsmith.cli.render.sweep_tables import Sweep, print_experiments, print_sweep, sweep_csv, sweep_json
from gemmsmith.cli.sweep_choices import (
    check_family_simulated,
    check_size,
    experiment_of,
    family_of,
    main_of,
    origin_of,
    workbench,
)
from gemmsmith.cli.sweep_points import Workbench, counted, predicted
from gemmsmith.cli.sweep_record import recording
from gemmsmith.cli.sweep_timing import gpu_measure, turns
from gemmsmith.errors import UsageError
from gemmsmith.explain.sampling import QUICK_DEPTH, QUICK_SAMPLE
from gemmsmith.report.sweep_file import save_sweep
from gemmsmith.run.cuda import cuda_device
from gemmsmith.shapes import parse_shapes
from gemmsmith.store.database_file import chosen_path
from gemmsmith.store.results import Measurement
from gemmsmith.sweep.sweep import Axis, Outcome, Point, grid, parse_axis
from gemmsmith.userfile.user_kernel import UserOptions

_MOST = 64
_OCCUPANCY_NOTE = "Predicted from the limits of the hardware, as NVIDIA's occupancy calculator does; nothing was run."
_TIMED_NOTE = (
    "Measured with the protocol of gemmsmith bench; registers and spills by ptxas; occupancy predicted for {gpu}."
)
_COUNTED_NOTE = (
    f"Counted on the simulator from {QUICK_SAMPLE} block of each kind, K continued from {QUICK_DEPTH} and "
    f"{2 * QUICK_DEPTH}; "
    "registers and spills by ptxas; occupancy and waves predicted for {gpu}. Each kernel was verified with integers, "
    "bit for bit, on a few tiles. /k: per 1000 multiply-adds of a warp."
)
Doing = Callable[[str], None]


class Finished(Protocol):
    """Keeps what was measured, and counts the points that are done."""

    def __call__(self, measurements: Iterable[Measurement], count: int = 1) -> None: ...


def command(
    kernel: Annotated[str, typer.Argument(metavar="[RUNG|FILE.cu]", help="A rung, or a .cu file.")] = "",
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="NAME=VALUES",
            help="BK=8,16,32: a parameter of a rung or a macro of a file, SIZE, M, N, K, dtype or WAVES; for occupancy "
            "alone registers, threads or smem. TM,TN=4x4,8x4 vary together. Several give every combination.",
        ),
    ] = None,
    experiment: Annotated[str, typer.Option("--experiment", help="One of the worklogs' experiments, by name.")] = "",
    list_: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    shapes: Annotated[str, typer.Option("--shapes", help="MxNxK,… or a suite's name; 4096 unless told.")] = "",
    dtype: Annotated[str, typer.Option("--dtype", help="Input type, where the rung takes several.")] = "",
    device: DeviceName = "auto",
    gpu: GpuName = "",
    against: Annotated[str, typer.Option("--against", help="Baselines on a GPU: cublas,cublaslt,triton.")] = "",
    show: Annotated[str, typer.Option("--show", help="The quantity for bars and plots, such as occupancy.")] = "",
    max_points: Annotated[int, typer.Option("--max-points", help="Refuse a larger sweep.")] = _MOST,
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    arch: Arch = "",
    entry: Entry = "",
    grid_: Grid = "",
    block: Block = "",
    smem: Smem = "",
    signature: SignatureText = "",
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the sweep.")] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE.json", help="Keep the sweep for gemmsmith report --sweep.")
    ] = None,
    db: Annotated[
        Path | None, typer.Option("--db", metavar="FILE", help="The results database.", envvar="GEMMSMITH_DB")
    ] = None,
    no_db: Annotated[bool, typer.Option("--no-db", help="Keep no record.")] = False,
    cache_dir: CacheDir = None,
    json: Json = False,
    csv_: Annotated[bool, typer.Option("--csv", help="One row a point.")] = False,
) -> None:
    """Run a kernel over a grid of parameters and sizes: times on a GPU, counters and resources on the simulator."""
    if json and csv_:
        raise UsageError("choose one of --json and --csv")
    if list_:
        facts = print_experiments(json)
        if facts is not None:
            print_json(facts)
        return
    if plot is not None:
        check_plot(plot)
    if save is not None:
        check_save(save)
    given = {"experiment": experiment, "shapes": shapes, "dtype": dtype, "device": device, "gpu": gpu,
             "against": against, "show": show, "config": config, "preset": preset, "arch": arch, "entry": entry,
             "grid": grid_, "block": block, "smem": smem, "signature": signature}  # fmt: skip
    words = _words(kernel, vary, define, given)
    chosen = experiment_of(experiment, kernel, vary, config, preset, define)
    if chosen is not None:
        kernel, vary, config, shapes = chosen.kernel, list(chosen.vary), chosen.fixed, shapes or chosen.shape
    family = family_of(kernel, config, preset, define, UserOptions(entry, grid_, block, smem, signature))
    axes = tuple(parse_axis(text) for text in vary or [])
    over = parse_shapes(shapes) if shapes else ((DEFAULT_SIZE,) * 3,)
    check_size(axes, over, max_points)
    origin = origin_of(device, axes)
    baselines = tuple(word.strip() for word in against.split(",") if word.strip())
    if baselines and origin != "measured":
        raise UsageError("--against needs a GPU: baselines are timed, not simulated", "leave it out, or --device gpu")
    main = main_of(show, chosen, axes, origin)
    if not no_db and origin != "predicted":
        chosen_path(db)
    if origin == "simulated":
        check_family_simulated(family)
    bench = workbench(origin, gpu, arch, cache_dir)
    points = grid(family, axes, over, dtype, bench.wave_shape)
    here = cuda_device() if origin == "measured" else None
    with recording(db, not no_db and origin != "predicted", words, here) as record, progress() as bar:
        task = bar.add_task("sweeping", total=len(points))

        def finished(measurements: Iterable[Measurement], count: int = 1) -> None:
            for measurement in measurements:
                record(measurement)
            bar.advance(task, count)

        def doing(text: str) -> None:
            bar.update(task, description=escape(text))

        if origin == "measured":
            outcomes, remarks = _timed(points, bench, baselines, doing, finished)
        else:
            outcomes, remarks = _counted(points, bench, origin, doing, finished), ()
    if len(over) > 1:
        axes = (Axis(("shape",), tuple((f"{m}x{n}x{k}",) for m, n, k in over)), *axes)
    found = Sweep(
        kernel=family.name, fixed=_held(config, preset, define), axes=axes, outcomes=outcomes, origin=origin,
        device=_device_words(origin, bench), gpu=bench.gpu.name, main=main, note=_note(origin, bench, points),
        baselines=baselines, remarks=remarks, experiment=chosen,
    )  # fmt: skip
    if json:
        print_json(sweep_json(found, words, __version__))
    elif csv_:
        sys.stdout.write(sweep_csv(found))
    else:
        print_sweep(found)
    if plot is not None:
        drawn = write_plot(found, plot, words)
        console(stderr=True).print(f"wrote {plot}" if drawn else f"nothing to draw in {plot}", markup=False)
    if save is not None:
        save_sweep(save, as_story(found, words))
        console(stderr=True).print(f"wrote {save}", markup=False)
    _exit(outcomes)


def _counted(points: Sequence[Point], bench: Workbench, origin: str, doing: Doing, finished: Finished
             ) -> tuple[Outcome, ...]:  # fmt: skip
    """Every point on the simulator, or by arithmetic alone."""
    outcomes = []
    for point in points:
        doing(point.label)
        outcome = predicted(point, bench) if origin == "predicted" else counted(point, bench)
        finished([outcome.measurement] if outcome.measurement is not None else [])
        outcomes.append(outcome)
    return tuple(outcomes)


def _timed(points: Sequence[Point], bench: Workbench, baselines: Sequence[str], doing: Doing, finished: Finished
           ) -> tuple[tuple[Outcome, ...], tuple[str, ...]]:  # fmt: skip
    """Every point on the GPU, in the order of the sweep, and what else a reader must know."""
    placed: dict[int, Outcome] = {}
    remarks: dict[str, None] = {}
    for turn in turns(points, bench, gpu_measure(bench, baselines, doing)):
        found = [outcome.measurement for _, outcome in turn.outcomes if outcome.measurement is not None]
        finished([*turn.baselines, *found], len(turn.outcomes))
        placed.update(turn.outcomes)
        remarks.update(dict.fromkeys(turn.remarks))
    return tuple(placed[at] for at in range(len(points))), tuple(remarks)


def _words(kernel: str, vary: list[str] | None, define: list[str] | None, given: dict[str, str]) -> str:
    """The command that does this sweep again."""
    words = ["gemmsmith", "sweep", *([kernel] if kernel else []), *(w for text in vary or [] for w in ("--vary", text))]
    words += [f"-D{text}" for text in define or []]
    return shlex.join([*words, *(w for name, value in given.items() if value for w in (f"--{name}", value))])


def _held(config: str, preset: str, define: list[str] | None) -> str:
    return ",".join(filter(None, (preset, config, *(define or []))))


def _device_words(origin: str, bench: Workbench) -> str:
    if origin == "measured":
        return cuda_device().name
    return bench.gpu.name if origin == "predicted" else f"simulator, {bench.arch}"


def _note(origin: str, bench: Workbench, points: Sequence[Point]) -> str:
    if origin == "predicted":
        return _OCCUPANCY_NOTE
    sizes = {str(point.problem) for point in points if point.problem is not None}
    at = f"At {sizes.pop()}. " if len(sizes) == 1 else ""
    return at + (_TIMED_NOTE if origin == "measured" else _COUNTED_NOTE).format(gpu=bench.gpu.name)


def _exit(outcomes: Sequence[Outcome]) -> None:
    """1 where a result is wrong or nothing came of any legal point, 2 where no point is legal."""
    states = [outcome.state for outcome in outcomes]
    if "wrong" in states or ("ok" not in states and "failed" in states):
        raise typer.Exit(1)
    if "ok" not in states:
        raise typer.Exit(UsageError.exit_code)
