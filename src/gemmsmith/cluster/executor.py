"""What runs tasks. The runner hands over a task only where ``free`` says so, and waits for what ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gemmsmith.cluster.slot import Ended
from gemmsmith.cluster.sources import SourceTree
from gemmsmith.cluster.task import Task


class Executor(Protocol):
    """Processes of this machine (``local.py``) or of a Ray cluster (``on_ray.py``). All tasks of a job want the same:
    a core, or a GPU of one kind."""

    def share(self, tree: SourceTree) -> None:
        """Make sources available to workers, once for all tasks."""

    def free(self) -> int:
        """How many further tasks would start at once."""

    def workers(self) -> int:
        """How many tasks can run side by side."""

    def start(self, task: Task) -> None:
        """Begin a task."""

    def wait(self, seconds: float) -> Sequence[tuple[Task, Ended]]:
        """The tasks that ended, as soon as there is one; none after ``seconds``."""

    def close(self) -> None:
        """End all workers, with whatever they run."""


@dataclass
class Blobs:
    """A shelf in memory."""

    held: dict[str, bytes] = field(default_factory=dict)

    def get(self, key: str) -> bytes | None:
        return self.held.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.held[key] = data
