"""The command line: one command a file, one place where errors become messages and exit codes."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence

import typer

from gemmsmith.cli.commands import (
    accuracy,
    bench,
    check,
    climb,
    compare,
    doctor,
    explain,
    history,
    list_,
    occupancy,
    profile,
    report,
    run,
    show,
    sweep,
    timeline,
    tune,
    verify,
)
from gemmsmith.cli.render.output import WIDTH
from gemmsmith.errors import CompileError, GemmsmithError, UsageError

app = typer.Typer(
    name="gemmsmith",
    help="A workbench for GPU matrix multiplication: run, verify and understand a ladder of CUDA kernels, "
    "on a GPU or on a simulator of it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list")(list_.command)
app.command("show")(show.command)
app.command("run")(run.command)
app.command("verify")(verify.command)
app.command("check")(check.command)
app.command("accuracy")(accuracy.command)
app.command("bench")(bench.command)
app.command("profile")(profile.command)
app.command("explain")(explain.command)
app.command("compare")(compare.command)
app.command("occupancy")(occupancy.command)
app.command("doctor")(doctor.command)
app.command("climb")(climb.command)
app.command("report")(report.command)
app.add_typer(history.app, name="history")
app.command("sweep")(sweep.command)
app.command("tune")(tune.command)
app.command("timeline", cls=timeline.WatchCommand)(timeline.command)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from gemmsmith import __version__

        typer.echo(f"gemmsmith {__version__}")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code: 0 ok, 1 a check failed, 2 wrong use, 3 something is missing."""
    sys.exit(run_command(arguments))


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        app(args=arguments, prog_name="gemmsmith")
    except GemmsmithError as error:
        _complain(error)
        return error.exit_code
    except MemoryError as error:
        _complain(UsageError(f"this machine has too little memory: {error}", "choose smaller sizes"))
        return UsageError.exit_code
    except SystemExit as end:  # typer's own: 0 when done, 2 for wrong use, or what a command asked for
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _complain(error: GemmsmithError) -> None:
    typer.secho(_lines(f"error: {error.message}", ""), fg="red", err=True)
    if isinstance(error, CompileError) and error.log:
        typer.echo(error.log.rstrip(), err=True)
    if error.hint:
        typer.echo(_lines(error.hint, "  "), err=True)


def _lines(text: str, indent: str) -> str:
    """Lines of at most 100 columns, as they are where they fit; a word, such as a path, stays in one piece."""
    lines = []
    for line in text.splitlines():
        words = line.lstrip()
        own = line[: len(line) - len(words)] or indent
        if len(own + words) <= WIDTH:
            lines.append(own + words)
            continue
        lines += textwrap.wrap(words, WIDTH, initial_indent=own, subsequent_indent=own or "  ",
                               break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    main()
