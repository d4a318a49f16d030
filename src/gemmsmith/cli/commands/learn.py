"""gemmsmith learn: ten exercises on kernels, graded without a GPU."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.cli.options.groups import expand_groups
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.render.learn_text import (
    hint_json,
    print_grade,
    print_hints,
    print_overview,
    print_progress,
    print_started,
    progress_json,
    task_json,
    warn_damaged,
)
from gemmsmith.cli.render.output import print_json, progress
from gemmsmith.errors import UsageError
from gemmsmith.learn.progress import Progress, change_progress, load_progress, progress_path
from gemmsmith.learn.task import Task, task_named, tasks

app = typer.Typer(name="learn", add_completion=False)

_TaskName = Annotated[str, typer.Argument(metavar="NAME", help="A task, by name or number.", show_default=False)]


@dataclass(frozen=True)
class LearnOptions(OutputOptions):
    """Where progress is kept; before a subcommand or after it."""

    progress: Annotated[
        Path | None,
        typer.Option("--progress", metavar="FILE", help="Your progress. Default: GEMMSMITH_LEARN, or a file of yours."),
    ] = None

    def over(self, before: object) -> LearnOptions:
        """These options, and those given before the subcommand."""
        if not isinstance(before, LearnOptions):
            return self
        return LearnOptions(json=self.json or before.json, progress=self.progress or before.progress)

    @property
    def path(self) -> Path:
        return progress_path(self.progress)


@app.callback(invoke_without_command=True)
@expand_groups
def overview(ctx: typer.Context, *, options: LearnOptions) -> None:
    """Learn by mending kernels: ten tasks with goals, hints and grades.

    Without a subcommand: list the tasks.
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = options
        return
    done = load_progress(options.path)
    if options.json:
        print_json(progress_json(tasks(), done, options.path))
    else:
        warn_damaged(done)
        print_overview(tasks(), done)


@app.command("start")
@expand_groups
def start(
    ctx: typer.Context,
    name: _TaskName,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write NAME.cu.")] = Path(),
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite your answer with the kernel to start from.")
    ] = False,
    *,
    options: LearnOptions,
) -> None:
    """Explain a task, and write the kernel to start from as NAME.cu."""
    given, task = options.over(ctx.obj), task_named(name)
    file = folder / f"{task.name}.cu"
    kept = _write(file, task, force)
    if given.json:
        print_json(task_json(task, load_progress(given.path)) | {"file": str(file), "written": not kept})
    else:
        print_started(task, file, kept)


@app.command("grade")
@expand_groups
def grade(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE.cu", help="Your answer.", show_default=False)],
    task: Annotated[str, typer.Option("--task", metavar="NAME", help="The task, where the file does not say it.")] = "",
    *,
    cache: CacheOptions,
    options: LearnOptions,
) -> None:
    """Grade an answer: is it the product, without races, and does it reach the goals?

    Exits 0 if it passes, 1 if it does not.
    """
    from gemmsmith.cli.learn_grading import find_task, grade_file

    given, found = options.over(ctx.obj), find_task(file, task)
    path = given.path
    with progress() as bar:
        at = bar.add_task(f"grading {found.name}", total=None)
        graded = grade_file(file, found, cache)
        bar.advance(at)
    done = change_progress(path, lambda before: before.graded(found.name, graded.grade.passed))
    if given.json:
        print_json({"file": str(file), **graded.grade.to_json()})
    else:
        warn_damaged(done)
        print_grade(graded, file, _next(found, done))
    if not graded.grade.passed:
        raise typer.Exit(1)


@app.command("hint")
@expand_groups
def hint(
    ctx: typer.Context,
    name: _TaskName,
    solution: Annotated[bool, typer.Option("--solution", help="Show a solution instead.")] = False,
    *,
    options: LearnOptions,
) -> None:
    """Show one more hint on a task, from a nudge to almost the answer."""
    given, task = options.over(ctx.obj), task_named(name)

    def shown(before: Progress) -> Progress:
        if solution:
            return before.solved(task.name)
        return before.hinted(task.name, min(len(task.hints), before.of(task.name).hints + 1))

    done = change_progress(given.path, shown)
    if given.json:
        print_json(hint_json(task, done, solution))
    else:
        warn_damaged(done)
        print_hints(task, done, solution)


@app.command("progress")
@expand_groups
def show_progress(ctx: typer.Context, *, options: LearnOptions) -> None:
    """Show which tasks you have passed, with how many attempts and hints."""
    given = options.over(ctx.obj)
    done = load_progress(given.path)
    if given.json:
        print_json(progress_json(tasks(), done, given.path))
    else:
        warn_damaged(done)
        print_progress(tasks(), done, given.path)


def _write(file: Path, task: Task, force: bool) -> bool:
    """Write the kernel to start from; whether an answer that is there already was kept."""
    if file.is_dir():
        raise UsageError(f"{file} is a folder", "name another folder: gemmsmith learn start NAME DIR")
    if file.exists() and not force:
        return True
    if not file.parent.is_dir():
        raise UsageError(
            f"there is no folder {file.parent}", f"make it first: mkdir -p {shlex.quote(str(file.parent))}"
        )
    file.write_text(task.start, encoding="utf-8")
    return False


def _next(task: Task, done: Progress) -> str:
    """The command that a learner will want next."""
    if not done.of(task.name).passed:
        return f"gemmsmith learn hint {task.name}"
    left = [other.name for other in tasks() if not done.of(other.name).passed]
    return f"gemmsmith learn start {left[0]}" if left else "gemmsmith learn progress"
