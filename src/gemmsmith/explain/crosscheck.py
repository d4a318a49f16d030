"""Compare the memory instructions the simulator counted with those in the machine code, by kind and width.

ptxas may fuse, unroll, duplicate or drop what PTX says. The simulator's counts stand for the machine only where both
agree; every profile says where they do and, where not, how they differ. Source lines, which both sides carry, tell
an unrolled loop (each of its lines occurs as many times over) from a load that is done twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gemmsmith.compile.sass import MATH, Instruction, Sass
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.operation import Operation
from gemmsmith.sim.traits import Mix

_MATRICES = ("LDSM", "STSM")
_MEMORY = frozenset({"LDG", "STG", "LDS", "STS", "LDL", "STL", "LD", "ST", "LDGSTS", *_MATRICES})
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_NEVER = ("@!PT", "@!UPT")
_MEANING = {
    "equal": "",
    "unrolled": "ptxas unrolled the loop: its arithmetic grew as much, so executed counts are the same",
    "idle": "never take effect (predicate @!PT): ptxas puts them before LDGSTS; they touch no memory",
}

Kind = tuple[str, int]
Place = tuple[str, int]


@dataclass(frozen=True)
class Check:
    """One kind and width of memory instruction: how many in PTX as counted, how many in SASS, and the verdict.

    ``state`` is 'equal', 'unrolled' (the same instructions several times over: executed counts agree), 'idle'
    (machine instructions that never take effect) or 'different'. ``meaning`` says what follows; ``lines`` where.
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
    """Static counts by kind and width; instructions never executed are compared as well."""
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
    """How many times over each line's instructions occur in the machine code, and which do."""
    found: dict[Fraction, set[tuple[Kind, Place]]] = {}
    for key, count in ptx.items():
        if machine[key] > count:
            found.setdefault(Fraction(machine[key], count), set()).add(key)
    return found


def _replicated(kind: Kind, before: int, after: int, growths: dict[Fraction, set[tuple[Kind, Place]]]) -> bool:
    """Whether something else, arithmetic or another kind of access, grew just as much: then whole code was repeated."""
    if not after > before > 0:
        return False
    return any(other[0] != kind[0] for other, _ in growths.get(Fraction(after, before), ()))


def _difference(kind: Kind, before: Counter[Kind], after: Counter[Kind]) -> str:
    opcode, _ = kind
    here, there = before[kind], after[kind]
    moved = sum(w * (after[o, w] - before[o, w]) for o, w in {*before, *after} if o == opcode)
    if opcode in ("LDL", "STL") and there > here:
        return "ptxas spills registers; the simulator, which runs PTX, does not see this traffic"
    if moved == 0:
        return "ptxas joined or split accesses: the same bytes at another width, so requests and wavefronts differ"
    if here == 0:
        return f"only in the machine code: {there} accesses that the simulator does not count"
    if there < here:
        return f"ptxas dropped or merged {here - there}: the simulator may count too many"
    return f"{there - here} more in the machine code, where no loop was unrolled: the simulator may count too few"


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
        elif base in _MATRICES:  # LDSM.16.M88.4: four matrices, a register of each for every lane
            yield (base, 4 * next((int(m) for m in modifiers if m in ("2", "4")), 1)), place
        elif base in _MEMORY:
            yield (base, next((_WIDTHS[m] for m in modifiers if m in _WIDTHS), 4)), place
