"""gemmsmith accuracy: how large a kernel's rounding errors are, by kind of data and K, beside others'."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from json import dumps
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith import __version__
from gemmsmith.bench.arithmetic import arithmetic
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.choose.precision import check_promise
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.estimate import check_memory
from gemmsmith.cli.kernels import Found
from gemmsmith.cli.options.device import DEFAULT_ARCH, DeviceOptions
from gemmsmith.cli.options.groups import OptionGroup, option_words
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.output import TableOptions
from gemmsmith.cli.options.plot import PlotOptions
from gemmsmith.cli.precision_options import AUTO, PrecisionOptions, check_auto_alone, input_type
from gemmsmith.cli.product_kernel import product_kernel
from gemmsmith.cli.render.accuracy_plot import write_plot
from gemmsmith.cli.render.accuracy_tables import Study, print_study, study_csv, study_json
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.errors import MissingDeviceError, UnsupportedError, UsageError
from gemmsmith.problem import FP32, TF32, DType, Problem
from gemmsmith.report.files import replace_file
from gemmsmith.run.baselines import BASELINES
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.oracles.accuracy_study import DISTRIBUTIONS, Plan, Point, Subject, distributions_for, study
from gemmsmith.verify.oracles.accuracy_subjects import auto_subject, baseline_subject, kernel_subject

# A few seconds per kernel on the simulator; on a GPU, float64 on the host takes the time.
_SIMULATED_DEPTHS, _SIMULATED_SIZE = (8, 32, 128), 64
_MEASURED_DEPTHS, _MEASURED_SIZE = (16, 64, 256, 1024, 4096, 16384), 256
# All rungs on CUDA cores give the same bits; this one stands for "fp32 on CUDA cores".
_REFERENCE_RUNG = "warp_tile"


@dataclass(frozen=True)
class StudyOptions(OptionGroup):
    """Shapes, data and baselines."""

    panel: ClassVar[str] = "Problem"

    dtype: Annotated[str, typer.Option("--dtype", help="Input type: fp32, tf32, fp16, bf16 or int8.")] = ""
    distributions: Annotated[
        str, typer.Option("--distributions", help=f"Kinds of data, comma-separated: {', '.join(DISTRIBUTIONS)}.")
    ] = ""
    k: Annotated[str, typer.Option("--k", help="Values of K, comma-separated.")] = ""
    m: Annotated[int, typer.Option("--m", show_default="64 on the simulator, 256 on a GPU", help="Rows of C.")] = 0
    n: Annotated[int, typer.Option("--n", show_default="as many as rows", help="Columns of C.")] = 0
    against: Annotated[
        str,
        typer.Option(
            "--against", help=f"Kernels to compare with, or none: rungs, and on a GPU {', '.join(BASELINES)}."
        ),
    ] = ""
    seeds: Annotated[int, typer.Option("--seeds", help="Random operands per kind of data and K.")] = 1
    time_limit: Annotated[
        float, typer.Option("--time-limit", metavar="SECONDS", help="Start no product after this time; 0: no limit.")
    ] = 0.0

    def plan(self, dtype: DType, on_gpu: bool) -> Plan:
        rows = self.m or self.n or (_MEASURED_SIZE if on_gpu else _SIMULATED_SIZE)
        return Plan(
            m=self.m or rows, n=self.n or rows,
            depths=_depths(self.k) or (_MEASURED_DEPTHS if on_gpu else _SIMULATED_DEPTHS),
            distributions=_words(self.distributions) or distributions_for(dtype), dtype=dtype, seeds=self.seeds,
            seconds=self.time_limit if self.time_limit != 0 else math.inf,
        )  # fmt: skip


def command(
    kernels: Annotated[
        list[str],
        typer.Argument(metavar="RUNG|FILE.cu|auto…", help="Kernels to measure; auto is the kernel matmul chooses."),
    ],
    asked: StudyOptions,
    options: KernelOptions,
    precision: PrecisionOptions,
    device: DeviceOptions,
    files: PlotOptions,
    output: TableOptions,
) -> None:
    """Measure a kernel's rounding errors over kinds of data and K.

    Products are compared with float64. Exits 1 where an error is beyond its limit.

    ‖E‖/‖C‖: the error in the Frobenius norm, relative to the product.
    largest, mean: of the components of |E|/(|A||B|); u is the roundoff.
    relative: the largest |E|/|C| of components that are not tiny.
    """
    if set(kernels) == {AUTO}:
        check_auto_alone(options)
    names = [name for name in dict.fromkeys(kernels) if name != AUTO]
    found = [product_kernel(name, options, Compiler(), DEFAULT_ARCH) for name in names]
    where = device.open()
    on_gpu = where.kind == "gpu"
    kind = input_type(asked.dtype, precision.precision, found[0][0].dtypes[0] if found else FP32)
    for spec, _ in found:
        check_promise(spec, kind, precision.precision)
    plan = asked.plan(kind, on_gpu)
    deepest = plan.problem(max(plan.depths))
    check_memory(deepest)
    notes: list[str] = []
    with ExitStack() as stack:
        first = []
        if AUTO in kernels:
            choice = precision.choose(deepest, where)
            first = [auto_subject(deepest, choice, where, precision.precision, precision.deterministic)]
            notes.append(f"auto is {choice.spec.name} for {deepest}")
        subjects = _subjects(first, found, asked.against, plan, where, device, notes, stack)
        points = _measured(subjects, plan, stack)
    if not points:
        raise UsageError(f"the time limit of {asked.time_limit:g} s ended before the first point", "allow more time")
    words = ["gemmsmith", "accuracy", *kernels, *option_words(asked, options, precision, device, always=("device",))]
    done = Study(
        subjects=tuple(subjects), plan=plan, points=tuple(points), origin="measured" if on_gpu else "simulated",
        device=where.name, command=shlex.join(words), version=__version__, date=datetime.now(UTC).date().isoformat(),
    )  # fmt: skip
    if done.missing:
        total = done.missing + len(points)
        notes.append(f"the time limit of {asked.time_limit:g} s left out {done.missing} of {total} points")
    _show(replace(done, notes=tuple(notes)), files, output)
    if any(point.wrong for point in points if point.subject in {s.name for s in subjects if not s.is_baseline}):
        raise typer.Exit(1)


def _measured(subjects: Sequence[Subject], plan: Plan, stack: ExitStack) -> list[Point]:
    bar = stack.enter_context(progress())
    products = len(plan.distributions) * len(plan.depths) * plan.seeds * len(subjects)
    task = bar.add_task("multiplying", total=products)
    finished = count()

    def step(words: str) -> None:
        bar.update(task, description=words, completed=next(finished))

    return list(study(subjects, plan, step))


def _show(done: Study, files: PlotOptions, output: TableOptions) -> None:
    if output.json:
        print_json(study_json(done))
    elif output.csv:
        sys.stdout.write(study_csv(done))
    else:
        print_study(done)
    if files.plot is not None:
        write_plot(done, files.plot)
        say(f"wrote {files.plot}", stderr=True)
    if files.save is not None:
        _save(files.save, done)
        say(f"wrote {files.save}", stderr=True)


def _save(path: Path, done: Study) -> None:
    try:
        replace_file(path, dumps(study_json(done), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _subjects(
    first: Sequence[Subject], found: Sequence[Found], against: str, plan: Plan, where: SimDevice | CudaDevice,
    device: DeviceOptions, notes: list[str], stack: ExitStack,
) -> list[Subject]:  # fmt: skip
    """``first``, the kernels, and the baselines. If one of several kernels cannot take part, that is noted."""
    problem = Problem(plan.m, plan.n, max(plan.depths), plan.dtype)
    subjects = list(first)
    refused: list[UnsupportedError] = []
    for spec, config in found:
        try:
            subjects.append(kernel_subject(spec, config, problem, where, arithmetic))
        except UnsupportedError as error:
            refused.append(error)
            notes.append(f"{spec.name} left out: {error.message}")
    if not subjects:
        for spec, _ in found:
            device.check_runs(spec, problem)
        raise refused[0]
    rivals = _words(against) or _usual_rivals(plan.dtype, where)
    stream = 0
    if isinstance(where, CudaDevice) and any(name in BASELINES for name in rivals):
        watch = CudaStopwatch(where)
        stack.callback(watch.close)
        stream = watch.stream
    for name in rivals:
        if name == "none" or name in {subject.name for subject in subjects}:
            continue
        if name not in BASELINES:
            subjects.append(kernel_subject(*find_kernel(name), problem, where, arithmetic, is_baseline=True))
        elif isinstance(where, CudaDevice):
            subjects.append(baseline_subject(name, problem, where, stream))
        else:
            raise (UsageError if device.device == "sim" else MissingDeviceError)(
                f"{name} needs a GPU", "on the simulator, --against names a rung, such as warp_tile"
            )
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
