"""Follow one thread through a kernel's integer code and keep what each of its decisions met.

A *decision* is an instruction that treats numbers differently by their size or remainder: a comparison (of sizes, of
scalars), a minimum, a mask, a division, a shift to the right, a conversion to a narrower type; and a branch or a
selection by several of these. Only those are kept here that all threads of a block take alike: their operands depend on
sizes, scalars, the block and loop counters. What threads decide for themselves is among the walk's sites
(thread_walk.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from gemmsmith.sim.ptx.syntax import Entry, Immediate, Instruction, Register
from gemmsmith.verify.code.deciding_code import JUMPS, has_site, read_registers, thread_registers
from gemmsmith.verify.code.integer_ops import conversion, float_of, read_as, type_of
from gemmsmith.verify.code.integer_steps import ABOVE, BELOW, EQUAL, Registers, Step
from gemmsmith.verify.code.thread_walk import Thread, ThreadWalk

Outcome = Callable[..., int]
"""From the operands' bits to a bit that stands for what happened."""

NO_REST, ALL_BUT_ONE, ONE_MORE, OTHER_REST, LARGER = 1, 2, 4, 8, 16
NEXT_TO = 32  # of a number that is compared with a constant: one less, or one more
_FALSE, _TRUE = 1, 2  # of a predicate
_JOINING = ("and", "or", "xor")
_FEW_ROUNDS = 4
_LONG_LOOPS = (9, 33)  # rounds from which a loop counts as longer, and as long
_MOST_DIVISOR = 4096


def _sign(kind: tuple[str, int], constant: bool) -> Outcome:
    letter, width = kind

    def sign(a: int, b: int) -> int:
        x, y = (float_of(v, width) if letter == "f" else read_as(v, letter, width) for v in (a, b))
        found = BELOW if x < y else ABOVE if x > y else EQUAL if x == y else 0
        return found | NEXT_TO if constant and abs(x - y) == 1 else found

    return sign


def _remainder(kind: tuple[str, int], divisor: int = 0) -> Outcome:
    letter, width = kind

    def remainder(a: int, b: int = 0) -> int:
        x, by = read_as(a, letter, width), divisor or read_as(b, letter, width)
        if by <= 1:
            return 0
        rest = x % by
        found = NO_REST if rest == 0 else ALL_BUT_ONE if rest == by - 1 else ONE_MORE if rest == 1 else OTHER_REST
        return found | (LARGER if x >= by else 0)

    return remainder


