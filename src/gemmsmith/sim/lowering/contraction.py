"""Products that ptxas contracts with the sum that uses them: mul and add become one fma, rounded once.

PTX allows it where neither instruction names a rounding mode. ptxas does it within a basic block, by a rule that was
read off its machine code (tests/sim/test_contraction.py):

* the product is unguarded, does not saturate, and has the type and the .ftz of the sum;
* first the products that have one use, for each sum in order, its first operand before its second;
* then the products whose uses are all sums that took no other product.

A division by div.full or div.approx ends in such a product: a reciprocal times the numerator.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from gemmsmith.sim.lowering.rewriting import Rewriting, like
from gemmsmith.sim.ptx.syntax import (
    Address,
    Entry,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Sampled,
    Symbol,
    Vector,
)

_TYPES = r"(?P<type>f32|f64|f16|f16x2|bf16|bf16x2)"
_SUM = re.compile(rf"(?P<op>add|sub)(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.{_TYPES}")
_PRODUCT = re.compile(rf"(?P<op>mul|div\.full|div\.approx)(?P<ftz>\.ftz)?\.{_TYPES}")
_JUMPS = ("bra", "brx", "ret", "exit", "call", "trap")
_SIGN = {"f32": 1 << 31, "f64": 1 << 63}
_BITS = {"f32": "b32", "f64": "b64", "f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}


@dataclass
class _Uses:
    """Where a register is written and read; an instruction that does either in several ways is named as often."""

    written: list[int] = field(default_factory=list)
    read: list[int] = field(default_factory=list)


def contract(entry: Entry) -> Entry:
    """The entry with contracted products in place of mul and add."""
    if not any(_PRODUCT.fullmatch(i.name) for i in entry.instructions):
        return entry
    fused = _Contraction(entry).found()
    return _rewritten(entry, fused) if fused else entry


class _Contraction:
    """Which sum takes which product, by positions."""

    def __init__(self, entry: Entry) -> None:
        self.code = entry.instructions
        self.uses: dict[Register, _Uses] = defaultdict(_Uses)
        for n, instruction in enumerate(self.code):
            for register in _written(instruction):
                self.uses[register].written.append(n)
            for register in _read(instruction):
                self.uses[register].read.append(n)
        self.starts = _block_starts(entry)

    def found(self) -> dict[int, int]:
        fused: dict[int, int] = {}
        start = 0
        for end in (*self.starts, len(self.code)):
            self._block(start, end, fused)
            start = end
        return fused

    def _block(self, start: int, end: int, fused: dict[int, int]) -> None:
        sums = [n for n in range(start, end) if _SUM.fullmatch(self.code[n].name)]
        if not sums:
            return
        here = set(sums)
        for single in (True, False):
            for n in sums:
                for operand in self.code[n].operands[1:]:
                    product = self._product(operand, start, n)
                    if n in fused or product is None or not self._fits(product, n):
                        continue
                    uses = self._uses_of(product, end)
                    if single and uses == [n]:
                        fused[n] = product
                    elif not single and uses is not None and self._all_free(uses, product, here, fused):
                        fused.update(dict.fromkeys(uses, product))

    def _all_free(self, uses: list[int], product: int, here: set[int], fused: dict[int, int]) -> bool:
        """Whether each use is a sum of the block that fits and took no product yet."""
        fits = all(n in here and n not in fused and self._fits(product, n) for n in uses)
        return fits and len(set(uses)) == len(uses)

    def _product(self, operand: Operand, start: int, before: int) -> int | None:
        """The product of the block that an operand holds."""
        if not isinstance(operand, Register):
            return None
        writers = [n for n in self.uses[operand].written if start <= n < before]
        if not writers or self.code[writers[-1]].guard is not None:
            return None
        return writers[-1] if _PRODUCT.fullmatch(self.code[writers[-1]].name) else None

    def _fits(self, product: int, of: int) -> bool:
        a, b = _PRODUCT.fullmatch(self.code[product].name), _SUM.fullmatch(self.code[of].name)
        assert a is not None
        assert b is not None
        same: bool = a["type"] == b["type"] and a["ftz"] == b["ftz"]
        return same

    def _uses_of(self, product: int, end: int) -> list[int] | None:
        """Where the product is read, once for each operand; None where that cannot be told."""
        target = self.code[product].operands[0]
        assert isinstance(target, Register)
        uses = self.uses[target]
        if len(uses.written) == 1:
            return [n for n in uses.read if n > product] if min(uses.read, default=end) > product else None
        stop = next((n for n in uses.written if product < n < end and self.code[n].guard is None), None)
        if stop is None:
            return None
        return [n for n in uses.read if product < n <= stop]


def _rewritten(entry: Entry, fused: dict[int, int]) -> Entry:
    gone = set(fused.values())
    work = Rewriting(entry, ())
    changed = _changed_operands(entry.instructions, fused)
    saved: dict[tuple[int, int], Register] = {}
    instructions: list[Instruction] = []
    starts: list[int] = []
    for n, instruction in enumerate(entry.instructions):
        starts.append(len(instructions))
        if n in gone:
            for k in changed.get(n, ()):
                saved[n, k] = work.new(_BITS[_type(instruction)])
                instructions.append(like(instruction, f"mov.{_BITS[_type(instruction)]}", saved[n, k],
                                         instruction.operands[k]))  # fmt: skip
        elif n in fused:
            product = entry.instructions[fused[n]]
            factors = [saved.get((fused[n], k), product.operands[k]) for k in (1, 2)]
            instructions.append(_fused(instruction, product, factors))
        else:
            instructions.append(instruction)
    starts.append(len(instructions))
    labels = tuple((name, starts[at]) for name, at in entry.labels)
    return replace(
        entry, registers=(*entry.registers, *work.registers), instructions=tuple(instructions), labels=labels
    )


def _changed_operands(code: tuple[Instruction, ...], fused: dict[int, int]) -> dict[int, set[int]]:
    """Which operands of a product are overwritten before a sum that takes it."""
    changed: dict[int, set[int]] = defaultdict(set)
    for of, product in fused.items():
        written = {register for i in code[product:of] for register in _written(i)}
        changed[product] |= {k for k in (1, 2) if code[product].operands[k] in written}
    return changed


def _fused(instruction: Instruction, product: Instruction, factors: list[Operand]) -> Instruction:
    """The sum and its product as one instruction."""
    found, kind = _SUM.fullmatch(instruction.name), _type(instruction)
    assert found is not None
    target, first, second = instruction.operands
    is_first = first == product.operands[0]
    addend = second if is_first else first
    if found["op"] == "sub":
        if is_first:
            addend = _negative(addend, kind)
        else:
            factors = [_negative(factors[0], kind), factors[1]]
    ending = f"{found['ftz'] or ''}{found['sat'] or ''}.{kind}"
    name = f"fma.rn{ending}" if product.opcode == "mul" else f"{'.'.join(product.name.split('.')[:2])}.fma{ending}"
    return like(instruction, name, target, *factors, addend)


def _negative(operand: Operand, kind: str) -> Operand:
    if isinstance(operand, Immediate):
        return replace(operand, bits=operand.bits ^ _SIGN[operand.kind if operand.kind in _SIGN else kind])
    assert isinstance(operand, Register)
    return Negated(operand)


def _type(instruction: Instruction) -> str:
    return instruction.name.rpartition(".")[2]


# -- blocks, and what instructions read and write ------------------------------------------------------


def _block_starts(entry: Entry) -> list[int]:
    """Where a basic block begins: after a jump, and at a label that a jump names."""
    names = {symbol for i in entry.instructions for symbol in _symbols(i.operands)}
    names |= {name for _, targets in entry.tables for name in targets}
    starts = {at for name, at in entry.labels if name in names}
    starts |= {n + 1 for n, i in enumerate(entry.instructions) if i.opcode in _JUMPS}
    return sorted(starts)


def _symbols(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        if isinstance(operand, Symbol):
            yield operand.name
        elif isinstance(operand, Vector):
            yield from _symbols(operand.items)


def _written(instruction: Instruction) -> list[Register]:
    if not instruction.operands or instruction.opcode in ("st", "red", "bar", "barrier"):
        return []
    return list(_registers(instruction.operands[:1], addresses=False))


def _read(instruction: Instruction) -> list[Register]:
    """Also the registers of a first operand that is a vector: those of wgmma are read and written."""
    first = instruction.operands[:1]
    plain = bool(first) and isinstance(first[0], Register) and _written(instruction)
    found = list(_registers(instruction.operands[1:] if plain else instruction.operands))
    if instruction.guard is not None:
        found.append(instruction.guard)
        if plain:  # the target may keep what it held
            found += _registers(first)
    return found


def _registers(operands: Iterable[Operand], addresses: bool = True) -> Iterator[Register]:
    for operand in operands:
        if isinstance(operand, Register):
            yield operand
        elif isinstance(operand, Negated):
            yield operand.register
        elif isinstance(operand, Vector):
            yield from _registers(operand.items, addresses)
        elif isinstance(operand, Sampled) and addresses:
            yield from _registers((operand.base, operand.coordinates))
        elif isinstance(operand, Address) and addresses and isinstance(operand.base, Register):
            yield operand.base
