"""What a task costs besides its work, on processes and on Ray; the speed-up of a simulated sweep; how far it scales.

    python benchmarks/cluster_overhead.py [--output benchmarks/results/cluster_overhead.json] [--tasks 500]

Ray runs on this machine: a head without cores and two nodes with one core each. No GPU is needed. The times to 1,000
workers are a simulation on paper: the driver handles one task after another, each worker one task at a time, with the
overheads measured here.
"""

from __future__ import annotations

import argparse
import datetime
import heapq
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.options.device import TargetOptions
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.sweep_plan import SweepPlan
from gemmsmith.cli.tasks.sweep_tasks import sweep_tasks
from gemmsmith.cluster.executor import Executor
from gemmsmith.cluster.journal import Journal, NoJournal, TaskJournal
from gemmsmith.cluster.local import LocalExecutor
from gemmsmith.cluster.place import place_named
from gemmsmith.cluster.runner import Runner
from gemmsmith.cluster.task import Task

HERE = Path(__file__).parent
HANDLERS = "cluster_tasks"
PAPER_SECONDS = (0.1, 1.0, 10.0, 60.0)
PAPER_WORKERS = (1, 2, 10, 100, 1000)
TASKS_PER_WORKER = 100
REPEATS = 3


@dataclass(frozen=True)
class Overhead:
    """Milliseconds per task, of the clock with one worker and of the driver's core; seconds until the first result."""

    wall_ms: float
    driver_ms: float
    start_s: float


def environment() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}


@contextmanager
def ray_cluster() -> Iterator[None]:
    os.environ |= environment() | {"RAY_USAGE_STATS_ENABLED": "0"}
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = cluster.address
    try:
        yield
    finally:
        cluster.shutdown()


def local(workers: int) -> Executor:
    return LocalExecutor(workers, HANDLERS, environment=environment())


def on_ray(workers: int) -> Executor:
    from gemmsmith.cluster.on_ray import RayExecutor

    return RayExecutor(place_named("ray"), HANDLERS, workers, environment=environment())


def nothings(count: int, first: int = 0) -> list[Task]:
    return [Task("nothing", {"x": x}, "nothing") for x in range(first, first + count)]


def overhead(made: Callable[[int], Executor], count: int, journal: Journal) -> Overhead:
    """Of tasks that do nothing, on one worker; the best of three, since others use this machine."""
    executor = made(1)
    try:
        start = time.monotonic()
        Runner(executor, journal).run(nothings(1), "start", "")
        started = time.monotonic() - start
        Runner(executor, journal).run(nothings(20), "warm-up", "")
        walls, cores = [], []
        for _ in range(REPEATS):
            wall, core = time.monotonic(), time.process_time()
            Runner(executor, journal).run(nothings(count), "measure", "")
            walls.append((time.monotonic() - wall) / count)
            cores.append((time.process_time() - core) / count)
    finally:
        executor.close()
    return Overhead(round(1e3 * min(walls), 3), round(1e3 * min(cores), 3), round(started, 2))


def sweep_seconds(made: Callable[[int], Executor], workers: int, tasks: list[Task]) -> dict[str, float]:
    """A simulated sweep on workers that are there: seconds of the clock, of all cores, and of the busiest worker."""
    executor = made(workers)
    try:
        Runner(executor, NoJournal()).run(nothings(4 * workers), "start", "")
        while executor.workers() < workers:
            executor.free()
            executor.wait(0.2)
        Runner(executor, NoJournal()).run(tasks[:workers], "imports", "")
        start = time.monotonic()
        results = Runner(executor, NoJournal()).run(tasks, "sweep", "")
        took = time.monotonic() - start
    finally:
        executor.close()
    assert all(result.ok for result in results), [result.error for result in results]
    busy: Counter[int] = Counter()
    for result in results:
        busy[result.value["process"]] += result.value["core_seconds"]
    return {"seconds": round(took, 2), "core_seconds": round(busy.total(), 2), "busiest": round(max(busy.values()), 2)}


