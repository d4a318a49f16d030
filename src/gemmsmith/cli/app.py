"""The command line as typer parses it."""

from __future__ import annotations

from collections.abc import Sequence

import typer
import typer.main

from gemmsmith import __version__
from gemmsmith.cli.lazy_group import LazyGroup
from gemmsmith.cli.parser_errors import ParserError, as_usage_error, is_help
from gemmsmith.errors import UsageError

app = typer.Typer(
    name="gemmsmith",
    cls=LazyGroup,
    help="A workbench for GPU matrix multiplication: check, profile and explain your own CUDA kernel, or climb a "
    "ladder of kernels from naive to cuBLAS speed. Runs on a GPU or on a simulator of one.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_INTERRUPTED = 130  # newer versions of typer return it in place of an exception


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"gemmsmith {__version__}")
        raise typer.Exit


def run_parsed(words: Sequence[str]) -> int:
    """Parse and run a command line; returns its exit code. What the parser refuses is raised as ``UsageError``."""
    try:
        code = typer.main.get_command(app)(args=list(words), prog_name="gemmsmith", standalone_mode=False)
    except ParserError as error:
        if is_help(error):
            return UsageError.exit_code
        raise as_usage_error(error) from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    return code if isinstance(code, int) else 0
