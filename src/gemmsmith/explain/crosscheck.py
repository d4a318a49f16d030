"""Compare the memory instructions that the simulator counted with those in the machine code, by kind and width.

ptxas may fuse, unroll, duplicate or drop PTX instructions. The simulator's counts hold for the machine only where both
agree; every profile says where they do and how they differ. Both sides carry source lines, which distinguish an
unrolled loop (all of its lines are replicated equally) from a duplicated load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gemmsmith.compile.sass import MATH, Instruction, Sass
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.traits import Mix

_MATRICES = ("LDSM", "STSM")
_MEMORY = frozenset({"LDG", "STG", "LDS", "STS", "LDL", "STL", "LD", "ST", "LDGSTS", *_MATRICES})
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_NEVER = ("@!PT", "@!UPT")
_MEANING = {
    "equal": "",
    "unrolled": "ptxas unrolled the loop; its arithmetic grew equally, so executed counts are the same",
    "idle": "never take effect (predicate @!PT); ptxas places them before LDGSTS; they access no memory",
}

Kind = tuple[str, int]
Place = tuple[str, int]


@dataclass(frozen=True)
class Check:
    """One kind and width of memory instruction: its static count in PTX and in SASS, and the verdict.

    state    'equal'; 'unrolled': replicated, executed counts agree; 'idle': never take effect; 'different'
    meaning  the consequence for the counts
    lines    the source lines that differ
    """

    opcode: str
    width: int
    simulated: int
    machine: int
    state: str
    meaning: str = ""
    lines: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.opcode}.{8 * self.width}"


def cross_check(counters: Counters, sass: Sass) -> tuple[Check, ...]:
    """Compare static counts by kind and width, including instructions that never execute.

    There is nothing to compare with for a kernel that is given as PTX.
    """
    if not sass.instructions:
        return ()
    ptx = Counter(_places_in_ptx(counters))
    machine = Counter(_places_in_sass(i for i in sass.instructions if i.predicate not in _NEVER))
    idle = Counter(kind for kind, _ in _places_in_sass(i for i in sass.instructions if i.predicate in _NEVER))
    growths = _growths(ptx, machine)
    before, after = _by_kind(ptx), _by_kind(machine)
    checks = []
    for kind in sorted(k for k in {*before, *after} if k[0] in _MEMORY):
        here, there = before[kind], after[kind]
        places = sorted({p for k, p in (*ptx, *machine) if k == kind and ptx[k, p] != machine[k, p]})
        if here == there:
            state, places = "equal", []
        elif places and all(_replicated(kind, ptx[kind, p], machine[kind, p], growths) for p in places):
            state = "unrolled"
        else:
            state = "different"
        meaning = _difference(kind, before, after) if state == "different" else _MEANING[state]
        lines = tuple(f"{file}:{line}" for file, line in places)
        checks.append(Check(*kind, here, there, state, meaning, lines))
    checks += [Check(*kind, 0, count, "idle", _MEANING["idle"]) for kind, count in sorted(idle.items())]
    return tuple(checks)


def _by_kind(places: Counter[tuple[Kind, Place]]) -> Counter[Kind]:
    total: Counter[Kind] = Counter()
    for (kind, _), count in places.items():
        total[kind] += count
    return total


def _growths(
    ptx: Counter[tuple[Kind, Place]], machine: Counter[tuple[Kind, Place]]
) -> dict[Fraction, set[tuple[Kind, Place]]]:
    """Replication factors, each with the instructions (kind and line) that the machine code replicates by it."""
    found: dict[Fraction, set[tuple[Kind, Place]]] = {}
    for key, count in ptx.items():
        if machine[key] > count:
            found.setdefault(Fraction(machine[key], count), set()).add(key)
    return found


def _replicated(kind: Kind, before: int, after: int, growths: dict[Fraction, set[tuple[Kind, Place]]]) -> bool:
    """Whether arithmetic or another kind of access was replicated equally, which indicates unrolling."""
    if not after > before > 0:
        return False
    return any(other[0] != kind[0] for other, _ in growths.get(Fraction(after, before), ()))


def _difference(kind: Kind, before: Counter[Kind], after: Counter[Kind]) -> str:
    opcode, _ = kind
    here, there = before[kind], after[kind]
    moved = sum(w * (after[o, w] - before[o, w]) for o, w in {*before, *after} if o == opcode)
    if opcode in ("LDL", "STL") and there > here:
        return "ptxas spills registers; the simulator runs PTX and does not see this traffic"
    if moved == 0:
        return "ptxas merged or split accesses: the same bytes at another width, so requests and wavefronts differ"
    if here == 0:
        return f"{there} accesses occur only in the machine code; the simulator does not count them"
    if there < here:
        return f"ptxas dropped or merged {here - there}; the simulator may count too many"
    return f"{there - here} more in the machine code without unrolling; the simulator may count too few"


def _places_in_ptx(counters: Counters) -> Iterator[tuple[Kind, Place]]:
    for operation in counters.lowered.operations:
        place = operation.instruction.file, operation.instruction.line
        if (kind := _ptx_kind(counters, operation)) is not None:
            yield kind, place


def _ptx_kind(counters: Counters, operation: Operation[Any]) -> Kind | None:
    profiled, access = operation.profiled, operation.access
    if profiled.mix in (Mix.MULTIPLY_ADD, Mix.TENSOR):
        return "arithmetic", 0
    if not profiled.sass or access is None:
        return None
    width = counters.widths.get(operation.position, access.lane_bytes)
    return (profiled.sass, width) if width else None


def _places_in_sass(instructions: Iterator[Instruction]) -> Iterator[tuple[Kind, Place]]:
    for instruction in instructions:
        base, *modifiers = instruction.opcode.split(".")
        place = instruction.file or "", instruction.line or 0
        if base in MATH:
            yield ("arithmetic", 0), place
        elif base in _MATRICES:  # LDSM.16.M88.4: four matrices, one register of each per lane
            yield (base, 4 * next((int(m) for m in modifiers if m in ("2", "4")), 1)), place
        elif base in _MEMORY:
            yield (base, next((_WIDTHS[m] for m in modifiers if m in _WIDTHS), 4)), place
