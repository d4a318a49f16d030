"""What gemmsmith learn prints: the tasks, one task, hints, a grade, progress."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from gemmsmith.cli.render.output import item, print_table, say
from gemmsmith.learn.progress import Done, Progress
from gemmsmith.learn.task import Goal, Task

if TYPE_CHECKING:
    from gemmsmith.cli.learn_grading import Graded

_WELCOME = (
    "Ten small tasks on matrix multiplication, from the first rungs of the ladder. Each gives you a CUDA kernel and a "
    "goal: counters that it must reach while its result stays right. Your answers run on the simulator, so you need no "
    "GPU."
)
_FILES = "Edit the file in any editor; it is one kernel of 20 to 50 lines. Grading takes a few seconds."
_INDENT = "   "
_SEEN = 256  # rows, columns and steps of k that are enough for a view


def print_overview(tasks: Sequence[Task], done: Progress) -> None:
    say(_WELCOME)
    say()
    rows = [(str(task.number), escape(task.name), escape(task.title), _state(done.of(task.name))) for task in tasks]
    print_table((("", "right"), ("task", "bar"), ("", "left"), ("", "bar")), rows)
    say()
    first = next((task for task in tasks if not done.of(task.name).passed), None)
    if first is None:
        say("You have passed all of them. What comes next is the ladder: gemmsmith list")
        return
    item(f"next: gemmsmith learn start {first.name}")


def print_started(task: Task, file: Path, kept: bool) -> None:
    say(f"{task.number}. {task.title}", "bold")
    for paragraph in task.idea:
        say()
        say(paragraph)
    say()
    say(f"Your task. {task.todo}", lead="Your task.")
    say()
    say("Goals", "bold")
    item("- the product is right, and no threads race: gemmsmith check tries many shapes, data and orders of warps",
         indent=" ")  # fmt: skip
    for goal in task.goals:
        item(f"- {goal.quantity.title}: {goal.bound}", indent=" ", lead=f"- {goal.quantity.title}:")
        say(goal.quantity.meaning, "dim", indent=_INDENT)
    m, n, k = task.shape
    say(f"Counted for M = {m:,}, N = {n:,}, K = {k:,}.", "dim", indent=" ")
    say()
    if kept:
        say(f"{file} is there already, and was not changed (--force starts anew).", "yellow")
    else:
        say(f"Wrote {file}. {_FILES}")
    name = shlex.quote(str(file))
    item(f"next: gemmsmith learn grade {name}")
    say(f"stuck? gemmsmith learn hint {task.name}", "dim")
    if task.rung:
        say(f"the idea in the ladder: gemmsmith show {task.rung}", "dim")


def print_hints(task: Task, done: Progress, solution: bool) -> None:
    if solution:
        say(f"// A solution of {task.name}. Others pass, too.", "dim")
        sys.stdout.write(task.solution)
        return
    seen = done.of(task.name).hints
    for number, hint in enumerate(task.hints[:seen], 1):
        say(f"Hint {number} of {len(task.hints)}", "bold")
        say(hint, indent=_INDENT)
    if seen == len(task.hints):
        say(f"That was the last one. A solution: gemmsmith learn hint {task.name} --solution", "dim")
    else:
        say(f"One more: gemmsmith learn hint {task.name}", "dim")


def print_grade(graded: Graded, file: Path, following: str) -> None:
    grade = graded.grade
    say(f"{grade.task.number}. {grade.task.title}", "bold")
    if grade.fault:
        first, *more = grade.fault.splitlines()
        say(f"  no    {first}", lead="  no   ", lead_style="red", hang=" " * 6)
        for line in more:
            say(line, indent=" " * 8)
        _print_failure(graded)
        if not grade.reached:
            say("The goals are looked at when the result is right.", "dim")
    else:
        say(f"  ok    {grade.verdict}", lead="  ok   ", lead_style="green", hang=" " * 6)
    for one in grade.reached:
        quantity = one.goal.quantity
        mark, style = ("ok", "green") if one.met else ("no", "red")
        text = f"{quantity.title}: {quantity.shown(one.value)}, goal: {one.goal.bound} ({quantity.origin})"
        say(f"  {mark}    {text}", lead=f"  {mark}   ", lead_style=style, hang=" " * 6)
        if not one.met:
            say(quantity.meaning, "dim", indent=" " * 8)
    if grade.passed:
        say("passed", "bold green")
    else:
        missing = sum(not one.met for one in grade.reached)
        goals = "1 goal is" if missing == 1 else f"{missing} goals are"
        say(f"not passed: {f'{goals} missing' if missing else 'the result comes first'}", "bold red")
        if looked := _look(graded, shlex.quote(str(file))):
            item(f"look: {looked}")
        if missing:
            m, n, k = (min(extent, _SEEN) for extent in grade.task.shape)
            item(f"see it move: gemmsmith view {shlex.quote(str(file))} --m {m} --n {n} --k {k}")
    item(f"next: {following}")


def _look(graded: Graded, file: str) -> str:
    """The command that shows more of what is missing."""
    missing = [one for one in graded.grade.reached if not one.met]
    m, n, k = graded.grade.task.shape
    at = f"--m {m} --n {n} --k {k}"
    if any(one.goal.quantity.origin == "predicted" for one in missing):
        return f"gemmsmith explain {file} {at}"
    if missing:
        return f"gemmsmith profile {file} --lines --device sim {at}"
    return f"gemmsmith check {file}" if graded.report is not None else ""


def _print_failure(graded: Graded) -> None:
    """The first fault with its source lines, or the first sentence on what is wrong."""
    from gemmsmith.cli.render.excerpt import print_fault

    verdict = graded.failed
    if verdict is None:
        return
    if verdict.faults:
        print_fault(verdict.faults[0], "red")
    for line in verdict.other_lines()[:2]:
        item(line, "red", indent="  ")


def print_progress(tasks: Sequence[Task], done: Progress, path: Path) -> None:
    rows = []
    for task in tasks:
        one = done.of(task.name)
        hints = f"{one.hints} of {len(task.hints)}" + (", solution" if one.solution else "")
        rows.append((str(task.number), escape(task.name), _state(one), str(one.attempts or ""),
                     hints if one.hints or one.solution else ""))  # fmt: skip
    columns = (("", "right"), ("task", "bar"), ("", "bar"), ("attempts", "right"), ("hints seen", "left"))
    print_table(columns, rows)
    say()
    passed = sum(bool(done.of(task.name).passed) for task in tasks)
    say(f"{passed} of {len(tasks)} passed. Kept in {path}.")


def warn_damaged(done: Progress) -> None:
    """Said on stderr: the file that could not be read is not lost."""
    if done.damaged:
        item(f"warning: the progress file {done.damaged} is damaged, so progress starts anew; the file is kept",
             "yellow", stderr=True)  # fmt: skip


def _state(done: Done) -> str:
    if done.passed:
        return f"[green]passed {done.passed[:10]}[/green]"
    return "[yellow]begun[/yellow]" if done.attempts or done.hints else ""


def progress_json(tasks: Sequence[Task], done: Progress, path: Path) -> dict[str, Any]:
    return {"progress": str(path), "damaged": done.damaged or None,
            "tasks": [task_json(task, done) for task in tasks]}  # fmt: skip


def task_json(task: Task, done: Progress) -> dict[str, Any]:
    one, (m, n, k) = done.of(task.name), task.shape
    return {
        "number": task.number, "name": task.name, "title": task.title, "idea": list(task.idea), "todo": task.todo,
        "problem": {"m": m, "n": n, "k": k}, "goals": [_goal_json(goal) for goal in task.goals],
        "hints": len(task.hints), "passed": one.passed or None, "attempts": one.attempts, "hints_seen": one.hints,
        "solution_seen": one.solution,
    }  # fmt: skip


def _goal_json(goal: Goal) -> dict[str, Any]:
    quantity = goal.quantity
    return {"quantity": quantity.name, "title": quantity.title, "meaning": quantity.meaning, "bound": goal.bound}


def hint_json(task: Task, done: Progress, solution: bool) -> dict[str, Any]:
    if solution:
        return {"task": task.name, "solution": task.solution}
    return {"task": task.name, "hints": list(task.hints[: done.of(task.name).hints]), "of": len(task.hints)}
