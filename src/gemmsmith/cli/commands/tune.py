"""gemmsmith tune: the fastest kernel and configuration for your shapes on your GPU; later calls use what it finds."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from gemmsmith.bench.kernel_contender import KernelContender, source_digest
from gemmsmith.bench.rig import Rig, cuda_rig
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.choice import forget
from gemmsmith.choose.export import table_of
from gemmsmith.choose.models import hopper_model
from gemmsmith.choose.neighbours import neighbours
from gemmsmith.choose.table import Entry, table_text, write_whole
from gemmsmith.choose.tuning_file import ENVIRONMENT, TuningFile, chosen_path
from gemmsmith.cli.options import CacheDir, Compiler, Json, Seed
from gemmsmith.cli.recording import new_run
from gemmsmith.cli.render.output import console, print_json, progress, table
from gemmsmith.errors import MissingDeviceError, UnsupportedError, UsageError
from gemmsmith.problem import BF16, FP16, Problem, dtype_named
from gemmsmith.run.baselines import baseline_named
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.shapes import parse_shapes
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.tune.tuning import Tuned, TuningPlan, Workshop, tune

_LAYOUTS = ("NN", "NT", "TN", "TT")
_SHOWN_REASONS = 3


def command(
    shapes: Annotated[str, typer.Option("--shapes", help="A suite's name or MxNxK,…")] = "",
    dtype: Annotated[str, typer.Option("--dtype", help="Input type: bf16 or fp16; one serves both.")] = "bf16",
    layout: Annotated[str, typer.Option("--layout", help="NN, NT, TN or TT, comma-separated.")] = "NN",
    out_dtype: Annotated[
        str, typer.Option("--out-dtype", help="Output type: fp32, that of the inputs, or both.")
    ] = "fp32",
    budget: Annotated[
        float, typer.Option("--budget", help="Seconds in all; what is left is for the next time.")
    ] = math.inf,
    per_shape: Annotated[int, typer.Option("--per-shape", help="Candidates a shape.")] = TuningPlan.per_shape,
    fresh: Annotated[bool, typer.Option("--fresh", help="Time again what is known.")] = False,
    fastest: Annotated[
        bool, typer.Option("--fastest", help="Also kernels whose bits may change; for calls that allow it.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option("--export", help="Write all that is known of a GPU as a table; may stand alone.")
    ] = None,
    gpu: Annotated[
        str, typer.Option("--gpu", help="Whose table, if --export stands alone and several are known.")
    ] = "",
    tuning: Annotated[Path | None, typer.Option("--tuning", help="The tuning file.", envvar=ENVIRONMENT)] = None,
    seed: Seed = 0,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Time the likeliest kernels for each shape on this machine's GPU and keep the fastest.

    Goes on where it was stopped. Exits 1 where no candidate of a shape gives a right result.
    """
    file = TuningFile(chosen_path(tuning), any_order=fastest)
    if not shapes:
        if export is None:
            raise UsageError("no shape given", "write --shapes MxNxK,… or a suite, or --export FILE")
        _export(file, export, gpu, json)
        return
    plan = TuningPlan(per_shape, budget, fresh, seed)
    problems = _problems(shapes, dtype, out_dtype, layout)
    device = _gpu()
    words = ["--shapes", shapes, "--dtype", dtype, "--layout", layout, "--out-dtype", out_dtype]
    words += ["--per-shape", str(per_shape), "--seed", str(seed), *["--fresh"] * fresh, *["--fastest"] * fastest]
    run = new_run(shlex.join(["gemmsmith", "tune", *words]), device)
    versions = dict(run.machine.packages) | {"driver": run.machine.driver, "compiler": run.machine.compiler}
    file.add_run(device.name, run.command, run.started, versions)
    notes: list[str] = []
    found: list[Tuned] = []
    with ExitStack() as stack:
        bar = stack.enter_context(progress())
        task = bar.add_task("starting", total=len(problems))
        rig = stack.enter_context(cuda_rig(device, lambda text: bar.update(task, description=text), notes.append))
        pool = stack.enter_context(CompilePool(device.arch, cache_dir))
        shop = _workshop(device, rig, pool, Compiler(cache_dir), not fastest)
        for tuned in tune(problems, shop, file, plan):
            found.append(tuned)
            bar.advance(task)
    forget()
    _print(device.name, file, found, notes, "deterministic=False" if fastest else "", json)
    if export is not None and any(tuned.best for tuned in found):
        write_whole(export, table_text(table_of(file, device.name)))
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
        return ranked(problem, *model, count=count, deterministic=deterministic)

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


