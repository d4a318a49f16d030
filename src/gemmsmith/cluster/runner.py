"""Runs the tasks of one job: hands them out, retries those of lost workers, records each result once.

tasks ─► journal: which are done already ─► executor ─► results ─► journal, in one transaction ─► the command
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gemmsmith import __version__
from gemmsmith.cluster.executor import Executor
from gemmsmith.cluster.journal import Job, Journal, Measured, stored
from gemmsmith.cluster.slot import Ended
from gemmsmith.cluster.task import Task, TaskResult, failure
from gemmsmith.errors import GemmsmithError
from gemmsmith.store.task_journal import Recorded

TRIES = 3
_WAIT_S = 1.0


class UnlikeGpusError(GemmsmithError):
    """Tasks of one job ran on different GPUs, whose results must not be compared."""


@dataclass(frozen=True)
class Progress:
    """How far a job is. ``hosts`` counts the tasks that each machine finished."""

    done: int
    total: int
    running: int
    workers: int
    hosts: Mapping[str, int]

    def __str__(self) -> str:
        where = f" on {len(self.hosts)} nodes" if len(self.hosts) > 1 else ""
        return f"{self.running} of {self.workers} workers busy{where}"


Told = Callable[[Progress], None]
Resumed = Callable[[Job, int], None]


@dataclass
class Runner:
    """One job. ``measured`` says which measurements a result holds; the others hear how it goes."""

    executor: Executor
    journal: Journal
    measured: Measured = lambda *_: None
    told: Told = lambda _: None
    resumed: Resumed = lambda *_: None
    finished: Callable[[TaskResult], None] = lambda _: None
    _tries: Counter[str] = field(default_factory=Counter)
    _gpu: str = ""

    def run(self, tasks: Sequence[Task], command: str, place: str, fresh: bool = False) -> list[TaskResult]:
        """The result of every task, in their order. Failed ones are among them; only a broken cluster raises."""
        by_digest = {task.digest: task for task in tasks}
        job, known = self.journal.begin(job_of(list(by_digest.values()), command, place), fresh)
        results = {digest: TaskResult.from_bytes(row.result) for digest, row in known.items() if digest in by_digest}
        hosts = Counter(row.host for row in known.values())
        self._gpu = next((row.gpu for row in known.values() if row.gpu), "")
        if results:
            self.resumed(job, len(results))
        waiting = deque(task for digest, task in by_digest.items() if digest not in results)
        running = 0
        self._tell(results, by_digest, running, hosts)
        while waiting or running:
            while waiting and self.executor.free():
                self.executor.start(waiting.popleft())
                running += 1
            ended = self.executor.wait(_WAIT_S)
            running -= len(ended)
            finished = []
            for task, how in ended:
                result = self._result(task, how)
                if result is None:
                    waiting.append(task)
                else:
                    finished.append((task, result))
            if finished:
                self.journal.add([self._record(task, result, job) for task, result in finished])
            for task, result in finished:
                results[task.digest] = result
                self.finished(result)
                hosts[result.node.name if result.node else ""] += 1
            self._tell(results, by_digest, running, hosts)
        self.journal.finish(sum(not result.ok for result in results.values()))
        return [results[task.digest] for task in tasks]

    def _result(self, task: Task, ended: Ended) -> TaskResult | None:
        """What to record; None where the task is to run again."""
        self._tries[task.digest] += 1
        tries = self._tries[task.digest]
        if ended.data:
            result = replace(TaskResult.from_bytes(ended.data), tries=tries, log=ended.log)
            self._check_gpu(task, result)
            return result
        if ended.late:
            found = failure(task.digest, "TaskTimeLimitError", f"{task.label}: not finished after {task.limit:g} s",
                            "give it longer with --task-limit", ended.log)  # fmt: skip
        elif tries < TRIES:
            return None
        else:
            found = failure(task.digest, "LostTaskError", f"{task.label}: its worker was lost {tries} times; "
                            f"the last time {ended.lost}", "the log says what it printed", ended.log)  # fmt: skip
        return replace(found, tries=tries, seconds=ended.seconds)

    def _check_gpu(self, task: Task, result: TaskResult) -> None:
        """All GPUs of a job are of one model."""
        name = result.node.machine.gpu if task.gpu and result.node is not None else ""
        if name and self._gpu and name != self._gpu:
            raise UnlikeGpusError(f"{task.label} ran on {name}, the tasks before it on {self._gpu}",
                                  "name one kind with --gpu-kind: times of unlike GPUs are not compared")  # fmt: skip
        self._gpu = self._gpu or name

    def _record(self, task: Task, result: TaskResult, job: Job) -> Recorded:
        run, measurements = (self.measured(task, result, job) if result.ok else None) or (None, ())
        return stored(task, result), run, measurements

    def _tell(self, results: Mapping[str, TaskResult], tasks: Mapping[str, Task], running: int,
              hosts: Mapping[str, int]) -> None:  # fmt: skip
        self.told(Progress(len(results), len(tasks), running, self.executor.workers(), hosts))


def job_of(tasks: Sequence[Task], command: str, place: str) -> Job:
    """The job of these tasks: the same tasks of the same command are the same job."""
    text = "\n".join([command, *(task.digest for task in tasks)])
    return Job(hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest(), command, __version__, place, len(tasks))
