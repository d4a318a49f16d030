"""gemmsmith bench: verified times against baselines, on a GPU."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import typer

from gemmsmith.bench.bench import bench
from gemmsmith.bench.kernel_contender import KernelContender
from gemmsmith.bench.rig import TimingPolicy, cuda_rig
from gemmsmith.bench.rounds import SAMPLE_SECONDS
from gemmsmith.choose.precision import check_promise
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.kernels import Found, is_file
from gemmsmith.cli.names import shapes_from
from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.cli.options.groups import OptionGroup, option_words
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import Seed
from gemmsmith.cli.options.record import RecordOptions
from gemmsmith.cli.options.timing import TimingOptions
from gemmsmith.cli.precision_options import AUTO, ChosenContender, PrecisionOptions, check_auto_alone, input_type
from gemmsmith.cli.recording import new_run
from gemmsmith.cli.render.bench_tables import print_run
from gemmsmith.cli.render.output import print_json, progress
from gemmsmith.errors import MissingDeviceError, UnsupportedError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import FP32, Problem, dtype_named
from gemmsmith.run.baselines import BASELINES, baseline_named
from gemmsmith.run.contender import Contender
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.store.database import Results
from gemmsmith.store.results import Measurement
from gemmsmith.store.run_file import run_to_json

_LAYOUTS = ("NN", "NT", "TN", "TT")
_SAMPLE_MS = SAMPLE_SECONDS * 1e3


@dataclass(frozen=True)
class BenchOptions(OptionGroup):
    """What is timed."""

    panel: ClassVar[str] = "Problem"

    shapes: Annotated[str, typer.Option("--shapes", help="Shapes: MxNxK,… or the name of a suite.")] = "1024,2048,4096"
    dtype: Annotated[
        str, typer.Option("--dtype", help="Input type: fp32, tf32, fp16, bf16 or int8. Default: the first kernel's.")
    ] = ""
    out_dtype: Annotated[str, typer.Option("--out-dtype", help="Output type: fp32, or the input type.")] = "fp32"
    against: Annotated[
        str, typer.Option("--against", help=f"Baselines, comma-separated, or none: {', '.join(BASELINES)}.")
    ] = "cublas"

    @property
    def baselines(self) -> list[str]:
        words = (word.strip() for word in self.against.split(","))
        return [word for word in words if word and word != "none"]


def command(
    kernels: Annotated[
        list[str],
        typer.Argument(metavar="RUNG|FILE.cu|BASELINE|auto…", help="What to time; auto is the kernel matmul chooses."),
    ],
    asked: BenchOptions,
    options: KernelOptions,
    precision: PrecisionOptions,
    timing: TimingOptions,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only CUDA graphs with cold caches.", rich_help_panel="Timing")
    ] = False,
    sample_ms: Annotated[
        float,
        typer.Option(
            "--sample-ms", help="Least duration of a sample; 100 and more lets clocks settle.", rich_help_panel="Timing"
        ),
    ] = _SAMPLE_MS,
    seed: Seed = 0,
    *,
    record: RecordOptions,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Time kernels against baselines on this machine's GPU.

    Exits 1 where a result is wrong or a time is impossible.
    """
    plan = TimingPolicy(timing.within, timing.budget, quick, seed, sample_ms / 1e3)
    rivals = [baseline_named(name) for name in asked.baselines]
    found = _found(kernels, options)
    problems = _problems(asked, options.layout, precision.precision, found)
    for named in found:
        if named.kernel is not None:
            check_promise(named.kernel[0], problems[0].dtype, precision.precision)
    _check_taken(found, problems)
    record.check()
    device = _gpu()
    contenders = [named.contender(device, cache.compiler, precision) for named in found]
    words = [*kernels, *option_words(asked, options, precision, timing, always=_RECORDED)]
    words += [] if sample_ms == _SAMPLE_MS else ["--sample-ms", f"{sample_ms:g}"]
    run = new_run(shlex.join(["gemmsmith", "bench", *words, "--seed", str(seed), *["--quick"] * quick]), device)
    notes: list[str] = []
    measured: list[Measurement] = []
    with ExitStack() as stack:
        results = None if record.no_db else stack.enter_context(Results.open(record.db))
        if results is not None:
            results.begin(run)
        bar = stack.enter_context(progress())
        task = bar.add_task("starting", total=len(problems) * (len(contenders) + len(rivals)))
        rig = stack.enter_context(cuda_rig(device, lambda text: bar.update(task, description=text), notes.append))
        for measurement in bench(contenders, rivals, problems, rig, plan):
            if results is not None:
                results.add(run.id, measurement)
            measured.append(measurement)
            bar.advance(task)
    if not measured:
        raise UnsupportedError("nothing was measured: no contender could take part", "\n".join(dict.fromkeys(notes)))
    run = replace(run, measurements=tuple(measured))
    if output.json:
        print_json(run_to_json(run) | {"notes": notes})
    else:
        print_run(run, notes, plan, recorded=not record.no_db)
    if any(m.rejected for m in run.measurements):
        raise typer.Exit(1)