def swept() -> list[Task]:
    """Points of a sweep that the simulator counts, compiled beforehand: compiling is shared by the cache."""
    plan = SweepPlan("padded", KernelOptions(), ("PAD=0,1,4,8",), "256,512", "", "simulated", TargetOptions())
    bench = plan.workbench(Compiler())
    points = plan.points(bench)
    for point in points:
        if point.variant is not None and point.problem is not None:
            bench.compiled(point.variant, point.problem)
    return sweep_tasks(plan, points, "", "", 600.0)


def wait_ms(pending: int) -> float:
    """Milliseconds of one look at so many tasks on Ray, of which none has ended; the best of twenty."""
    import ray

    ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="CRITICAL")
    try:
        sleeper = ray.remote(lambda: None).options(num_cpus=2)  # no node has two cores: it stays pending
        references = [sleeper.remote() for _ in range(pending)]
        took = []
        for _ in range(20):
            start = time.monotonic()
            ray.wait(references, num_returns=1, timeout=0)
            took.append(time.monotonic() - start)
    finally:
        ray.shutdown()
    return round(1e3 * min(took), 3)


def on_paper(seconds: float, workers: int, cost: Overhead, look_ms: float) -> float:
    """The share of the workers' time that is work, with ``workers`` for ``TASKS_PER_WORKER`` tasks each.

    The driver looks at all running tasks, takes those that ended, and spends ``driver_ms`` on each, one after another.
    What else a task costs, its worker waits for. A look takes the longer, the more tasks run (``look_ms`` for 1,000).
    """
    driver, beside = cost.driver_ms / 1e3, (cost.wall_ms - cost.driver_ms) / 1e3
    look = look_ms / 1e3 * workers / 1000
    ends = [cost.start_s] * workers  # when each worker is free
    left, now = TASKS_PER_WORKER * workers, 0.0
    while left:
        now = max(now, ends[0]) + look
        while left and ends[0] <= now:
            heapq.heappop(ends)
            now += driver
            heapq.heappush(ends, now + beside + seconds)
            left -= 1
    return TASKS_PER_WORKER * seconds / max(ends)


def paper(cost: Overhead, look_ms: float) -> dict[str, Any]:
    return {
        "tasks_per_worker": TASKS_PER_WORKER,
        "look_ms": look_ms,
        "most_tasks_per_second": round(1e3 / cost.driver_ms),
        "rows": [
            {"seconds": seconds,
             "workers_until_the_driver_is_full": int((seconds + cost.wall_ms / 1e3) / (cost.driver_ms / 1e3)),
             "efficiency": {str(n): round(on_paper(seconds, n, cost, look_ms), 3) for n in PAPER_WORKERS}}
            for seconds in PAPER_SECONDS
        ],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--tasks", type=int, default=500)
    given = parser.parse_args()
    costs: dict[str, Overhead] = {}
    sweeps: dict[str, dict[str, float]] = {}
    tasks = swept()
    with tempfile.TemporaryDirectory() as folder, ray_cluster():
        for name, made in (("processes", local), ("ray", on_ray)):
            costs[name] = overhead(made, given.tasks, NoJournal())
            with TaskJournal.open(Path(folder) / f"{name}.db") as journal:
                costs[f"{name}, recorded"] = overhead(made, given.tasks, journal)
            for workers in (1, 2, 1, 2):  # the better of two rounds
                found = sweep_seconds(made, workers, tasks)
                known = sweeps.setdefault(f"{name} {workers}", found)
                sweeps[f"{name} {workers}"] = min(known, found, key=lambda one: one["seconds"])
            print(name, costs, sweeps, flush=True)
        looked = wait_ms(1000)
    import ray

    record = {
        "command": "python benchmarks/cluster_overhead.py", "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version(),
        "ray": ray.__version__, "load": [round(value, 1) for value in os.getloadavg()], "tasks": given.tasks,
        "overhead": {name: vars(cost) for name, cost in costs.items()},
        "sweep": {"points": len(tasks), "runs": sweeps}, "paper": paper(costs["ray, recorded"], looked),
    }  # fmt: skip
    text = json.dumps(record, indent=1) + "\n"
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
