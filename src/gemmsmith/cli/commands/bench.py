"""gemmsmith bench: verified times against baselines, on a GPU."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from gemmsmith.bench.bench import bench
from gemmsmith.bench.rig import TimingPolicy, cuda_rig
from gemmsmith.cli.bench_plan import SAMPLE_MS, BenchOptions, BenchPlan
from gemmsmith.cli.job import CommandJob, cores, gpu_wanted, nodes_json, nodes_note, raise_failures, run_of
from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.cli.options.groups import option_words
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import Seed
from gemmsmith.cli.options.record import RecordOptions
from gemmsmith.cli.options.timing import TimingOptions
from gemmsmith.cli.precision_options import PrecisionOptions
from gemmsmith.cli.recording import new_run
from gemmsmith.cli.render.bench_tables import print_run
from gemmsmith.cli.render.output import print_json, progress
from gemmsmith.cli.tasks.bench_tasks import Timed
from gemmsmith.cli.tasks.files import SentFiles, sent_files
from gemmsmith.cluster.codec import decode, encode
from gemmsmith.cluster.task import LIMIT_S, Task, TaskResult
from gemmsmith.errors import MissingDeviceError, UnsupportedError
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Contender
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.store.database import Results
from gemmsmith.store.results import Measurement, Run
from gemmsmith.store.run_file import run_to_json


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
    ] = SAMPLE_MS,
    seed: Seed = 0,
    *,
    on: OnOptions,
    record: RecordOptions,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Time kernels against baselines on this machine's GPU.

    Exits 1 where a result is wrong or a time is impossible.
    """
    plan = BenchPlan(tuple(kernels), asked, options, precision, timing, quick, sample_ms, seed)
    policy, rivals = plan.policy, plan.rivals()
    found, problems = plan.found()
    record.check()
    words = [*kernels, *option_words(asked, options, precision, timing, always=_RECORDED)]
    words += [] if sample_ms == SAMPLE_MS else ["--sample-ms", f"{sample_ms:g}"]
    line = shlex.join(["gemmsmith", "bench", *words, "--seed", str(seed), *["--quick"] * quick])
    notes: list[str] = []
    ran: list[TaskResult] = []
    if on.asked:
        run, ran = _on_workers(plan, problems, line, on, record, cache, output, notes)
    else:
        device = _gpu()
        contenders = [named.contender(device, cache.compiler, precision) for named in found]
        run = _timed(device, new_run(line, device), contenders, rivals, problems, policy, record, notes)
    if not run.measurements:
        raise UnsupportedError("nothing was measured: no contender could take part", "\n".join(dict.fromkeys(notes)))
    if output.json:
        print_json(run_to_json(run) | {"notes": notes} | ({"tasks": nodes_json(ran)} if ran else {}))
    else:
        print_run(run, notes, policy, recorded=not record.no_db)
    if any(m.rejected for m in run.measurements):
        raise typer.Exit(1)


# Recorded even at their defaults, which may change between versions.
_RECORDED = ("shapes", "out_dtype", "layout", "against", "within", "budget")


def _timed(
    device: CudaDevice, run: Run, contenders: Sequence[Contender], rivals: Sequence[Contender],
    problems: Sequence[Problem], policy: TimingPolicy, record: RecordOptions, notes: list[str],
) -> Run:  # fmt: skip
    """Everything on this machine's GPU; each result is recorded at once."""
    measured: list[Measurement] = []
    with ExitStack() as stack:
        results = None if record.no_db else stack.enter_context(Results.open(record.db))
        if results is not None:
            results.begin(run)
        bar = stack.enter_context(progress())
        task = bar.add_task("starting", total=len(problems) * (len(contenders) + len(rivals)))
        rig = stack.enter_context(cuda_rig(device, lambda text: bar.update(task, description=text), notes.append))
        for measurement in bench(contenders, rivals, problems, rig, policy):
            if results is not None:
                results.add(run.id, measurement)
            measured.append(measurement)
            bar.advance(task)
    return replace(run, measurements=tuple(measured))


def _on_workers(
    plan: BenchPlan, problems: Sequence[Problem], line: str, on: OnOptions, record: RecordOptions, cache: CacheOptions,
    output: OutputOptions, notes: list[str],
) -> tuple[Run, list[TaskResult]]:  # fmt: skip
    """One task for each shape: contenders are compared on one GPU, and GPUs of other kinds are not used."""
    files = sent_files(plan.kernels, plan.options.include) if not on.dry_run else SentFiles()
    tasks = [Task("bench", {"plan": encode(plan), "problem": at}, f"{' '.join(plan.kernels)} {problem}", files.digest,
                  gpu_wanted(on), on.limit(LIMIT_S)) for at, problem in enumerate(problems)]  # fmt: skip
    job = CommandJob(line, tasks, on, cores(), files.trees, record.db, not record.no_db,
                     lambda value: decode(Timed, value).measurements, cache.cache_dir, output.json)  # fmt: skip
    ran = job.results()
    raise_failures(tasks, ran)
    found = [decode(Timed, result.value) for result in ran]
    notes += dict.fromkeys(note for each in found for note in each.notes)
    notes.append(nodes_note(ran))
    run = run_of(ran[0], "", datetime.now(UTC).isoformat(timespec="seconds"), line)
    return replace(run, measurements=tuple(m for each in found for m in each.measurements)), ran


def _gpu() -> CudaDevice:
    try:
        return cuda_device()
    except MissingDeviceError as error:
        raise MissingDeviceError(
            f"times need a GPU: {error.message}",
            "without one, gemmsmith profile and sweep --device sim count what a kernel does instead",
        ) from None
