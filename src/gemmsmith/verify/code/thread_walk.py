"""Follow one thread through a kernel's integer code: which comparisons fall out how, and how often loops run.

Index arithmetic, loop bounds and guards of a product depend on sizes, block and thread, not on data. So one thread's
path costs a few Python operations for each of these instructions, and floating-point work is left out. Shapes for a
check are found that way (kernel_edges.py): no launch is needed to learn that a branch is taken from K = 1001 on.

A *site* is an instruction that treats numbers differently on two sides of a limit: a comparison, a minimum, a mask, a
conversion to a narrower type. For each site the walk keeps the signs of (number − limit) that occurred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.sim.ptx.syntax import Address, Entry, Instruction, Operand, Register, Symbol, Vector
from gemmsmith.verify.code.deciding_code import (
    BARRIERS,
    JUMPS,
    has_site,
    is_kept,
    limit_of,
    needed_registers,
    written_registers,
)
from gemmsmith.verify.code.integer_ops import (
    Value,
    comparison,
    computation,
    conversion,
    float_of,
    read_as,
    type_of,
)
from gemmsmith.verify.code.integer_steps import (
    ABOVE,
    BELOW,
    EQUAL,
    Registers,
    Step,
    binary_step,
    compare_step,
    low_step,
    widening_step,
)
from gemmsmith.verify.code.walk_operands import WalkOperands

_STOP = -1
_MOST_STEPS = 60_000  # of one walk, unless told otherwise


@dataclass(frozen=True)
class Thread:
    """A thread of a launch."""

    geometry: Geometry
    block: Dim3 = (0, 0, 0)
    thread: Dim3 = (0, 0, 0)

    def special(self) -> dict[str, int]:
        """The special registers that tell threads and blocks apart."""
        g = self.geometry
        found: dict[str, int] = {}
        values = (("tid", self.thread), ("ntid", g.block), ("ctaid", self.block), ("nctaid", g.grid))
        for name, dims in values:
            found |= {f"%{name}.{axis}": value for axis, value in zip("xyz", dims, strict=True)}
        number = self.thread[0] + g.block[0] * (self.thread[1] + g.block[1] * self.thread[2])
        return found | {"%laneid": number % 32, "%warpid": number // 32}


@dataclass
class Walk:
    """What one thread met.

    signs      of each site: which of BELOW, EQUAL and ABOVE occurred
    jumps      how often each branch that leads back was taken
    barriers   how many barriers of the block it came to
    complete   it ended, and no branch depended on what is not known
    """

    signs: list[int]
    jumps: dict[int, int] = field(default_factory=dict)
    complete: bool = True
    steps: int = 0
    barriers: int = 0


class ThreadWalk(WalkOperands):
    """The integer code of an entry, ready to be followed with any arguments."""

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self.sites: list[Instruction] = []
        self._signs: list[int] = []
        self._jumps: dict[int, int] = {}
        self._complete = True
        self._barriers = 0
        self._labels: dict[str, int] = {}
        needed = needed_registers(entry.instructions, self._is_site)
        kept = [n for n, each in enumerate(entry.instructions) if is_kept(each, needed, self._is_site)]
        position = {n: at for at, n in enumerate(kept)}
        for label, target in entry.labels:
            later = next((n for n in kept if n >= target), None)
            self._labels[label] = position[later] if later is not None else len(kept)
        self._tables = dict(entry.tables)
        self._steps = [self._step(entry.instructions[n], at) for at, n in enumerate(kept)]
        self._jumping = [entry.instructions[n].opcode in JUMPS for n in kept]
        self._straight: dict[int, tuple[int, list[Step]]] = {}

    def _is_site(self, each: Instruction) -> bool:
        return has_site(each)

    def follow(self, thread: Thread, arguments: Mapping[str, bytes], most_steps: int = _MOST_STEPS) -> Walk:
        """Walk as ``thread``; ``arguments`` by the names of the entry's parameters, unknown ones left out."""
        registers = self._started(thread, arguments)
        steps, at, end, taken = self._steps, 0, len(self._steps), 0
        straight = self._straight
        while 0 <= at < end and taken < most_steps:
            stop, body = straight.get(at) or self._straight_from(at)
            if taken + stop - at < most_steps:
                for step in body:
                    step(registers)
                taken += stop - at
                at = stop
                if at == end:
                    break
            target = steps[at](registers)
            at = at + 1 if target is None else target
            taken += 1
        self._complete &= taken < most_steps
        return Walk(self._signs, self._jumps, self._complete, taken, self._barriers)

    def _straight_from(self, at: int) -> tuple[int, list[Step]]:
        """Where the next jump is, and the steps up to there."""
        stop = at
        while stop < len(self._steps) and not self._jumping[stop]:
            stop += 1
        self._straight[at] = stop, self._steps[at:stop]
        return self._straight[at]

    def visited(self, thread: Thread, arguments: Mapping[str, bytes], most_steps: int = _MOST_STEPS) -> frozenset[int]:
        """The places in the code that ``thread`` comes to, each doubled, and one more where it jumps from there."""
        registers, seen = self._started(thread, arguments), set[int]()
        steps, at, end, taken = self._steps, 0, len(self._steps), 0
        while 0 <= at < end and taken < most_steps:
            target = steps[at](registers)
            seen.add(2 * at + (target is not None))
            at = at + 1 if target is None else target
            taken += 1
        return frozenset(seen)

    def _started(self, thread: Thread, arguments: Mapping[str, bytes]) -> Registers:
        special = thread.special()
        registers: Registers = [None] * len(self._slots)
        for slot, value in self._constants.items():
            registers[slot] = value
        for slot, name in self._special.items():
            registers[slot] = special.get(name)
        for slot, (name, offset, width) in self._parameters.items():
            data = arguments.get(name, b"")[offset : offset + width]
            registers[slot] = int.from_bytes(data, "little") if len(data) == width else None
        self._signs = [0] * len(self.sites)
        self._jumps, self._complete, self._barriers = {}, True, 0
        return registers

    # -- instructions as steps ----------------------------------------------------------------------------------------

    def _step(self, each: Instruction, at: int) -> Step:
        plain = self._unguarded(each, at)
        if each.guard is None:
            return plain
        guard, wanted = self._slot(each.guard.name), not each.negated
        targets = [self._slot(name) for name in written_registers(each)]

        def guarded(registers: Registers) -> int | None:
            held = registers[guard]
            if held is None:
                self._complete = False
                for target in targets:
                    registers[target] = None
                return None
            return plain(registers) if bool(held) == wanted else None

        return guarded

    def _unguarded(self, each: Instruction, at: int) -> Step:
        opcode = each.opcode
        if opcode == "bra":
            return self._branch(self._label(each.operands[0]), at)
        if opcode in ("ret", "exit", "trap"):
            return lambda _: _STOP
        if opcode in BARRIERS:
            return self._wait if ".warp" not in each.name else lambda _: None
        if opcode == "brx":
            return self._indirect(each)
        if opcode == "setp":
            return self._compare(each)
        if opcode == "selp":
            return self._select(each)
        if opcode == "cvt":
            return self._convert(each)
        if opcode == "ld" and ".param" in each.name and isinstance(each.operands[0], Register | Vector):
            return lambda _: None  # set before the walk
        if each.name.endswith(".pred"):
            return self._logic(each)
        return self._compute(each)

    def _branch(self, target: int, at: int) -> Step:
        if target > at:
            return lambda _: target

        def back(_: Registers) -> int:
            self._jumps[at] = self._jumps.get(at, 0) + 1
            return target

        return back

    def _wait(self, _: Registers) -> None:
        self._barriers += 1

    def _indirect(self, each: Instruction) -> Step:
        index, table = self._source(each.operands[0]), each.operands[1]
        names = self._tables.get(table.name, ()) if isinstance(table, Symbol) else ()
        targets = [self._labels[name] for name in names]

        def jump(registers: Registers) -> int | None:
            chosen = index(registers)
            if chosen is None or chosen >= len(targets):
                self._complete = False
                return None
            return targets[chosen]

        return jump

    def _compare(self, each: Instruction) -> Step:
        kind, test = type_of(each.name), comparison(each.name)
        combined = [word for word in each.name.split(".") if word in ("and", "or", "xor")]
        targets = 2 if len(each.operands) > 3 + bool(combined) else 1
        slots = [self._slot(o.name) if isinstance(o, Register) else -1 for o in each.operands[:targets]]
        if kind is None or test is None or (kind[0] == "f" and kind[1] == 16):
            return self._unknown(slots)
        letter, width = kind
        a, b = (self._source(operand) for operand in each.operands[targets : targets + 2])
        other = self._source(each.operands[targets + 2]) if combined else None
        site = self._site(each) if letter != "f" else -1
        word = combined[0] if combined else ""
        places = self._places(each.operands[targets : targets + 2])
        if places is not None and not combined and letter != "f" and targets == 1 and slots[0] >= 0:
            return compare_step(test, slots[0], places, letter, width, partial(self._note, site))

        def compare(registers: Registers) -> None:
            x, y = a(registers), b(registers)
            if x is None or y is None:
                result: Value = None
            else:
                left = float_of(x, width) if letter == "f" else read_as(x, letter, width)
                right = float_of(y, width) if letter == "f" else read_as(y, letter, width)
                if site >= 0:
                    self._signs[site] |= BELOW if left < right else ABOVE if left > right else EQUAL
                result = int(test(left, right))
            for number, slot in enumerate(slots):
                if slot >= 0:
                    own = result if number == 0 or result is None else 1 - result
                    registers[slot] = _combined(word, own, other(registers)) if other is not None else own

        return compare

    def _select(self, each: Instruction) -> Step:
        slot, (a, b, p) = self._target(each), (self._source(operand) for operand in each.operands[1:4])

        def select(registers: Registers) -> None:
            held = p(registers)
            registers[slot] = None if held is None else a(registers) if held else b(registers)

        return select

    def _convert(self, each: Instruction) -> Step:
        kinds, slot = conversion(each.name), self._target(each)
        if kinds is None:
            return self._unknown([slot])
        (to, width), (letter, before) = kinds
        source, mask = self._source(each.operands[1]), (1 << self._width(each)) - 1
        limit = 1 << (width - (to == "s"))
        site = self._site(each) if width < before else -1
        places = self._places(each.operands[1:2])
        if places is not None and site < 0 and width >= 32:
            return widening_step(slot, places[0], letter, before, mask)

        def convert(registers: Registers) -> None:
            x = source(registers)
            if x is None:
                registers[slot] = None
                return
            number = read_as(x, letter, before)
            if site >= 0:
                self._signs[site] |= ABOVE if number >= limit else BELOW
            registers[slot] = read_as(number, to, width) & mask

        return convert

    def _logic(self, each: Instruction) -> Step:
        slot, sources = self._target(each), [self._source(operand) for operand in each.operands[1:]]
        opcode = each.opcode

        def logic(registers: Registers) -> None:
            values = [source(registers) for source in sources]
            first = values[0]
            if opcode in ("and", "or", "xor"):
                registers[slot] = _combined(opcode, first, values[1])
            else:
                registers[slot] = None if first is None else 1 - first if opcode == "not" else first

        return logic

    def _compute(self, each: Instruction) -> Step:
        found = computation(each.name)
        targets = [self._slot(name) for name in written_registers(each)]
        if found is None or len(targets) != 1 or any(isinstance(o, (Vector, Address)) for o in each.operands):
            return self._unknown(targets)
        run, letter, width = found
        slot, mask = targets[0], (1 << self._width(each)) - 1
        sources = [self._source(operand) for operand in each.operands[1:]]
        wide = ".wide" in each.name
        limit = limit_of(each)
        site = self._site(each) if limit is not None else -1
        places = self._places(each.operands[1:])
        if places is not None and site < 0:
            if (low := low_step(each.name, slot, places, mask)) is not None:
                return low
            if len(places) == 2:
                return binary_step(run, slot, places, letter, width, mask)

        def compute(registers: Registers) -> None:
            values: list[int] = []
            for number, source in enumerate(sources):
                x = source(registers)
                if x is None:
                    registers[slot] = None
                    return
                values.append(read_as(x, letter, 2 * width if wide and number == 2 else width))
            if site >= 0:
                assert limit is not None
                other = values[1] if limit == 0 else limit
                self._signs[site] |= BELOW if values[0] < other else ABOVE if values[0] > other else EQUAL
            registers[slot] = run(*values) & mask

        return compute

    def _unknown(self, slots: Sequence[int]) -> Step:
        known = [slot for slot in slots if slot >= 0]

        def forget(registers: Registers) -> None:
            for slot in known:
                registers[slot] = None

        return forget

    # -- sites and labels ---------------------------------------------------------------------------------------------

    def _note(self, site: int, sign: int) -> None:
        self._signs[site] |= sign

    def _site(self, each: Instruction) -> int:
        self.sites.append(each)
        return len(self.sites) - 1

    def _label(self, operand: Operand) -> int:
        return self._labels[operand.name] if isinstance(operand, Symbol) else _STOP


def thread_walk(entry: Entry) -> ThreadWalk:
    """The integer code of ``entry``."""
    walk = ThreadWalk(entry)
    walk.read_parameters(entry)
    return walk


def _combined(word: str, a: Value, b: Value) -> Value:
    """A predicate of two; one of them may decide alone."""
    if word == "and" and 0 in (a, b):
        return 0
    if word == "or" and 1 in (a, b):
        return 1
    if a is None or b is None:
        return None
    return a & b if word == "and" else a | b if word == "or" else a ^ b
