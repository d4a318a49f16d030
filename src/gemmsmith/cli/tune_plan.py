"""What ``tune`` tunes and how, as its command line says it: what the command and its tasks plan alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from gemmsmith.bench.kernel_contender import KernelContender, source_digest
from gemmsmith.bench.rig import Rig
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.key import alignment
from gemmsmith.choose.models import hopper_model
from gemmsmith.choose.narrow import streaming
from gemmsmith.choose.neighbours import neighbours
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.names import shapes_from
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.problem import BF16, FP16, Problem, dtype_named
from gemmsmith.run.baselines import baseline_named
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.tune.tuning import Workshop

_LAYOUTS = ("NN", "NT", "TN", "TT")


@dataclass(frozen=True)
class TuneOptions(OptionGroup):
    """What is tuned."""

    panel: ClassVar[str] = "Problem"

    shapes: Annotated[str, typer.Option("--shapes", help="Shapes: MxNxK,… or the name of a suite.")] = ""
    dtype: Annotated[str, typer.Option("--dtype", help="Input type: bf16 or fp16; one tunes both.")] = "bf16"
    layout: Annotated[str, typer.Option("--layout", help="NN, NT, TN or TT, comma-separated.")] = "NN"
    out_dtype: Annotated[
        str, typer.Option("--out-dtype", help="Output types: fp32, the input type, or both, comma-separated.")
    ] = "fp32"


def workshop_on(device: CudaDevice, rig: Rig, pool: CompilePool, compiler: Compiler, deterministic: bool) -> Workshop:
    model = hopper_model(device.name, device.sms, device.arch)
    if model is None:
        raise UnsupportedError(
            f"{device.name} is {device.arch}; there is a choice of kernels to tune on sm_90 only",
            "gemmsmith sweep varies the parameters of one kernel on any GPU",
        )

    def candidates(problem: Problem, count: int) -> Sequence[Candidate]:
        few = streaming(problem, model[0], alignment(problem))
        found = ranked(problem, *model, count=count, deterministic=deterministic)
        return [few, *(each for each in found if each.name != few.name)] if few is not None else found

    def near(problem: Problem, candidate: Candidate) -> Sequence[Candidate]:
        return neighbours(candidate, problem, *model, deterministic=deterministic)

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
    )


def tuned_problems(asked: TuneOptions) -> list[Problem]:
    kind = dtype_named(asked.dtype)
    if kind not in (FP16, BF16):
        raise UsageError(f"{kind} has one kernel and nothing to choose", "tune takes --dtype bf16 or fp16")
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
