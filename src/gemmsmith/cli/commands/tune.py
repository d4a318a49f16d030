"""gemmsmith tune: the fastest kernel and configuration for your shapes on your GPU; later calls use it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith.bench.kernel_contender import KernelContender, source_digest
from gemmsmith.bench.rig import Rig, cuda_rig
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.choice import forget
from gemmsmith.choose.export import table_of
from gemmsmith.choose.key import alignment
from gemmsmith.choose.models import hopper_model
from gemmsmith.choose.narrow import streaming
from gemmsmith.choose.neighbours import neighbours
from gemmsmith.choose.table import table_text, write_whole
from gemmsmith.choose.tuning_file import ENVIRONMENT, TuningFile, chosen_path
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.names import shapes_from
from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.cli.options.groups import OptionGroup, option_words
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import Seed
from gemmsmith.cli.recording import new_run
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.cli.render.tune_tables import finite, print_tuning, tuning_json
from gemmsmith.errors import MissingDeviceError, UnsupportedError, UsageError
from gemmsmith.problem import BF16, FP16, Problem, dtype_named
from gemmsmith.run.baselines import baseline_named
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.tune.tuning import Tuned, TuningPlan, Workshop, tune

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


@dataclass(frozen=True)
class SearchOptions(OptionGroup):
    """How long the search is."""

    panel: ClassVar[str] = "Search"

    budget: Annotated[
        float, typer.Option("--budget", help="Seconds in all. The same command continues with the rest.")
    ] = math.inf
    per_shape: Annotated[int, typer.Option("--per-shape", help="Candidates per shape.")] = TuningPlan.per_shape
    fresh: Annotated[bool, typer.Option("--fresh", help="Time known candidates again.")] = False
    fastest: Annotated[
        bool, typer.Option("--fastest", help="Also kernels that are not bit-reproducible, for calls that allow them.")
    ] = False


@dataclass(frozen=True)
class TuningFileOptions(OptionGroup):
    """Where results are kept."""

    panel: ClassVar[str] = "Record"

    tuning: Annotated[Path | None, typer.Option("--tuning", help="The tuning file.", envvar=ENVIRONMENT)] = None
    export: Annotated[
        Path | None, typer.Option("--export", help="Write everything known about a GPU as a table. Needs no --shapes.")
    ] = None
    gpu: Annotated[str, typer.Option("--gpu", help="Whose table --export writes, if several GPUs are known.")] = ""


def command(
    asked: TuneOptions,
    search: SearchOptions,
    kept: TuningFileOptions,
    seed: Seed = 0,
    *,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Find the fastest kernel and configuration for your shapes on this GPU.

    The likeliest candidates are timed for each shape, and later calls use the fastest. Continues where it was stopped.
    Exits 1 where no candidate for a shape is correct.
    """
    file = TuningFile(chosen_path(kept.tuning), any_order=search.fastest)
    if not asked.shapes:
        if kept.export is None:
            raise UsageError("no shape given", "write --shapes MxNxK,… or a suite, or --export FILE")
        _export(file, kept.export, kept.gpu, output.json)
        return
    plan = TuningPlan(search.per_shape, search.budget, search.fresh, seed)
    problems = _problems(asked)
    device = _gpu()
    words = option_words(asked, always=("dtype", "layout", "out_dtype"))
    words += ["--per-shape", str(search.per_shape), "--seed", str(seed), *["--fresh"] * search.fresh,
              *["--fastest"] * search.fastest]  # fmt: skip
    run = new_run(shlex.join(["gemmsmith", "tune", *words]), device)
    versions = dict(run.machine.packages) | {"driver": run.machine.driver, "compiler": run.machine.compiler}
    file.add_run(device.name, run.command, run.started, versions)
    notes: list[str] = []
    found: list[Tuned] = []
    with ExitStack() as stack:
        bar = stack.enter_context(progress())
        task = bar.add_task("starting", total=len(problems))
        rig = stack.enter_context(cuda_rig(device, lambda text: bar.update(task, description=text), notes.append))
        pool = stack.enter_context(CompilePool(device.arch, cache.cache_dir))
        shop = _workshop(device, rig, pool, cache.compiler, not search.fastest)
        for tuned in tune(problems, shop, file, plan):
            found.append(tuned)
            bar.advance(task)
    forget()
    if output.json:
        print_json(tuning_json(device.name, file.path, found, notes))
    else:
        print_tuning(device.name, file.path, found, notes, "deterministic=False" if search.fastest else "")
    if kept.export is not None and any(tuned.best for tuned in found):
        write_whole(kept.export, table_text(table_of(file, device.name)))
    if any(tuned.state == "nothing" for tuned in found):
        raise typer.Exit(1)


def _workshop(device: CudaDevice, rig: Rig, pool: CompilePool, compiler: Compiler, deterministic: bool) -> Workshop:
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


def _problems(asked: TuneOptions) -> list[Problem]:
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


def _gpu() -> CudaDevice:
    try:
        return cuda_device()
    except MissingDeviceError as error:
        raise MissingDeviceError(
            f"tuning needs a GPU: {error.message}",
            "on the simulator there is one kernel for each type, and nothing to tune",
        ) from None


def _export(file: TuningFile, export: Path, gpu: str, json: bool) -> None:
    found = table_of(file, gpu)
    write_whole(export, table_text(found))
    if json:
        print_json({"gpu": found.gpu, "export": str(export), "entries": len(found.entries),
                    "samples": found.model.samples, "error": finite(found.model.error)})  # fmt: skip
        return
    say(
        f"{len(found.entries)} shapes for {found.gpu} written to {export}; the cost model is off by "
        f"{math.expm1(found.model.error):.0%} over {found.model.samples} times"
    )
