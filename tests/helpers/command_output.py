"""Exit code and output of a command that a test ran in its own process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Said:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def widest(self) -> int:
        """The widest line, but for commands to copy, which stay on one line."""
        return max((len(line) for line in self.out.splitlines() if "repeat: " not in line), default=0)


class Say(Protocol):
    def __call__(self, *arguments: str) -> Said: ...
