"""The grade of an answer: is it the product, did the counted launch do all of the work, and which goals are met."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gemmsmith.explain.findings import Case
from gemmsmith.learn.quantity import multiply_adds
from gemmsmith.learn.task import Goal, Task

_ALL_OF_IT = 0.999  # of the products; the counters are exact, the factor is for rounding


@dataclass(frozen=True)
class Reached:
    """One goal and what the answer has."""

    goal: Goal
    value: float

    @property
    def met(self) -> bool:
        return self.goal.is_met(self.value)

    def to_json(self) -> dict[str, Any]:
        quantity, goal = self.goal.quantity, self.goal
        return {
            "quantity": quantity.name, "title": quantity.title, "origin": quantity.origin, "met": self.met,
            "value": self.value if math.isfinite(self.value) else None,
            "at_most": goal.at_most if math.isfinite(goal.at_most) else None,
            "at_least": goal.at_least if math.isfinite(goal.at_least) else None,
        }  # fmt: skip


@dataclass(frozen=True)
class Grade:
    """``verdict`` says in a line what check found, and ``fault`` is empty where the product is right.

    No counters are looked at where it is not: ``reached`` is empty then.
    """

    task: Task
    verdict: str
    fault: str
    reached: tuple[Reached, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.fault and bool(self.reached) and all(one.met for one in self.reached)

    def to_json(self) -> dict[str, Any]:
        return {"task": self.task.name, "passed": self.passed, "verdict": self.verdict, "fault": self.fault,
                "goals": [one.to_json() for one in self.reached]}  # fmt: skip


def reached_goals(task: Task, case: Case) -> tuple[Reached, ...]:
    return tuple(Reached(goal, goal.value(case)) for goal in task.goals)


def missing_work(case: Case) -> str:
    """Why the counters do not count: the launch that was counted left out part of the product. Empty if it did not."""
    wanted, done = case.profile.problem.flops / 2, multiply_adds(case.profile)
    if done >= _ALL_OF_IT * wanted:
        return ""
    return (f"the launch that is counted executes {done:,.0f} multiply-adds, but {case.profile.problem} has "
            f"{wanted:,.0f}: compute every product, whatever the data and the shape")  # fmt: skip
