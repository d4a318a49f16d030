"""One compilation: with the toolchain, it determines the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gemmsmith.userfile.files.stamp import Stamp


@dataclass(frozen=True)
class CompileRequest:
    """What the compiler is given.

    entry        a C++ name expression: a function's name, or a template's with its arguments
    device_only  there is no host code, so functions without annotation (generic lambdas) are device code
    files        where the texts came from, as they were when read; not part of the request's identity
    isolated     compiled in a process of its own with limits: the source is not ours
    missing      includes that were not found; for the message if it does not compile
    retry        the next request to try after the compiler's log, for a user's file whose host code was not told apart
    """

    name: str
    source: str
    headers: tuple[tuple[str, str], ...]
    defines: tuple[tuple[str, str], ...]
    arch: str
    entry: str
    device_only: bool = False
    files: Stamp = field(default=(), compare=False, repr=False)
    isolated: bool = False
    cpp20: bool = False
    missing: tuple[str, ...] = field(default=(), compare=False)
    retry: Callable[[str], CompileRequest | None] | None = field(default=None, compare=False, repr=False)
