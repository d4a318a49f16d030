"""A task: a kernel to start from, what to reach with it, hints, and a solution. All of it is data, in ``tasks/``."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from gemmsmith.errors import UsageError
from gemmsmith.explain.findings import Case
from gemmsmith.learn.quantity import QUANTITIES, Quantity
from gemmsmith.shapes import Shape

_MARK = re.compile(r"^//\s*gemmsmith learn:\s*([\w-]+)\s*$", re.M)
RIGHT = "right"


@dataclass(frozen=True)
class Goal:
    """A quantity and how large it may be, or must be."""

    quantity: Quantity
    at_most: float = math.inf
    at_least: float = -math.inf

    def is_met(self, value: float) -> bool:
        """NaN meets nothing."""
        return self.at_least <= value <= self.at_most

    @property
    def bound(self) -> str:
        if math.isfinite(self.at_most):
            return f"at most {self.at_most:,g}"
        return f"at least {self.at_least:,g}"

    def value(self, case: Case) -> float:
        return self.quantity.value(case)


@dataclass(frozen=True)
class Task:
    """``start`` and ``solution`` are CUDA C++.

    idea      what to know, in paragraphs
    todo      what to do, in one or two sentences
    status    what check must say: 'right', or 'whole_tiles' where shapes that are no multiples do not count
    shape     of the launch whose counters are graded
    unread_c  C must not be read when beta is 0
    """

    number: int
    name: str
    title: str
    idea: tuple[str, ...]
    todo: str
    status: str
    shape: Shape
    goals: tuple[Goal, ...]
    hints: tuple[str, ...]
    start: str
    solution: str
    rung: str = ""
    unread_c: bool = False

    @property
    def accepted(self) -> tuple[str, ...]:
        """Statuses of check that pass."""
        return (RIGHT,) if self.status == RIGHT else (RIGHT, "aligned_rows", self.status)


@cache
def tasks() -> tuple[Task, ...]:
    """All tasks, in the order in which they build on each other."""
    root = files("gemmsmith").joinpath("learn", "tasks")
    return tuple(_read(folder) for folder in sorted(root.iterdir(), key=lambda each: each.name) if folder.is_dir())


def task_named(name: str) -> Task:
    """The task of that name or number."""
    wanted = name.lower().replace("-", "_")
    for task in tasks():
        if wanted in (task.name, str(task.number), f"{task.number:02}"):
            return task
    known = ", ".join(task.name for task in tasks())
    raise UsageError(f"there is no task called {name[:40]!r}", f"the tasks: {known}")


def task_of(text: str) -> Task | None:
    """The task that a file says it belongs to; None where it says nothing."""
    found = _MARK.search(text)
    return task_named(found[1]) if found else None


def _read(folder: Traversable) -> Task:
    data = tomllib.loads(folder.joinpath("task.toml").read_text(encoding="utf-8"))
    number, _, name = folder.name.partition("_")
    goals = tuple(Goal(QUANTITIES[goal.pop("quantity")], **goal) for goal in data["goal"])
    m, n, k = data["shape"]
    return Task(
        number=int(number), name=name, title=data["title"], todo=data["todo"],
        idea=tuple(" ".join(paragraph.split()) for paragraph in data["idea"].split("\n\n")),
        status=data.get("status", RIGHT), shape=(m, n, k), goals=goals,
        hints=tuple(" ".join(hint.split()) if "\n    " not in hint else hint for hint in data["hints"]),
        start=folder.joinpath("start.cu").read_text(encoding="utf-8"),
        solution=folder.joinpath("solution.cu").read_text(encoding="utf-8"), rung=data.get("rung", ""),
        unread_c=data.get("unread_c", False),
    )  # fmt: skip