def _problems(shapes: str, dtype: str, out_dtype: str, layout: str) -> list[Problem]:
    kind = dtype_named(dtype)
    if kind not in (FP16, BF16):
        raise UsageError(f"{kind} has one kernel and nothing to choose", "tune takes --dtype bf16 or fp16")
    layouts = [word.strip().upper() for word in layout.split(",")]
    for word in layouts:
        if word not in _LAYOUTS:
            raise UsageError(f"unknown layout {word!r}", f"use one of {', '.join(_LAYOUTS)}")
    outputs = [dtype_named(word.strip()) for word in out_dtype.split(",")]
    problems = [
        Problem(m, n, k, kind, out, trans_a=word[0] == "T", trans_b=word[1] == "T")
        for out in outputs for word in layouts for m, n, k in parse_shapes(shapes)
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
                    "samples": found.model.samples, "error": _finite(found.model.error)})  # fmt: skip
        return
    console().print(
        f"{len(found.entries)} shapes of {found.gpu} written to {export}; the cost model errs by "
        f"{math.expm1(found.model.error):.0%} over {found.model.samples} times"
    )


def _print(gpu: str, file: TuningFile, found: Sequence[Tuned], notes: Sequence[str], users: str, json: bool) -> None:
    left = sum(1 for tuned in found if tuned.state == "unfinished")
    if json:
        print_json({"gpu": gpu, "file": str(file.path), "finished": not left, "notes": list(dict.fromkeys(notes)),
                    "shapes": [_fields(tuned) for tuned in found]})  # fmt: skip
        return
    out = console()
    columns = [("shape", "left"), ("", "left"), ("kernel", "left"), ("configuration", "left"), ("time", "right"),
               ("cuBLAS", "right"), ("speed", "right")]  # fmt: skip
    out.print(table(f"{gpu}, measured", columns, [_row(tuned) for tuned in found]))
    for tuned in found:
        for tried in tuned.unusable[:_SHOWN_REASONS]:
            out.print(f"{tuned.problem}: {tried.kernel} {_text(tried.config)} {tried.state}: {tried.why}", markup=False)
        if len(tuned.unusable) > _SHOWN_REASONS:
            out.print(f"{tuned.problem}: and {len(tuned.unusable) - _SHOWN_REASONS} more", markup=False)
    for note in dict.fromkeys(notes):
        out.print(note, markup=False)
    if left:
        out.print(f"{left} of {len(found)} shapes are not finished: the same command goes on with them")
    out.print(f"Kept in {file.path}; gemm and matmul {users and f'with {users} '}use what is finished", markup=False,
              soft_wrap=True)  # fmt: skip


def _row(tuned: Tuned) -> list[str]:
    if tuned.best is None:
        return [str(tuned.problem), tuned.state, "", f"{tuned.tried} candidates so far", "", "", ""]
    best = tuned.best
    cublas = f"{best.cublas_us:.2f} µs" if best.cublas_us > 0 else "?"
    return [str(tuned.problem), tuned.state, best.kernel, _text(best.config), f"{best.us:.2f} µs", cublas,
            f"{_ratio(best):.1%}" if best.cublas_us > 0 else "?"]  # fmt: skip


def _fields(tuned: Tuned) -> dict[str, Any]:
    best = tuned.best
    return {
        "problem": str(tuned.problem),
        "m": tuned.problem.m,
        "n": tuned.problem.n,
        "k": tuned.problem.k,
        "layout": tuned.problem.layout,
        "dtype": tuned.problem.dtype.name,
        "out_dtype": tuned.problem.out_dtype.name,
        "state": tuned.state,
        "kernel": best.kernel if best else None,
        "config": dict(best.config) if best else None,
        "us": best.us if best else None,
        "cublas_us": _finite(best.cublas_us) if best else None,
        "speed": _finite(_ratio(best)) if best else None,
        "tried": tuned.tried,
        "unusable": [{"kernel": t.kernel, "config": dict(t.config), "state": t.state, "why": t.why}
                     for t in tuned.unusable],
    }  # fmt: skip


def _ratio(best: Entry) -> float:
    return best.cublas_us / best.us


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _text(config: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"{name}={value}" for name, value in config)
