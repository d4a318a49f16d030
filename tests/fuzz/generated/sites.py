"""Places in a kernel's text where one fault can be made.

Each part of a kernel writes its text through ``Sites.text``, with the right text and a wrong one. A first pass lists
the places; a second pass with the name of one of them writes the wrong text there, and the right text everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

# Kinds of faults, for the tables.
KINDS = ("barrier", "wait", "guard", "tail", "index", "stride", "loop", "accumulator", "fragment", "swizzle",
         "epilogue", "value", "atomics", "launch", "threshold", "harmless")  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One place and what is wrong there. ``equivalent``: why the kernel stays right with it; empty if it does not."""

    name: str
    kind: str
    right: str
    wrong: str
    equivalent: str = ""


class Sites:
    """Writes a kernel's text with at most one fault, and lists all that could be made."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.offered: dict[str, Fault] = {}

    def text(self, kind: str, name: str, right: str, wrong: str, equivalent: str = "") -> str:
        """``right``, or ``wrong`` if this is the fault to make; a repeated name is numbered."""
        if kind not in KINDS:
            raise ValueError(f"{kind} is no kind of fault")
        count = sum(known.split(" #")[0] == name for known in self.offered)
        key = f"{name} #{count + 1}" if count else name
        if right != wrong:
            self.offered[key] = Fault(key, kind, right, wrong, equivalent)
        return wrong if key == self.fault else right

    def harmless(self, name: str, right: str, other: str, why: str) -> str:
        """``right``, or another text that is as right: what must not be called a fault."""
        return self.text("harmless", name, right, other, why)
