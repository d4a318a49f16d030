"""gemmsmith bench: verified times against baselines, on a GPU."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from gemmsmith.bench.bench import bench
from gemmsmith.bench.kernel_contender import KernelContender
from gemmsmith.bench.rig import TimingPolicy, cuda_rig
from gemmsmith.bench.rounds import SAMPLE_SECONDS
from gemmsmith.choose.precision import check_promise
from gemmsmith.cli.options import (
    Block,
    CacheDir,
    Compiler,
    ConfigText,
    Defines,
    Entry,
    Grid,
    Json,
    PresetName,
    Seed,
    SignatureText,
    Smem,
    find_kernel,
)
from gemmsmith.cli.precision_options import (
    AUTO,
    ChosenContender,
    Deterministic,
    PrecisionName,
    check_nothing_set,
    input_type,
)
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
from gemmsmith.shapes import parse_shapes
from gemmsmith.store.database import Results
from gemmsmith.store.database_file import chosen_path
from gemmsmith.store.results import Measurement
from gemmsmith.store.run_file import run_to_json
from gemmsmith.userfile.user_kernel import UserOptions

_LAYOUTS = ("NN", "NT", "TN", "TT")


def command(
    kernels: Annotated[
        list[str],
        typer.Argument(metavar="RUNG|FILE.cu|BASELINE|auto…", help="Whom to time; auto: what matmul chooses."),
    ],
    shapes: Annotated[str, typer.Option("--shapes", help="A suite's name or MxNxK,…")] = "1024,2048,4096",
    dtype: Annotated[str, typer.Option("--dtype", help="Input type: fp32, tf32, fp16, bf16 or int8.")] = "",
    out_dtype: Annotated[str, typer.Option("--out-dtype", help="Output type: fp32, or that of the inputs.")] = "fp32",
    layout: Annotated[str, typer.Option("--layout", help="NN, NT, TN or TT: T is stored transposed.")] = "NN",
    against: Annotated[str, typer.Option("--against", help="Baselines, comma-separated, or none.")] = "cublas",
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    entry: Entry = "",
    grid: Grid = "",
    block: Block = "",
    smem: Smem = "",
    signature: SignatureText = "",
    precision: PrecisionName = "",
    deterministic: Deterministic = True,
    within: Annotated[float, typer.Option("--within", help="Half the median's interval, relative.")] = 0.005,
    budget: Annotated[float, typer.Option("--budget", help="Seconds a shape, at most, to reach it.")] = 5.0,
    quick: Annotated[bool, typer.Option("--quick", help="Only graphs with cold caches.")] = False,
    sample: Annotated[
        float, typer.Option("--sample-ms", help="What a sample lasts, at least; 100 and more lets clocks settle.")
    ] = SAMPLE_SECONDS * 1e3,
    seed: Seed = 0,
    no_db: Annotated[bool, typer.Option("--no-db", help="Do not record the results.")] = False,
    db: Annotated[Path | None, typer.Option("--db", help="The results database.", envvar="GEMMSMITH_DB")] = None,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Time kernels against baselines on this machine's GPU; exits 1 where a result is wrong or impossible."""
    plan = TimingPolicy(within, budget, quick, seed, sample / 1e3)
    rivals = [baseline_named(name) for name in _words(against) if name != "none"]
    options = UserOptions(entry, grid, block, smem, signature)
    found = _found(kernels, config, preset, define, options)
    problems = _problems(shapes, dtype, out_dtype, layout, precision, found)
    for named in found:
        if named.kernel is not None:
            check_promise(named.kernel[0], problems[0].dtype, precision)
    _check_taken(found, problems)
    if not no_db:
        chosen_path(db)
    device = _gpu()
    contenders = [named.contender(device, Compiler(cache_dir), precision, deterministic) for named in found]
    given = {"shapes": shapes, "dtype": dtype, "out-dtype": out_dtype, "layout": layout, "against": against,
             "config": config, "preset": preset, "entry": entry, "grid": grid, "block": block, "smem": smem,
             "signature": signature, "precision": precision, "within": f"{within:g}", "budget": f"{budget:g}",
             "sample-ms": "" if sample == SAMPLE_SECONDS * 1e3 else f"{sample:g}", "seed": str(seed)}  # fmt: skip
    words = [*kernels, *(w for name, value in given.items() if value for w in (f"--{name}", value))]
    words += [f"-D{text}" for text in define or []] + ["--quick"] * quick + ["--fastest"] * (not deterministic)
    run = new_run(shlex.join(["gemmsmith", "bench", *words]), device)
    notes: list[str] = []
    found_so_far: list[Measurement] = []
    with ExitStack() as stack:
        results = None if no_db else stack.enter_context(Results.open(db))
        if results is not None:
            results.begin(run)
        bar = stack.enter_context(progress())
        task = bar.add_task("starting", total=len(problems) * (len(contenders) + len(rivals)))
        rig = stack.enter_context(cuda_rig(device, lambda text: bar.update(task, description=text), notes.append))
        for measurement in bench(contenders, rivals, problems, rig, plan):
            if results is not None:
                results.add(run.id, measurement)
            found_so_far.append(measurement)
            bar.advance(task)
    if not found_so_far:
        raise UnsupportedError("nothing was measured: nobody could take part", "\n  ".join(dict.fromkeys(notes)))
    run = replace(run, measurements=tuple(found_so_far))
    if json:
        print_json(run_to_json(run) | {"notes": notes})
    else:
        print_run(run, notes, plan, recorded=not no_db)
    if any(m.rejected for m in run.measurements):
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Named:
    """Whom a word on the command line means: a kernel, a baseline, or with neither what is chosen."""

    kernel: tuple[KernelSpec, Config] | None = None
    baseline: Contender | None = None

    def contender(self, device: CudaDevice, compiler: Compiler, precision: str, deterministic: bool) -> Contender:
        def of_kernel(spec: KernelSpec, config: Config) -> Contender:
            return KernelContender(spec, config, device, compiler)

        if self.kernel is not None:
            return of_kernel(*self.kernel)
        return self.baseline or ChosenContender(device, of_kernel, precision, deterministic)


