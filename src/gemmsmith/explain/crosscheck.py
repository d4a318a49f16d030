"""Compare the memory instructions the simulator counted with those in the machine code, by kind and width.

ptxas may fuse, unroll, duplicate or drop what PTX says. The simulator's counts stand for the machine only where both
agree; every profile says where they do and, where not, how they differ.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gemmsmith.compile.sass import Sass
from gemmsmith.sim.counters import Counters

_KINDS = {("load", "global"): "LDG", ("store", "global"): "STG", ("load", "shared"): "LDS", ("store", "shared"): "STS"}
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@dataclass(frozen=True)
class Check:
    """One kind and width of memory instruction: how many in PTX as counted, how many in SASS, and the verdict.

    ``state`` is 'equal', 'unrolled' (the same instructions several times over: dynamic counts agree) or 'different'.
    """

    opcode: str
    width: int
    simulated: int
    machine: int
    state: str


def cross_check(counters: Counters, sass: Sass) -> tuple[Check, ...]:
    """Static counts by kind and width; instructions never executed are compared as well."""
    ptx, machine = _from_ptx(counters), _from_sass(sass)
    widths: dict[str, set[int]] = {}
    for opcode, width in (*ptx, *machine):
        widths.setdefault(opcode, set()).add(width)
    checks = []
    for opcode, width in sorted(set(ptx) | set(machine)):
        here, there = ptx[opcode, width], machine[opcode, width]
        same_widths = all(ptx[opcode, w] and machine[opcode, w] for w in widths[opcode])
        if here == there:
            state = "equal"
        elif same_widths and there > here > 0 and opcode in ("LDG", "LDS") and not _duplicated(ptx, machine, opcode):
            state = "unrolled"
        else:
            state = "different"
        checks.append(Check(opcode, width, here, there, state))
    return tuple(checks)


def _duplicated(ptx: Counter[tuple[str, int]], machine: Counter[tuple[str, int]], opcode: str) -> bool:
    """More loads but no more stores to shared memory or arithmetic loops: some were loaded twice, not unrolled."""
    return opcode == "LDS" and machine["STS", 4] + machine["STS", 16] == ptx["STS", 4] + ptx["STS", 16] > 0


def _from_ptx(counters: Counters) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for operation in counters.lowered.operations:
        if operation.kind == "copy":
            found["LDGSTS", operation.width] += 1
        elif (name := _KINDS.get((operation.kind, operation.space))) is not None:
            width = counters.widths.get(id(operation), operation.width)
            if width:
                found[name, width] += 1
    return found


def _from_sass(sass: Sass) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for instruction in sass.instructions:
        base, *modifiers = instruction.opcode.split(".")
        if base in ("LDG", "STG", "LDS", "STS", "LDGSTS", "LDL", "STL", "LD", "ST"):
            found[base, next((_WIDTHS[m] for m in modifiers if m in _WIDTHS), 4)] += 1
    return found
