"""The entry point: one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence

from gemmsmith.cli.error_output import report_bug, report_error, wants_json, warnings_as_messages
from gemmsmith.cli.render.ascii import prepare_streams
from gemmsmith.errors import GemmsmithError, UsageError

# What a path or a disk of the user's causes; anything else is a bug of ours.
_OF_FILES = (errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EINVAL, errno.EIO, errno.EISDIR, errno.ELOOP,
             errno.ENAMETOOLONG, errno.ENOSPC, errno.ENOTDIR, errno.ENXIO, errno.EPERM, errno.EROFS)  # fmt: skip
_LONGEST_NAME = 200  # characters of a file's name in a message
# New objects before garbage is looked for, instead of 700: a parsed kernel has as many, and none is garbage.
_GARBAGE = (50_000, 10, 10)
INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code: 0 ok, 1 a check failed, 2 wrong use, 3 something is missing."""
    gc.set_threshold(*_GARBAGE)
    sys.exit(run_command(arguments))


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _replace_closed_streams()
    prepare_streams()
    try:
        with warnings_as_messages():
            code = _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # its reader is gone
        return 1
    except Exception as error:
        foreseen = _foreseen(error)
        if foreseen is None:
            report_bug(error, wants_json(words))
            raise
        if isinstance(error, OSError) and error.filename is None:
            _drop_output()  # the disk that it goes to is full
        return _report(foreseen, words)


def _report(error: GemmsmithError, words: list[str]) -> int:
    try:
        return report_error(error, wants_json(words))
    except OSError:  # nobody reads the object, or the disk is full
        _drop_output()
        return report_error(error, as_json=False)


def _replace_closed_streams() -> None:
    """A stream that was closed before Python began (``>&-``) is None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open until the process ends)


def _drop_output() -> None:
    """Nothing may be written when Python closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _foreseen(error: Exception) -> GemmsmithError | None:
    """The error to report to the user; None for a bug of ours."""
    if isinstance(error, GemmsmithError):
        return error
    if isinstance(error, RecursionError):
        return UsageError("the input is nested too deeply to be read")
    if isinstance(error, OverflowError):
        return UsageError(f"a number is too large for this machine: {error}", "choose smaller sizes")
    if isinstance(error, OSError) and error.errno in _OF_FILES:
        if error.filename is None:
            return GemmsmithError(f"cannot write the output: {error.strerror}")
        name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(error.filename)
        shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
        return UsageError(f"cannot use {shown}: {error.strerror}", "name another file or folder")
    # NumPy raises ValueError for sizes beyond the address space.
    beyond = isinstance(error, ValueError) and ("array is too big" in str(error) or "Maximum allowed" in str(error))
    if isinstance(error, MemoryError) or beyond:
        return UsageError(f"this machine has too little memory: {error}", "choose smaller sizes")
    return None


def _run(words: list[str]) -> int:
    # Importing the option parser takes longer than these two take without it.
    if words == ["--version"]:
        from gemmsmith import __version__

        sys.stdout.write(f"gemmsmith {__version__}\n")
        return 0
    if words in (["list"], ["list", "--json"]):
        from gemmsmith.cli.render.rung_list import print_rungs

        print_rungs(as_json="--json" in words)
        return 0
    from gemmsmith.cli.app import run_parsed

    return run_parsed(words)


if __name__ == "__main__":
    main()