# Recorded even at their defaults, which may change between versions.
_RECORDED = ("shapes", "out_dtype", "layout", "against", "within", "budget")


@dataclass(frozen=True)
class _Named:
    """What a word on the command line means: a kernel, a baseline, or with neither the chosen kernel."""

    kernel: Found | None = None
    baseline: Contender | None = None

    def contender(self, device: CudaDevice, compiler: Compiler, precision: PrecisionOptions) -> Contender:
        def of_kernel(spec: KernelSpec, config: Config) -> Contender:
            return KernelContender(spec, config, device, compiler)

        if self.kernel is not None:
            return of_kernel(*self.kernel)
        return self.baseline or ChosenContender(device, of_kernel, precision)


def _found(kernels: list[str], options: KernelOptions) -> list[_Named]:
    """Every word. With files and rungs together, -D and the launch are for the files, --config is for the rungs."""
    own = [name for name in kernels if name != AUTO and name not in BASELINES]
    files = [name for name in own if is_file(name)]
    mixed = 0 < len(files) < len(own)
    if not own:
        check_auto_alone(options)
    for_files = replace(options, config="", preset="")
    for_rungs = KernelOptions(options.config, options.preset)
    plain = replace(options, layout="")  # of a rung, --layout is the problem's
    result = []
    for name in kernels:
        if name == AUTO:
            result.append(_Named())
        elif name in BASELINES:
            result.append(_Named(None, baseline_named(name)))
        elif not mixed:
            result.append(_Named(find_kernel(name, options if name in files else plain)))
        else:
            result.append(_Named(find_kernel(name, for_files if name in files else for_rungs)))
    return result


def _problems(asked: BenchOptions, layout: str, precision: str, found: list[_Named]) -> list[Problem]:
    """Every shape in the type asked for, else in the first kernel's own; a file decides on the layout."""
    specs = [named.kernel[0] for named in found if named.kernel is not None]
    kind = input_type(asked.dtype, precision, specs[0].dtypes[0] if specs else FP32)
    out = dtype_named(asked.out_dtype)
    shapes = shapes_from(asked.shapes)
    if own := next((spec for spec in specs if not spec.is_rung), None):
        given = {} if asked.out_dtype == BenchOptions().out_dtype else {"out_dtype": out}
        problems = [own.problem(m, n, k, kind, **given) for m, n, k in shapes]
    else:
        if (layout := layout.upper() or _LAYOUTS[0]) not in _LAYOUTS:
            raise UsageError(f"unknown layout {layout!r}", f"use one of {', '.join(_LAYOUTS)}")
        trans_a, trans_b = (letter == "T" for letter in layout)
        problems = [Problem(m, n, k, kind, out, trans_a=trans_a, trans_b=trans_b) for m, n, k in shapes]
    for problem in problems:
        if 0 in (problem.m, problem.n, problem.k):
            raise UsageError(f"{problem} has nothing to multiply, so there is nothing to time")
    return problems


def _check_taken(found: list[_Named], problems: list[Problem]) -> None:
    """Refuse problems that none of the kernels takes; where only some do not, they are skipped with a note."""
    refused: list[UnsupportedError] = []
    for named in found:
        if named.kernel is None:
            return
        for problem in problems:
            try:
                check_accepts(named.kernel[0], problem)
            except UnsupportedError as error:
                refused.append(error)
            else:
                return
    if refused:
        raise refused[0]


def _gpu() -> CudaDevice:
    try:
        return cuda_device()
    except MissingDeviceError as error:
        raise MissingDeviceError(
            f"times need a GPU: {error.message}",
            "without one, gemmsmith profile and sweep --device sim count what a kernel does instead",
        ) from None
