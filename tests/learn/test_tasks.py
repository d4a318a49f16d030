"""The tasks as data: whole, consistent with their kernels, and readable by somebody who has never seen PTX."""

from __future__ import annotations

import re

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.learn.quantity import QUANTITIES
from gemmsmith.learn.task import Goal, Task, task_named, task_of, tasks

NAMES = [task.name for task in tasks()]
TERMS = re.compile(r"\b(?:PTX|SASS|wavefronts?|ldgsts|LDS|STS|predicat\w*|mma)\b")


def test_there_are_ten_in_order() -> None:
    assert [task.number for task in tasks()] == list(range(1, 11))
    assert len(set(NAMES)) == 10


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_whole(name: str) -> None:
    task = task_named(name)
    assert task.goals
    assert len(task.hints) >= 3
    assert task_of(task.start) is task
    assert task_of(task.solution) is task
    assert task.start != task.solution
    assert task.status in ("right", "whole_tiles")
    if task.rung:
        rung_named(task.rung)


@pytest.mark.parametrize("name", NAMES)
def test_start_and_solution_have_the_same_parameters(name: str) -> None:
    """So that an answer is a change of the kernel, not another kernel."""
    task = task_named(name)
    signatures = [re.search(r"sgemm\(([^)]*)\)", text) for text in (task.start, task.solution)]
    assert signatures[0] is not None
    assert signatures[1] is not None
    assert signatures[0][1] == signatures[1][1]


@pytest.mark.parametrize("name", NAMES)
def test_no_word_needs_ptx(name: str) -> None:
    task = task_named(name)
    said = [*task.idea, task.todo, task.title, *task.hints, task.start]
    said += [text for goal in task.goals for text in (goal.quantity.title, goal.quantity.meaning)]
    assert [found for text in said for found in TERMS.findall(text)] == []


def test_a_word_of_ptx_would_be_found() -> None:
    assert TERMS.findall("the wavefronts of SASS") == ["wavefronts", "SASS"]


@pytest.mark.parametrize("name", NAMES)
def test_kernels_fit_an_editor(name: str) -> None:
    task = task_named(name)
    for text in (task.start, task.solution):
        assert max(map(len, text.splitlines())) <= 120
        assert len(text.splitlines()) <= 60


def test_no_hint_shows_the_whole_solution() -> None:
    for task in tasks():
        body = task.solution[task.solution.index("{") :]
        assert all(body not in hint for hint in task.hints)


def test_names_and_numbers() -> None:
    assert task_named("10").name == "split_k"
    assert task_named("04").name == "conflict"
    assert task_named("Thread-Tile").name == "thread_tile"
    for wrong in ("0", "11", "", "nosuch", "x" * 500):
        with pytest.raises(UsageError, match="the tasks: coalesce"):
            task_named(wrong)


def test_a_file_without_a_mark_has_no_task() -> None:
    assert task_of("// something else\n__global__ void k() {}") is None
    with pytest.raises(UsageError, match="no task called"):
        task_of("// gemmsmith learn: nosuch\n")


def test_nan_meets_no_goal() -> None:
    goal = Goal(QUANTITIES["blocks"], at_least=1)
    assert goal.is_met(1)
    assert not goal.is_met(0.5)
    assert not goal.is_met(float("nan"))
    assert not Goal(QUANTITIES["blocks"], at_most=1).is_met(float("nan"))
    assert goal.bound == "at least 1"
    assert Goal(QUANTITIES["blocks"], at_most=2.5).bound == "at most 2.5"


def test_what_passes_by_status() -> None:
    strict: Task = task_named("coalesce")
    loose: Task = task_named("pipeline")
    assert strict.accepted == ("right",)
    assert "whole_tiles" in loose.accepted
    assert "racy" not in loose.accepted
    assert "wrong" not in loose.accepted
