"""The journal in the results database: once each, with the measurements, and expected times from it."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.cluster.journal import stored
from gemmsmith.cluster.runner import Runner, UnlikeGpusError, job_of
from gemmsmith.cluster.slot import Ended
from gemmsmith.cluster.sources import SourceTree
from gemmsmith.cluster.task import Node, Task, TaskResult
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Identity
from gemmsmith.store.database import Results
from gemmsmith.store.results import Machine, Measurement, Run
from gemmsmith.store.task_journal import TaskJournal, expected_seconds

TASKS = [Task("verify", {"x": x}, f"kernel {x}", gpu="any") for x in range(4)]
MACHINE = Machine("h", "Linux", "cpu", "3.12", "NVIDIA H200", "sm_90", "580.1", "13.0", "nvrtc")


def result(task: Task, seconds: float = 2.0, gpu: str = "NVIDIA H200") -> TaskResult:
    return TaskResult(
        task.digest, "done", {"x": 1}, node=Node("n1", replace(MACHINE, gpu=gpu), 1700.0), seconds=seconds
    )


def measurement(m: int) -> Measurement:
    return Measurement(Identity("naive", "rung"), Problem(m, 8, 8), "measured", verified=True)


def test_a_task_and_its_measurements_are_recorded_once_and_together(tmp_path: Path) -> None:
    run = Run("r1", "2026-11-16T00:00:00+00:00", "bench", "0", MACHINE)
    rows = [(stored(task, result(task)), run, (measurement(8 + at),)) for at, task in enumerate(TASKS)]
    with TaskJournal.open(tmp_path / "r.db") as journal:
        job, known = journal.begin(job_of(TASKS, "bench", "ray"))
        assert (known, bool(job.id)) == ({}, True)
        journal.add(rows[:2])
        journal.add(rows[1:3])  # a result that arrives twice
    with TaskJournal.open(tmp_path / "r.db") as journal:
        again, known = journal.begin(job_of(TASKS, "bench", "local:2"))
        assert (again.id, list(known)) == (job.id, [task.digest for task in TASKS[:3]])
        assert TaskResult.from_bytes(known[TASKS[0].digest].result) == result(TASKS[0])
        journal.add(rows[3:])
        journal.finish(0)
        journal.finish(0)  # as a second command with the same tasks does
    with Results.open(tmp_path / "r.db") as results:
        assert [m.problem.m for m in results.run("r1").measurements] == [8, 9, 10, 11]
    with TaskJournal.open(tmp_path / "r.db") as journal:
        assert journal.begin(job_of(TASKS, "bench", "ray"))[0].id != job.id
        assert journal.begin(job_of(TASKS, "other", "ray"))[1] == {}


def test_a_damaged_task_is_done_again(tmp_path: Path) -> None:
    with TaskJournal.open(tmp_path / "r.db") as journal:
        journal.begin(job_of(TASKS, "verify", "ray"))
        journal.add([(stored(task, result(task)), None, ()) for task in TASKS])
    with closing(sqlite3.connect(tmp_path / "r.db")) as raw:
        raw.execute("UPDATE task SET seconds = 9 WHERE number = 2")
        raw.commit()
    with TaskJournal.open(tmp_path / "r.db") as journal:
        assert len(journal.begin(job_of(TASKS, "verify", "ray"))[1]) == 3
        journal.add([(stored(TASKS[1], result(TASKS[1])), None, ())])
    with TaskJournal.open(tmp_path / "r.db") as journal:
        assert len(journal.begin(job_of(TASKS, "verify", "ray"))[1]) == 4
        assert journal.begin(job_of(TASKS, "verify", "ray"), fresh=True)[1] == {}


def test_expected_times_come_from_earlier_tasks(tmp_path: Path) -> None:
    wanted = [("verify", "kernel 0"), ("verify", "kernel 9")]
    assert math.isnan(expected_seconds(tmp_path / "none.db", wanted)[1])
    with TaskJournal.open(tmp_path / "r.db") as journal:
        journal.begin(job_of(TASKS, "verify", "ray"))
        journal.add([(stored(task, result(task, 1.0 + at)), None, ()) for at, task in enumerate(TASKS)])
    assert expected_seconds(tmp_path / "r.db", wanted) == ({("verify", "kernel 0"): 1.0}, 2.5)


class Answers:
    """An executor that answers at once."""

    def __init__(self, answers: dict[str, TaskResult]) -> None:
        self.answers, self.given = answers, list[Task]()

    def share(self, tree: SourceTree) -> None:
        raise NotImplementedError

    def free(self) -> int:
        return 1 - len(self.given)

    def workers(self) -> int:
        return 1

    def start(self, task: Task) -> None:
        self.given.append(task)

    def wait(self, seconds: float) -> Sequence[tuple[Task, Ended]]:  # noqa: ARG002
        given, self.given = self.given, []
        return [(task, Ended(self.answers[task.digest].to_bytes())) for task in given]

    def close(self) -> None:
        pass


def test_results_of_unlike_gpus_are_not_mixed(tmp_path: Path) -> None:
    answers = {task.digest: result(task) for task in TASKS}
    answers[TASKS[2].digest] = result(TASKS[2], gpu="NVIDIA H100")
    with TaskJournal.open(tmp_path / "r.db") as journal:
        with pytest.raises(UnlikeGpusError, match="ran on NVIDIA H100, the tasks before it on NVIDIA H200"):
            Runner(Answers(answers), journal).run(TASKS, "bench", "ray")
        assert len(journal.begin(job_of(TASKS, "bench", "ray"))[1]) == 2
    with TaskJournal.open(tmp_path / "r.db") as journal:
        answers[TASKS[2].digest] = result(TASKS[2])
        assert len(Runner(Answers(answers), journal).run(TASKS, "bench", "ray")) == 4


def test_compiled_kernels_come_from_other_machines(tmp_path: Path) -> None:
    from gemmsmith.compile.cache import CompileCache
    from gemmsmith.compile.compiled import CompiledKernel, Resources

    kernel = CompiledKernel("k", "sm_90", "ptx", b"cubin", Resources(1, 2, 3, 4, 5, 6, 7), "", "nvrtc", "", False, "")
    shelf: dict[str, bytes] = {}
    asked: list[str] = []

    def cache_on(node: str) -> CompileCache:
        made = CompileCache(tmp_path / node)
        made.exchange = (shelf.get, shelf.__setitem__)
        return made

    def compiled() -> CompiledKernel:
        asked.append("")
        return kernel

    key = "a" * 64
    first, second = (cache_on(node).get(key, compiled) for node in ("one", "two"))
    assert (len(asked), first.cubin, second.cubin, second.cached) == (1, b"cubin", b"cubin", True)
    assert cache_on("two").has(key)
    shelf[key] = shelf[key][:-1] + b"?"  # damaged on the way: compiled again
    assert cache_on("three").get(key, compiled).cubin == b"cubin"
    assert len(asked) == 2
