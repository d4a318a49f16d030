"""What the option parser refuses, as the errors of this package.

typer has brought its own copy of click since 0.20 or so; before, it imported click. ``typer.BadParameter`` is a parser
error in both, so the base class is taken from it.
"""

from __future__ import annotations

from typing import Any

import typer

from gemmsmith.errors import UsageError

# Options that other commands have, with what to type instead.
_ELSEWHERE = {
    "--m": "sizes are --shapes 64x64x64 here; ", "--n": "sizes are --shapes 64x64x64 here; ",
    "--k": "sizes are --shapes 64x64x64 here; ",
    "--args": "check, explain, profile, compare and view take --args; ",
    "--expect": "check takes --expect; ",
}  # fmt: skip
ParserError: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def is_help(error: Exception) -> bool:
    """Whether it only says that the help text was printed."""
    return type(error).__name__ == "NoArgsIsHelpError"


def as_usage_error(error: Any) -> UsageError:
    """The same in our words, with where to look."""
    message = str(error.message if hasattr(error, "possibilities") else error.format_message()).strip().rstrip(".")
    command = getattr(getattr(error, "ctx", None), "command_path", "gemmsmith")
    near = sorted(getattr(error, "possibilities", None) or ())
    suggestion = _ELSEWHERE.get(getattr(error, "option_name", ""), "")
    if near and not suggestion:
        suggestion = f"did you mean {_nearest(error.option_name, near)}? "
    elif not suggestion and ". Did you mean " in message:
        message, _, names = message.partition(". Did you mean ")
        suggestion = f"did you mean {names.split(',')[0].strip(chr(39) + '?')}? "
    message = (
        message.replace("Value error, ", "")
        .replace("Input should be a valid integer, unable to parse string as an integer", "it must be an integer")
        .replace("Input should be a valid number, unable to parse string as a number", "it must be a number")
    )
    what = "commands" if command == "gemmsmith" else "options"
    return UsageError(message[:1].lower() + message[1:], f"{suggestion}{command} -h lists the {what}")


def _nearest(word: str, near: list[str]) -> str:
    import difflib

    return (difflib.get_close_matches(word, near, n=1, cutoff=0) or near)[0]
