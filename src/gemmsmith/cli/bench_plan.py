"""What ``bench`` times, as its command line says it: what the command and its tasks plan alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import typer

from gemmsmith.bench.kernel_contender import KernelContender
from gemmsmith.bench.rig import TimingPolicy
from gemmsmith.bench.rounds import SAMPLE_SECONDS
from gemmsmith.choose.precision import check_promise
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.kernels import Found, is_file
from gemmsmith.cli.names import shapes_from
from gemmsmith.cli.options.device import DEFAULT_ARCH
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.timing import TimingOptions
from gemmsmith.cli.precision_options import AUTO, ChosenContender, PrecisionOptions, check_auto_alone, input_type
from gemmsmith.cli.product_kernel import product_kernel
from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import FP32, Problem, dtype_named
from gemmsmith.run.baselines import BASELINES, baseline_named
from gemmsmith.run.contender import Contender
from gemmsmith.run.cuda import CudaDevice

_LAYOUTS = ("NN", "NT", "TN", "TT")
SAMPLE_MS = SAMPLE_SECONDS * 1e3


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


@dataclass(frozen=True)
class BenchPlan:
    """Kernels, shapes, baselines and how long each is timed."""

    kernels: tuple[str, ...]
    asked: BenchOptions
    options: KernelOptions
    precision: PrecisionOptions
    timing: TimingOptions
    quick: bool
    sample_ms: float
    seed: int

    @property
    def policy(self) -> TimingPolicy:
        return TimingPolicy(self.timing.within, self.timing.budget, self.quick, self.seed, self.sample_ms / 1e3)

    def found(self) -> tuple[list[Named], list[Problem]]:
        """What is timed on which problems; refuses what cannot be, before a GPU is needed."""
        found = _found(list(self.kernels), self.options)
        problems = _problems(self.asked, self.options.layout, self.precision.precision, found)
        for named in found:
            if named.kernel is not None:
                check_promise(named.kernel[0], problems[0].dtype, self.precision.precision)
        _check_taken(found, problems)
        return found, problems

    def rivals(self) -> list[Contender]:
        return [baseline_named(name) for name in self.asked.baselines]


@dataclass(frozen=True)
class Named:
    """What a word on the command line means: a kernel, a baseline, or with neither the chosen kernel."""

    kernel: Found | None = None
    baseline: Contender | None = None

    def contender(self, device: CudaDevice, compiler: Compiler, precision: PrecisionOptions) -> Contender:
        def of_kernel(spec: KernelSpec, config: Config) -> Contender:
            return KernelContender(spec, config, device, compiler)

        if self.kernel is not None:
            return of_kernel(*self.kernel)
        return self.baseline or ChosenContender(device, of_kernel, precision)


def _found(kernels: list[str], options: KernelOptions) -> list[Named]:
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
            result.append(Named())
        elif name in BASELINES:
            result.append(Named(None, baseline_named(name)))
        elif not mixed:
            result.append(Named(_kernel(name, options if name in files else plain)))
        else:
            result.append(Named(_kernel(name, for_files if name in files else for_rungs)))
    return result


def _kernel(name: str, options: KernelOptions) -> tuple[KernelSpec, Config]:
    return product_kernel(name, options, Compiler(), DEFAULT_ARCH)


def _problems(asked: BenchOptions, layout: str, precision: str, found: list[Named]) -> list[Problem]:
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


def _check_taken(found: list[Named], problems: list[Problem]) -> None:
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
