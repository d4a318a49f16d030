"""What ``tune`` tunes and how, as its command line says it: what the command and its tasks plan alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from gemmsmith.bench.kernel_contender import KernelContender, source_digest
from gemmsmith.bench.rig import Rig
from gemmsmith.choose.candidates import Candidate, ranked, varied
from gemmsmith.choose.choice import choose
from gemmsmith.choose.fp32_candidates import fp32_candidates
from gemmsmith.choose.key import alignment
from gemmsmith.choose.models import hopper_model
from gemmsmith.choose.narrow import fastest
from gemmsmith.choose.neighbours import neighbours
from gemmsmith.choose.precision import DEFAULT, precision_named
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.names import shapes_from
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.problem import BF16, FP16, FP32, Problem, dtype_named
from gemmsmith.run.baselines import baseline_named
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.tune.plan import Workshop

_LAYOUTS = ("NN", "NT", "TN", "TT")
_PRECISIONS = ("fp32", "fp32-fast", "ieee")
_STREAMING = 6  # candidates of the model for few rows
_FURTHEST = 1.6  # times the fastest prediction; set by hand: three deviations of a model that errs by 15 %


@dataclass(frozen=True)
class TuneOptions(OptionGroup):
    """What is tuned."""

    panel: ClassVar[str] = "Problem"

    shapes: Annotated[str, typer.Option("--shapes", help="Shapes: MxNxK,… or the name of a suite.")] = ""
    dtype: Annotated[str, typer.Option("--dtype", help="Input type: bf16 or fp16 (one tunes both), or fp32.")] = "bf16"
    layout: Annotated[str, typer.Option("--layout", help="NN, NT, TN or TT, comma-separated.")] = "NN"
    out_dtype: Annotated[
        str, typer.Option("--out-dtype", help="Output types: fp32, the input type, or both, comma-separated.")
    ] = "fp32"
    precision: Annotated[
        str, typer.Option("--precision", help="Of fp32 products: fp32, fp32-fast or ieee, as calls ask for it.")
    ] = DEFAULT


def workshop_on(device: CudaDevice, rig: Rig, pool: CompilePool, compiler: Compiler, deterministic: bool,
                precision: str = DEFAULT) -> Workshop:  # fmt: skip
    model = hopper_model(device.name, device.sms, device.arch)
    if model is None:
        raise UnsupportedError(
            f"{device.name} is {device.arch}; there is a choice of kernels to tune on sm_90 only",
            "gemmsmith sweep varies the parameters of one kernel on any GPU",
        )

    def candidates(problem: Problem) -> Sequence[Candidate]:
        if problem.dtype == FP32:
            return fp32_candidates(problem, precision, device.sms)
        few = fastest(problem, model[0], alignment(problem), _STREAMING)
        found = varied(ranked(problem, *model, within=_FURTHEST, deterministic=deterministic))
        known = {each.name for each in few}
        return [*few, *(each for each in found if each.name not in known)]

    def near(problem: Problem, candidate: Candidate) -> Sequence[Candidate]:
        if problem.dtype == FP32:  # all configurations of these kernels are candidates
            return ()
        return neighbours(candidate, problem, *model, deterministic=deterministic)

    def used_now(problem: Problem) -> Candidate:
        found = choose(problem, device.name, sms=device.sms, arch=device.arch, precision=precision,
                       deterministic=deterministic)  # fmt: skip
        return Candidate(found.spec, found.config, 0.0)

    return Workshop(
        gpu=device.name,
        rig=rig,
        candidates=candidates,
        neighbours=near,
        digest=lambda candidate, problem: source_digest(candidate.spec, candidate.config, problem, device.arch),
        begin_compiling=pool.begin,
        compile_all=pool,
        contender=lambda candidate: KernelContender(candidate.spec, candidate.config, device, compiler),
        baseline=lambda: baseline_named("cublas"),
        is_compiled=pool.is_compiled,
        used_now=used_now,
    )


def tuned_problems(asked: TuneOptions) -> list[Problem]:
    kind = dtype_named(asked.dtype)
    if kind not in (FP16, BF16, FP32):
        raise UsageError(f"{kind} has one kernel and nothing to choose", "tune takes --dtype bf16, fp16 or fp32")
    if precision_named(asked.precision) not in (_PRECISIONS if kind == FP32 else (DEFAULT,)):
        raise UsageError(
            f"precision {asked.precision!r} is not tuned for {kind} operands",
            f"--dtype fp32 takes --precision {', '.join(_PRECISIONS)}; leave it out otherwise",
        )
    layouts = [word.strip().upper() for word in asked.layout.split(",")]
    for word in layouts:
        if word not in _LAYOUTS:
            raise UsageError(f"unknown layout {word!r}", f"use one of {', '.join(_LAYOUTS)}")
    outputs = [dtype_named(word.strip()) for word in asked.out_dtype.split(",")]
    problems = [
        Problem(m, n, k, kind, out, trans_a=word[0] == "T", trans_b=word[1] == "T")
        for out in outputs for word in layouts for m, n, k in shapes_from(asked.shapes)
    ]  # fmt: skip
    for problem in problems:
        if not problem.flops:
            raise UsageError(f"{problem} has nothing to multiply, so there is nothing to tune")
    return list(dict.fromkeys(problems))
