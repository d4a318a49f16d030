"""The entry point: one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer
import typer.main

from gemmsmith.cli.error_output import tell, wants_json
from gemmsmith.cli.lazy_group import LazyGroup
from gemmsmith.cli.parser_errors import ParserError, as_usage_error, is_help
from gemmsmith.cli.render.ascii import prepare_streams
from gemmsmith.errors import GemmsmithError, UsageError

INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended

app = typer.Typer(
    name="gemmsmith",
    cls=LazyGroup,
    help="A workbench for GPU matrix multiplication: run, verify and understand a ladder of CUDA kernels, "
    "on a GPU or on a simulator of it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    words = list(sys.argv[1:] if arguments is None else arguments)
    prepare_streams()
    try:
        code = typer.main.get_command(app)(args=words, prog_name="gemmsmith", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except GemmsmithError as error:
        return tell(error, wants_json(words))
    except ParserError as error:
        return UsageError.exit_code if is_help(error) else tell(as_usage_error(error), wants_json(words))
    except RecursionError:
        return tell(UsageError("the input is nested too deeply to be read"), wants_json(words))
    except MemoryError as error:
        return tell(_too_large(error), wants_json(words))
    except ValueError as error:
        if "array is too big" not in str(error) and "Maximum allowed" not in str(error):
            raise
        return tell(_too_large(error), wants_json(words))  # what NumPy raises for sizes beyond the address space
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone. Nothing may be written when Python closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _too_large(error: Exception) -> UsageError:
    return UsageError(f"this machine has too little memory: {error}", "choose smaller sizes")


if __name__ == "__main__":
    main()
