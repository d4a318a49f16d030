"""How errors are reported: a line and a hint on stderr and, with --json, an object on stdout as well."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from gemmsmith.errors import CompileError, GemmsmithError, GemmsmithWarning


def report_error(error: GemmsmithError, as_json: bool) -> int:
    """Print ``error``; returns its exit code."""
    from gemmsmith.cli.render.output import item, print_json, say

    if as_json:
        print_json(error_object(error))
        sys.stdout.flush()
    item(f"error: {_without_log(error)}", "red", stderr=True)
    if isinstance(error, CompileError) and error.log:
        sys.stderr.write(error.log.rstrip() + "\n")
    if error.hint:
        say(error.hint, indent="  ", stderr=True)
    return error.exit_code


def _without_log(error: GemmsmithError) -> str:
    """The message, without the compiler's line at its end where the log that follows has it."""
    said, _, line = error.message.partition(": ")
    return f"{said}:" if line and isinstance(error, CompileError) and line in error.log else error.message


@contextmanager
def warnings_as_messages() -> Iterator[None]:
    """Our own warnings are lines on stderr, each once, also where Python was told to raise or to hide warnings."""
    previous = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        from gemmsmith.cli.render.output import item

        if issubclass(category, GemmsmithWarning):
            item(f"warning: {message}", "yellow", stderr=True)
        else:
            previous(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=GemmsmithWarning)
        warnings.showwarning = show
        yield


def report_bug(error: Exception, as_json: bool) -> None:
    """With --json, an object on stdout as well: the traceback goes to stderr."""
    from gemmsmith.cli.render.output import print_json

    if as_json:
        hint = "this is a bug in gemmsmith; stderr has the traceback"
        print_json({"error": {"kind": type(error).__name__, "message": str(error), "hint": hint, "exit_code": 1}})
        sys.stdout.flush()


def error_object(error: GemmsmithError) -> dict[str, Any]:
    """{"error": {"kind", "message", "hint", "exit_code"}}; a compile error has the compiler's "log" besides, and the
    error of a check a "status"."""
    facts: dict[str, Any] = {
        "kind": type(error).__name__, "message": error.message, "hint": error.hint, "exit_code": error.exit_code,
    }  # fmt: skip
    if isinstance(error, CompileError):
        facts["log"] = error.log
    return {"error": facts, **({"status": error.status} if error.status else {})}


def wants_json(words: Sequence[str]) -> bool:
    """Whether the words of a command line ask for JSON, whatever else is wrong with them."""
    if words[:1] == ["timeline"]:  # words after a program are the program's
        from gemmsmith.cli.commands.timeline import split_words
        from gemmsmith.cli.lazy_group import load_command

        words = split_words(words[1:], load_command("timeline").valued)[0]
    own = words[: words.index("--")] if "--" in words else words
    asked = any(word == "--format" and value == "json" for word, value in pairwise(own))
    return "--json" in own or "--format=json" in own or asked
