"""The program to trace: a script, a module, or a gemmsmith command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.errors import UsageError

SCRIPT, MODULE, COMMAND = "script", "module", "command"


@dataclass(frozen=True)
class Target:
    """``name`` is a path, a module, or 'gemmsmith'; ``arguments`` are passed unchanged."""

    kind: str
    name: str
    arguments: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """The words that ``target_of`` parses to this target."""
        first = {SCRIPT: [self.name], MODULE: ["-m", self.name], COMMAND: ["--"]}[self.kind]
        return [*first, *self.arguments]

    def __str__(self) -> str:
        first = {SCRIPT: [self.name], MODULE: ["-m", self.name], COMMAND: ["gemmsmith"]}[self.kind]
        return shlex.join([*first, *self.arguments])


def target_of(words: Sequence[str], commands: Sequence[str] = ()) -> Target:
    """Parse ``script.py …``, ``-m module …`` or ``-- command …``; a name in ``commands`` hints at a forgotten --."""
    usage = "gemmsmith timeline script.py …, or -m module …, or -- bench warp_tile …"
    if not words:
        raise UsageError("nothing to run", usage)
    first, *rest = words
    if first in ("-m", "--"):
        if not rest:
            raise UsageError(f"nothing follows {first}", usage)
        return Target(MODULE, rest[0], tuple(rest[1:])) if first == "-m" else Target(COMMAND, "gemmsmith", tuple(rest))
    path = Path(first)
    if not path.is_file():
        if first in commands:
            raise UsageError(f"{first} is a gemmsmith command, not a script", f"gemmsmith timeline -- {first} …")
        raise UsageError(f"there is no script {first}", usage)
    if path.suffix == ".cu":
        raise UsageError(f"{first} is a kernel, not a program", f"gemmsmith timeline -- bench {first}")
    return Target(SCRIPT, first, tuple(rest))