def divisor_of(magic: int) -> int:
    """The divisor for which a compiler multiplies by ``magic`` and keeps the upper 32 bits; 0: none is known."""
    for shift in range(7):
        scale = 2 ** (32 + shift)
        divisor = round(scale / magic) if magic else 0
        usual = divisor & (divisor - 1) and divisor <= _MOST_DIVISOR  # powers of two are shifts
        if usual and magic in (-(-scale // divisor), scale // divisor):
            return divisor
    return 0


def _masked(bits: int, kind: tuple[str, int]) -> Outcome | None:
    """Of ``x & 31`` and of ``x & ~31``: what is left of a division by 32."""
    ones = (1 << kind[1]) - 1
    low = bits if bits & (bits + 1) == 0 else ~bits & ones
    return _remainder(kind, low + 1) if 0 < low < 1 << 24 and low & (low + 1) == 0 else None


def outcome_of(each: Instruction) -> Outcome | None:
    """What a decision met, from its operands; None for an instruction that decides nothing."""
    if each.opcode == "selp":
        return lambda *values: _TRUE if values[-1] else _FALSE
    if len(each.operands) < 2:
        return None
    kind, types, last = type_of(each.name), conversion(each.name), each.operands[-1]
    constant = last.bits if isinstance(last, Immediate) else 0
    if each.opcode == "cvt" and types is not None and types[0][1] < types[1][1]:
        limit = 1 << (types[0][1] - (types[0][0] == "s"))
        letter, before = types[1]
        return lambda x: ABOVE if read_as(x, letter, before) >= limit else BELOW
    if kind is None or kind == ("f", 16):
        return None
    if each.opcode == "setp" or (each.opcode in ("min", "max") and kind[0] != "f"):
        return _sign(kind, constant > 1 and kind[0] != "f")
    if kind[0] == "f":
        return None
    if each.opcode in ("div", "rem"):
        return _remainder(kind)
    if each.opcode == "shr" and 0 < constant < 24:
        return _remainder(kind, 1 << constant)
    if each.opcode == "and" and isinstance(last, Immediate):
        return _masked(constant & ((1 << kind[1]) - 1), kind)
    if each.name.startswith("mul.hi") and (divisor := divisor_of(constant & 0xFFFFFFFF)):
        return _remainder(kind, divisor)
    return None


class DecisionWalk(ThreadWalk):
    """A walk that keeps what the decisions of whole blocks met."""

    def __init__(self, entry: Entry) -> None:
        self._own = thread_registers(entry.instructions)
        self.decisions: list[Instruction] = []
        self._met: list[int] = []
        self._back: list[int] = []  # jumps that lead back
        super().__init__(entry)
        self.read_parameters(entry)

    def outcomes(self, thread: Thread, arguments: Mapping[str, bytes], most_steps: int) -> tuple[list[int], int]:
        """What each decision met, then how often each loop ran, then the sites of the thread; and the steps taken."""
        walk = self.follow(thread, arguments, most_steps)
        rounds = [_rounds(walk.jumps.get(at, 0)) for at in self._back]
        return [*self._met, *rounds, *walk.signs], walk.steps

    @property
    def shared_columns(self) -> int:
        """How many of the outcomes are the block's, and not a thread's own."""
        return len(self.decisions) + len(self._back)

    def where(self, column: int) -> Instruction | None:
        """The instruction of an outcome; None for a loop's."""
        if column < len(self.decisions):
            return self.decisions[column]
        return self.sites[column - self.shared_columns] if column >= self.shared_columns else None

    def _is_site(self, each: Instruction) -> bool:
        return has_site(each) or (outcome_of(each) is not None and self._is_shared(each)) or self._joins(each)

    def _is_shared(self, each: Instruction) -> bool:
        """Whether all threads of a block decide alike; of a comparison that also takes another predicate, its own two
        numbers count."""
        first = _first_source(each)
        compared = each.operands[first : first + 2] if each.opcode == "setp" else ()
        read = [o.name for o in compared if isinstance(o, Register)] if compared else read_registers(each)
        return not any(name in self._own for name in read)

    def _joins(self, each: Instruction) -> bool:
        """Whether several decisions of a block become one: ``a && b``."""
        alike = not any(name in self._own for name in read_registers(each))
        return alike and (_is_combined(each) or (each.name.endswith(".pred") and each.opcode in _JOINING))

    def _step(self, each: Instruction, at: int) -> Step:
        step = super()._step(each, at)
        if each.guard is None or each.opcode not in JUMPS or each.guard.name in self._own:
            return step
        number, guard = len(self.decisions), self._slot(each.guard.name)
        self.decisions.append(each)

        def noted(registers: Registers) -> int | None:
            held = registers[guard]
            if held is not None:
                self._met[number] |= _TRUE if held else _FALSE
            return step(registers)

        return noted

    def _unguarded(self, each: Instruction, at: int) -> Step:
        step, outcome = super()._unguarded(each, at), outcome_of(each)
        step = self._noting_result(each, step) if self._joins(each) else step
        if outcome is None or not self._is_shared(each):
            return step
        number, first = len(self.decisions), _first_source(each)
        self.decisions.append(each)
        chosen = each.operands[3:] if each.opcode == "selp" else each.operands[first : first + 2]
        sources = [self._source(operand) for operand in chosen]

        def noted(registers: Registers) -> int | None:
            values = [source(registers) for source in sources]
            if None not in values:
                self._met[number] |= outcome(*values)
            return step(registers)

        return noted

    def _noting_result(self, each: Instruction, step: Step) -> Step:
        """The step, of which the predicate that it makes of others is kept."""
        number, slot = len(self.decisions), self._target(each)
        self.decisions.append(each)

        def noted(registers: Registers) -> int | None:
            following, held = step(registers), registers[slot]
            if held is not None:
                self._met[number] |= _TRUE if held else _FALSE
            return following

        return noted

    def _branch(self, target: int, at: int) -> Step:
        if target <= at:
            self._back.append(at)
        return super()._branch(target, at)

    def _started(self, thread: Thread, arguments: Mapping[str, bytes]) -> Registers:
        self._met = [0] * len(self.decisions)
        registers, known = super()._started(thread, arguments), _in_cluster(thread)
        for slot, name in self._special.items():
            if name in known:
                registers[slot] = known[name]
        return registers


def _in_cluster(thread: Thread) -> dict[str, int]:
    """The special registers that tell the blocks of a cluster apart."""
    cluster = thread.geometry.cluster
    x, y, z = (at % by for at, by in zip(thread.block, cluster, strict=True))
    found = {"%cluster_ctarank": x + cluster[0] * (y + cluster[1] * z), "%cluster_nctarank": math.prod(cluster)}
    for axis, at, by in zip("xyz", (x, y, z), cluster, strict=True):
        found |= {f"%cluster_ctaid.{axis}": at, f"%cluster_nctaid.{axis}": by}
    return found


def _is_combined(each: Instruction) -> bool:
    """Whether a comparison's result is joined to another predicate at once."""
    return each.opcode == "setp" and any(word in _JOINING for word in each.name.split("."))


def _first_source(each: Instruction) -> int:
    return 2 if each.opcode == "setp" and len(each.operands) > 3 + _is_combined(each) else 1


def _rounds(count: int) -> int:
    """Few rounds as they are; more by parity and length: stages take turns, and pipelines have a depth."""
    if count < _FEW_ROUNDS:
        return count
    return _FEW_ROUNDS + count % 2 + 2 * sum(count >= long for long in _LONG_LOOPS)
