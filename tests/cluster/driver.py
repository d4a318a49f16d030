"""A command in short: runs the tasks in a JSON file and prints what became of them.

python driver.py PLACE DATABASE TASKS.json [--restart]
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from gemmsmith.cluster.executor import Executor
from gemmsmith.cluster.journal import TaskJournal
from gemmsmith.cluster.local import LocalExecutor
from gemmsmith.cluster.place import RAY, place_named
from gemmsmith.cluster.runner import Runner
from gemmsmith.cluster.task import LIMIT_S, Task
from gemmsmith.errors import GemmsmithError


def main(place_text: str, database: str, tasks_file: str, *more: str) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell inherits that it is ignored
    place = place_named(place_text)
    given = json.loads(Path(tasks_file).read_text(encoding="utf-8"))
    tasks = [Task(one["kind"], one["parameters"], one.get("label", one["kind"]), gpu=one.get("gpu", ""),
                  limit=one.get("limit", LIMIT_S)) for one in given]  # fmt: skip
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    resumed: list[int] = []
    with TaskJournal.open(Path(database)) as journal:
        executor: Executor
        if place.kind == RAY:
            from gemmsmith.cluster.on_ray import RayExecutor

            executor = RayExecutor(place, "small_tasks", len(tasks), gpu=tasks[0].gpu, environment=environment)
        else:
            executor = LocalExecutor(place.workers, "small_tasks", environment=environment)
        try:
            runner = Runner(executor, journal, resumed=lambda _, done: resumed.append(done))
            results = runner.run(tasks, "driver", place_text, fresh="--restart" in more)
        finally:
            executor.close()
    print(json.dumps({
        "resumed": sum(resumed),
        "results": [{"state": r.state, "value": r.value, "tries": r.tries, "log": r.log, "error": dict(r.error or {}),
                     "node": r.node.name if r.node else ""} for r in results],
    }))  # fmt: skip
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except GemmsmithError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
