"""gemmsmith accuracy: how large a kernel's errors are, by kind of data and K, beside others'."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from json import dumps
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from gemmsmith import __version__
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.choose.precision import check_promise
from gemmsmith.cli.accuracy_subjects import auto_subject, baseline_subject, kernel_subject
from gemmsmith.cli.options import (
    Block,
    ConfigText,
    Defines,
    DeviceName,
    Entry,
    Grid,
    Json,
    PresetName,
    SignatureText,
    Smem,
    find_device,
    find_kernel,
)
from gemmsmith.cli.precision_options import (
    AUTO,
    Deterministic,
    PrecisionName,
    check_nothing_set,
    chosen_for,
    input_type,
)
from gemmsmith.cli.render.accuracy_plot import write_plot
from gemmsmith.cli.render.accuracy_tables import Study, print_study, study_csv, study_json
from gemmsmith.cli.render.output import console, print_json, progress
from gemmsmith.cli.render.sweep_plot import check_plot, check_save
from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32, TF32, DType, Problem
from gemmsmith.report.files import replace_file
from gemmsmith.run.baselines import BASELINES
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.user_kernel import UserOptions
from gemmsmith.verify.accuracy_study import DISTRIBUTIONS, Plan, Point, Subject, distributions_for, study

# A few seconds a kernel on the simulator; on a GPU, float64 on the host takes the time.
_SIMULATED_DEPTHS, _SIMULATED_SIZE = (8, 32, 128), 64
_MEASURED_DEPTHS, _MEASURED_SIZE = (16, 64, 256, 1024, 4096, 16384), 256
# All rungs on CUDA cores give the same bits; this one stands for "fp32 on CUDA cores".
_REFERENCE_RUNG = "warp_tile"


def command(
    kernels: Annotated[
        list[str],
        typer.Argument(metavar="RUNG|FILE.cu|auto…", help="Whose errors to measure; auto: as matmul chooses."),
    ],
    dtype: Annotated[str, typer.Option("--dtype", help="Input type: fp32, tf32, fp16, bf16 or int8.")] = "",
    distributions: Annotated[
        str, typer.Option("--distributions", help=f"Kinds of data, comma-separated: {', '.join(DISTRIBUTIONS)}.")
    ] = "",
    k: Annotated[str, typer.Option("--k", help="Depths K, comma-separated.")] = "",
    m: Annotated[int, typer.Option("--m", help="Rows of C; 64 on the simulator, 256 on a GPU.")] = 0,
    n: Annotated[int, typer.Option("--n", help="Columns of C; as many as rows unless told.")] = 0,
    against: Annotated[
        str,
        typer.Option("--against", help=f"Whom to compare with, or none: rungs, and on a GPU {', '.join(BASELINES)}."),
    ] = "",
    seeds: Annotated[int, typer.Option("--seeds", help="Operands of each kind and K.")] = 1,
    device: DeviceName = "auto",
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", help="Begin no product after so long; 0: no limit.")
    ] = 0.0,
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    precision: PrecisionName = "",
    deterministic: Deterministic = True,
    entry: Entry = "",
    grid: Grid = "",
    block: Block = "",
    smem: Smem = "",
    signature: SignatureText = "",
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw errors over K.")] = None,
    save: Annotated[Path | None, typer.Option("--save", metavar="FILE.json", help="Keep what --json prints.")] = None,
    json: Json = False,
    csv_: Annotated[bool, typer.Option("--csv", help="One row a point.")] = False,
) -> None:
    """Measure a kernel's errors over kinds of data and K, against float64 and beside others; exits 1 beyond a gate.

    ‖E‖/‖C‖: the error in the Frobenius norm, relative to the product.
    largest, mean: of the components of |E|/(|A||B|); u is the roundoff.
    relative: the largest |E|/|C| of components that are not tiny.
    """
    if json and csv_:
        raise UsageError("choose one of --json and --csv")
    if plot is not None:
        check_plot(plot)
    if save is not None:
        check_save(save)
    options = UserOptions(entry, grid, block, smem, signature)
    if set(kernels) == {AUTO}:
        check_nothing_set(config, preset, define, options)
    found = [find_kernel(name, config, preset, define, options) for name in dict.fromkeys(kernels) if name != AUTO]
    where = find_device(device)
    on_gpu = where.kind == "gpu"
    kind = input_type(dtype, precision, found[0][0].dtypes[0] if found else FP32)
    for spec, _ in found:
        check_promise(spec, kind, precision)
    rows = m or n or (_MEASURED_SIZE if on_gpu else _SIMULATED_SIZE)
    plan = Plan(
        m=m or rows, n=n or rows, depths=_depths(k) or (_MEASURED_DEPTHS if on_gpu else _SIMULATED_DEPTHS),
        distributions=_words(distributions) or distributions_for(kind), dtype=kind, seeds=seeds,
        seconds=time_limit if time_limit != 0 else math.inf,
    )  # fmt: skip
    notes: list[str] = []
    points: list[Point] = []
    with ExitStack() as held:
        first = []
        if AUTO in kernels:
            deepest = plan.problem(max(plan.depths))
            first = [auto_subject(deepest, where, precision, deterministic)]
            notes.append(f"auto is {chosen_for(deepest, where, precision, deterministic).spec.name} for {deepest}")
        subjects = _subjects(first, found, against, plan, where, notes, held)
        bar = held.enter_context(progress())
        products = len(plan.distributions) * len(plan.depths) * plan.seeds * len(subjects)
        task = bar.add_task("multiplying", total=products)
        finished = count()

        def step(words: str) -> None:
            bar.update(task, description=escape(words), completed=next(finished))

        points.extend(study(subjects, plan, step))
    if not points:
        raise UsageError(f"the time limit of {time_limit:g} s ended before the first point", "allow more time")
    given = {"dtype": dtype, "distributions": distributions, "k": k, "m": str(m or ""), "n": str(n or ""),
             "against": against, "seeds": str(seeds), "device": device, "config": config, "preset": preset,
             "entry": entry, "grid": grid, "block": block, "smem": smem, "signature": signature,
             "precision": precision,
             "time-limit": f"{time_limit:g}" if time_limit else ""}  # fmt: skip
    done = Study(
        subjects=tuple(subjects), plan=plan, points=tuple(points), origin="measured" if on_gpu else "simulated",
        device=where.name, command=_command(kernels, define, given, deterministic), version=__version__,
        date=datetime.now(UTC).date().isoformat(),
    )  # fmt: skip
    if done.missing:
        notes.append(
            f"the time limit of {time_limit:g} s left out {done.missing} of {done.missing + len(points)} points"
        )
    _show(replace(done, notes=tuple(notes)), plot, save, json, csv_)
    if any(point.wrong for point in points if point.subject in {s.name for s in subjects if not s.is_baseline}):
        raise typer.Exit(1)


def _show(done: Study, plot: Path | None, save: Path | None, as_json: bool, as_csv: bool) -> None:
    if as_json:
        print_json(study_json(done))
    elif as_csv:
        sys.stdout.write(study_csv(done))
    else:
        print_study(done)
    if plot is not None:
        write_plot(done, plot)
        console(stderr=True).print(f"wrote {plot}", markup=False)
    if save is not None:
        try:
            replace_file(save, dumps(study_json(done), indent=1, allow_nan=False) + "\n")
        except OSError as error:
            raise UsageError(f"cannot write {save}: {error.strerror}") from None
        console(stderr=True).print(f"wrote {save}", markup=False)


def _subjects(first: Sequence[Subject], found: Sequence[tuple[KernelSpec, Config]], against: str, plan: Plan,
              where: SimDevice | CudaDevice, notes: list[str], held: ExitStack) -> list[Subject]:  # fmt: skip
    """``first``, then kernels, then whom they are compared with. Of several kernels, one that cannot take part is
    noted."""
    problem = Problem(plan.m, plan.n, max(plan.depths), plan.dtype)
    subjects = list(first)
    refused: list[UnsupportedError] = []
    for spec, config in found:
        try:
            subjects.append(kernel_subject(spec, config, problem, where))
        except UnsupportedError as error:
            refused.append(error)
            notes.append(f"{spec.name} left out: {error.message}")
    if not subjects:
        raise refused[0]
    rivals = _words(against) or _usual_rivals(plan.dtype, where)
    stream = 0
    if isinstance(where, CudaDevice) and any(name in BASELINES for name in rivals):
        watch = CudaStopwatch(where)
        held.callback(watch.close)
        stream = watch.stream
    for name in rivals:
        if name == "none" or name in {subject.name for subject in subjects}:
            continue
        if name not in BASELINES:
            subjects.append(kernel_subject(*find_kernel(name), problem, where, is_baseline=True))
        elif isinstance(where, CudaDevice):
            subjects.append(baseline_subject(name, problem, where, stream))
        else:
            raise UsageError(f"{name} needs a GPU", "on the simulator, --against names a rung, such as warp_tile")
    return subjects


def _usual_rivals(dtype: DType, where: SimDevice | CudaDevice) -> tuple[str, ...]:
    if where.kind == "sim":
        return (_REFERENCE_RUNG,)
    if dtype in (FP32, TF32):
        return ("cublas", "cublas-tf32")
    return ("cublas",) if dtype.name in ("fp16", "bf16") else (_REFERENCE_RUNG,)


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _depths(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(word) for word in _words(text)}))
    except ValueError:
        raise UsageError(f"--k {text} is not a list of integers", "write --k 16,64,256") from None


def _command(kernels: list[str], define: list[str] | None, given: dict[str, str], deterministic: bool) -> str:
    words = ["gemmsmith", "accuracy", *kernels, *(f"-D{text}" for text in define or [])]
    words += ["--fastest"] * (not deterministic)
    return shlex.join([*words, *(w for name, value in given.items() if value for w in (f"--{name}", value))])