def _found(
    kernels: list[str], config: str, preset: str, define: list[str] | None, options: UserOptions
) -> list[_Named]:
    """Everybody who was named. Where files and rungs meet, -D and the launch are the files', --config the rungs'."""
    files = [name for name in kernels if name.endswith((".cu", ".cuh")) or "/" in name]
    mixed = any(name not in (*files, *BASELINES, AUTO) for name in kernels) and bool(files)
    if all(name == AUTO or name in BASELINES for name in kernels):
        check_nothing_set(config, preset, define, options)
    result = []
    for name in kernels:
        if name == AUTO:
            result.append(_Named())
        elif name in BASELINES:
            result.append(_Named(None, baseline_named(name)))
        elif not mixed:
            result.append(_Named(find_kernel(name, config, preset, define, options)))
        elif name in files:
            result.append(_Named(find_kernel(name, defines=define, user=options)))
        else:
            result.append(_Named(find_kernel(name, config, preset)))
    return result


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _problems(shapes: str, dtype: str, out_dtype: str, layout: str, precision: str,
              found: list[_Named]) -> list[Problem]:  # fmt: skip
    """Every shape in the type asked for, else in the first kernel's own."""
    if layout.upper() not in _LAYOUTS:
        raise UsageError(f"unknown layout {layout!r}", f"use one of {', '.join(_LAYOUTS)}")
    own = next((named.kernel[0].dtypes[0] for named in found if named.kernel is not None), FP32)
    kind = input_type(dtype, precision, own)
    trans_a, trans_b = (letter == "T" for letter in layout.upper())
    out = dtype_named(out_dtype)
    problems = [Problem(m, n, k, kind, out, trans_a=trans_a, trans_b=trans_b) for m, n, k in parse_shapes(shapes)]
    for problem in problems:
        if 0 in (problem.m, problem.n, problem.k):
            raise UsageError(f"{problem} has nothing to multiply, so there is nothing to time")
    return problems


def _check_taken(found: list[_Named], problems: list[Problem]) -> None:
    """Refuse what no kernel that was named can do; one of several that cannot is skipped, and it is said."""
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
