"""``climb`` as tasks: rungs counted on cores, verified and timed on GPUs of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gemmsmith.bench.rig import TimingPolicy
from gemmsmith.cli.climb_timing import groups_of
from gemmsmith.cli.job import CommandJob, cores, gpu_wanted, nodes_note, raise_failures, run_of
from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.options.record import RecordOptions
from gemmsmith.cli.tasks.bench_tasks import Timed
from gemmsmith.cli.tasks.climb_tasks import count_tasks, verify_tasks
from gemmsmith.cluster.codec import decode, encode
from gemmsmith.cluster.task import LIMIT_S, Task
from gemmsmith.ladder.registry import rung_named
from gemmsmith.report.collect import CollectedRung
from gemmsmith.store.results import Run
from gemmsmith.verify.verdict import Verdict

WORKERS = 4


def count_on(
    names: Sequence[str], size: int, arch: str, simulated: int, command: str, on: OnOptions, cache: CacheOptions,
    record: RecordOptions, notes: list[str],
) -> tuple[CollectedRung, ...]:  # fmt: skip
    """Every rung counted, and verified on the simulator, in tasks."""
    tasks = count_tasks(names, size, arch, simulated, on.limit(LIMIT_S))
    job = CommandJob(f"{command} (count)", tasks, on, cores(WORKERS), db=record.db,
                     recorded=on.named and not record.no_db, cache_dir=cache.cache_dir)  # fmt: skip
    results = job.results()
    raise_failures(tasks, results)
    if on.named:
        notes.append(nodes_note(results))
    return tuple(decode(CollectedRung, result.value) for result in results)


def say_tasks(
    names: Sequence[str], size: int, arch: str, extents: Sequence[int], there: bool, on: OnOptions, json: bool
) -> None:
    """The answer of ``--dry-run``; ends the command."""
    tasks = count_tasks(names, size, arch, 0 if there else 1, LIMIT_S)
    if there:
        tasks += verify_tasks(names, size, gpu_wanted(on), LIMIT_S)
        tasks += [Task("time_rungs", {}, f"{dtype.name} {extent}")
                  for dtype in groups_of([rung_named(name) for name in names]) for extent in extents]  # fmt: skip
    CommandJob("", tasks, on, cores(WORKERS), json=json).results()


def verify_on(
    steps: Sequence[CollectedRung], size: int, command: str, on: OnOptions, cache: CacheOptions, record: RecordOptions
) -> tuple[CollectedRung, ...]:
    """The same rungs, verified on GPUs."""
    tasks = verify_tasks([step.name for step in steps], size, gpu_wanted(on), on.limit(LIMIT_S))
    job = CommandJob(f"{command} (verify)", tasks, on, cores(), db=record.db, recorded=not record.no_db,
                     cache_dir=cache.cache_dir)  # fmt: skip
    results = job.results()
    raise_failures(tasks, results)
    return tuple(replace(step, verdicts=decode(tuple[Verdict, ...], result.value))
                 for step, result in zip(steps, results, strict=True))  # fmt: skip


def time_on(
    steps: Sequence[CollectedRung], extents: Sequence[int], policy: TimingPolicy, command: str, on: OnOptions,
    cache: CacheOptions, record: RecordOptions, blank: Run, notes: list[str],
) -> Run:  # fmt: skip
    """Every correct rung and the baselines of its type, one task for each type and size."""
    groups = groups_of([rung_named(step.name) for step in steps if step.ok])
    tasks = [
        Task("time_rungs", {"names": [spec.name for spec in specs], "extent": extent, "policy": encode(policy)},
             f"{dtype.name} {extent}", gpu=gpu_wanted(on), limit=on.limit(LIMIT_S))
        for dtype, specs in groups.items() for extent in extents
    ]  # fmt: skip
    job = CommandJob(command, tasks, on, cores(), db=record.db, recorded=not record.no_db, cache_dir=cache.cache_dir,
                     measurements=lambda value: decode(Timed, value).measurements)  # fmt: skip
    results = job.results()
    raise_failures(tasks, results)
    found = [decode(Timed, result.value) for result in results]
    notes += dict.fromkeys(note for each in found for note in each.notes)
    notes.append(nodes_note(results))
    run = run_of(results[0], "", blank.started, blank.command)
    return replace(run, measurements=tuple(m for each in found for m in each.measurements))
