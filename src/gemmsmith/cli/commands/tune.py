"""gemmsmith tune: the fastest kernel and configuration for your shapes on your GPU; later calls use it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith.bench.rig import cuda_rig
from gemmsmith.choose.choice import forget
from gemmsmith.choose.export import table_of
from gemmsmith.choose.key import shape_key
from gemmsmith.choose.table import table_text, write_whole
from gemmsmith.choose.tuning_file import ENVIRONMENT, TuningFile, chosen_path
from gemmsmith.cli.job import CommandJob, cores, gpu_wanted, nodes_note, raise_failures, run_of
from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.cli.options.groups import OptionGroup, option_words
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import Seed
from gemmsmith.cli.recording import new_run
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.cli.render.tune_tables import finite, print_tuning, tuning_json
from gemmsmith.cli.tasks.tune_tasks import TunedShape
from gemmsmith.cli.tune_plan import TuneOptions, tuned_problems, workshop_on
from gemmsmith.cluster.codec import decode, encode
from gemmsmith.cluster.task import LIMIT_S, Task, TaskResult
from gemmsmith.errors import MissingDeviceError, UsageError
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.store.results import Run
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.tune.plan import Tuned, TuningPlan
from gemmsmith.tune.tuning import tune


@dataclass(frozen=True)
class SearchOptions(OptionGroup):
    """How long the search is."""

    panel: ClassVar[str] = "Search"

    budget: Annotated[
        float, typer.Option("--budget", help="Seconds in all. The same command continues with the rest.")
    ] = math.inf
    per_shape: Annotated[int, typer.Option("--per-shape", help="Candidates per shape, at most.")] = TuningPlan.per_shape
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
    on: OnOptions,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Find the fastest kernel and configuration for your shapes on this GPU.

    The likeliest candidates are timed for each shape until no other can gain 1 %, and later calls use the fastest.
    Continues where it was stopped.
    Exits 1 where no candidate for a shape is correct.
    """
    file = TuningFile(chosen_path(kept.tuning), any_order=search.fastest)
    if not asked.shapes:
        if kept.export is None:
            raise UsageError("no shape given", "write --shapes MxNxK,… or a suite, or --export FILE")
        _export(file, kept.export, kept.gpu, output.json)
        return
    plan = TuningPlan(search.per_shape, search.budget, search.fresh, seed, asked.precision)
    problems = tuned_problems(asked)
    words = option_words(asked, always=("dtype", "layout", "out_dtype"))
    words += ["--per-shape", str(search.per_shape), "--seed", str(seed), *["--fresh"] * search.fresh,
              *["--fastest"] * search.fastest]  # fmt: skip
    line = shlex.join(["gemmsmith", "tune", *words])
    if on.asked:
        gpu, found, notes = _on_workers(problems, asked, plan, file, line, search.fastest, on, cache, output)
    else:
        gpu, found, notes = _here(problems, plan, file, line, search.fastest, cache)
    forget()
    if output.json:
        print_json(tuning_json(gpu, file.path, found, notes))
    else:
        print_tuning(gpu, file.path, found, notes, "deterministic=False" if search.fastest else "")
    if kept.export is not None and any(tuned.best for tuned in found):
        write_whole(kept.export, table_text(table_of(file, gpu)))
    if any(tuned.state == "nothing" for tuned in found):
        raise typer.Exit(1)


def _here(
    problems: Sequence[Problem], plan: TuningPlan, file: TuningFile, line: str, fastest: bool, cache: CacheOptions
) -> tuple[str, list[Tuned], list[str]]:
    """All shapes on this machine's GPU; notes."""
    device = _gpu()
    _begin(file, device.name, new_run(line, device))
    notes: list[str] = []
    found: list[Tuned] = []
    with ExitStack() as stack:
        bar = stack.enter_context(progress())
        task = bar.add_task("starting", total=len(problems))
        rig = stack.enter_context(cuda_rig(device, lambda text: bar.update(task, description=text), notes.append))
        pool = stack.enter_context(CompilePool(device.arch, cache.cache_dir))
        shop = workshop_on(device, rig, pool, cache.compiler, not fastest, plan.precision)
        for tuned in tune(problems, shop, file, plan):
            found.append(tuned)
            bar.advance(task)
    return device.name, found, notes


def _on_workers(
    problems: Sequence[Problem], asked: TuneOptions, plan: TuningPlan, file: TuningFile, line: str, fastest: bool,
    on: OnOptions, cache: CacheOptions, output: OutputOptions,
) -> tuple[str, list[Tuned], list[str]]:  # fmt: skip
    """One task for each shape, which gets an equal part of the budget. What they found is stored as it arrives."""
    each = replace(plan, budget=plan.budget / len(problems))
    tasks = [
        Task("tune", {"asked": encode(asked), "plan": encode(each), "fastest": fastest, "problem": at},
             f"{problem}", gpu=gpu_wanted(on), limit=on.limit(LIMIT_S),
             context={"known": file.lines_of(shape_key(problem, plan.precision))})
        for at, problem in enumerate(problems)
    ]  # fmt: skip

    def store(result: TaskResult) -> None:
        if result.ok:
            file.add_lines(decode(TunedShape, result.value).lines)

    ran = CommandJob(line, tasks, on, cores(), cache_dir=cache.cache_dir, json=output.json, on_result=store).results()
    for result in ran:  # also of a command that was stopped between recording a result and storing its lines
        store(result)
    raise_failures(tasks, ran)
    found = [decode(TunedShape, result.value) for result in ran]
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    for machine in {r.node.name: run_of(r, "", begun, line) for r in ran if r.node is not None}.values():
        _begin(file, found[0].gpu, machine)
    notes = [note for shape in found for note in shape.notes]
    return found[0].gpu, [shape.tuned for shape in found], [*dict.fromkeys(notes), nodes_note(ran)]


def _begin(file: TuningFile, gpu: str, run: Run) -> None:
    versions = dict(run.machine.packages) | {"driver": run.machine.driver, "compiler": run.machine.compiler}
    file.add_run(gpu, run.command, run.started, versions)


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
