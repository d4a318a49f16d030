"""Follow one thread through indices that a kernel computes in floating point: ``row = tile * (1.0f / tiles_n)``.

Every float keeps, beside its bits, the number that it would be without rounding. Where a float becomes an integer, the
two may give different ones: 41 · fl(1/41) is less than 1.
"""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np

from gemmsmith.sim.arithmetic.approximations import approximate32, divide32
from gemmsmith.sim.ptx.syntax import Entry, Instruction
from gemmsmith.verify.code.deciding_code import has_site, read_registers, thread_registers
from gemmsmith.verify.code.integer_ops import float_of, read_as
from gemmsmith.verify.code.integer_steps import Registers, Step
from gemmsmith.verify.code.thread_walk import Thread, ThreadWalk

_TYPE = r"([suf])(8|16|32|64)"
_CONVERSION = re.compile(rf"^cvt(?:\.(r[nzmp]i?))?(?:\.ftz)?\.{_TYPE}\.{_TYPE}$")
_ARITHMETIC = re.compile(r"^(add|sub|mul|fma|mad|div|rcp|neg|abs|mov|min|max)\.(?:\w+\.)*?f(32|64)$")
_TO_INTEGER: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor,
                                                      "rpi": math.ceil}  # fmt: skip
_LARGEST_DIVISOR = 2**20
_ROUNDING = 2.0**-45  # of a few operations in 64 bits
_COMPUTED: dict[str, Callable[..., float]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "abs": abs, "mov": operator.pos, "min": min, "max": max,
    "fma": lambda a, b, c: a * b + c, "mad": lambda a, b, c: a * b + c, "rcp": lambda a: 1 / a,
}  # fmt: skip


class _Float(int):
    """The bits of a float, with the number that it stands for if nothing was rounded."""

    exact: float

    def __new__(cls, bits: int, exact: float) -> _Float:
        made = super().__new__(cls, bits)
        made.exact = exact
        return made


def is_index_of_float(each: Instruction) -> bool:
    """Whether an instruction makes an integer, or a whole float, of a float."""
    found = _CONVERSION.match(each.name)
    return found is not None and found[4] == "f" and found[1] in _TO_INTEGER


class FloatIndexWalk(ThreadWalk):
    """A walk that computes floats, and keeps where rounding made another integer of one.

    differ_in_block  threads of one block compute different indices in floating point
    """

    def __init__(self, entry: Entry) -> None:
        self.misrounded: list[Instruction] = []
        indices, own = list(filter(is_index_of_float, entry.instructions)), thread_registers(entry.instructions, False)
        self.has_indices = bool(indices)
        self.differ_in_block = any(name in own for each in indices for name in read_registers(each))
        super().__init__(entry)
        self.read_parameters(entry)

    def errors(self, thread: Thread, arguments: Mapping[str, bytes], most_steps: int) -> tuple[list[Instruction], int]:
        """The conversions whose integers rounding changed, and the steps of the walk."""
        self.misrounded = []
        walk = self.follow(thread, arguments, most_steps)
        return self.misrounded, walk.steps

    def _is_site(self, each: Instruction) -> bool:
        return has_site(each) or is_index_of_float(each)

    def _unguarded(self, each: Instruction, at: int) -> Step:
        if found := _CONVERSION.match(each.name):
            mode, to, width, origin, before = found.groups()
            if origin == "f" and mode in _TO_INTEGER:
                return self._index(each, _TO_INTEGER[mode], to, int(width), int(before))
            if to == "f" and int(width) > 16 and int(before) > 16:
                return self._float(each, operator.pos, origin, int(width), int(before))
        elif found := _ARITHMETIC.match(each.name):
            return self._float(each, _COMPUTED[found[1]], "f", int(found[2]), int(found[2]), _approximation(each.name))
        return super()._unguarded(each, at)

    def _index(self, each: Instruction, whole: Callable[[float], int], to: str, width: int, before: int) -> Step:
        slot, source = self._target(each), self._source(each.operands[1])

        def index(registers: Registers) -> None:
            bits, registers[slot] = source(registers), None
            value = None if bits is None else float_of(bits, before)
            if bits is None or value is None or not math.isfinite(value):
                return
            got, meant = whole(value), whole(_whole_if_near(_exact(bits, value)))
            if got != meant:
                self.misrounded.append(each)
            registers[slot] = _stored(got, meant, width) if to == "f" else got & ((1 << width) - 1)

        return index

    def _float(
        self, each: Instruction, compute: Callable[..., float], origin: str, width: int, before: int,
        rounded: Callable[..., float] | None = None,
    ) -> Step:  # fmt: skip
        slot, sources = self._target(each), [self._source(operand) for operand in each.operands[1:]]

        def step(registers: Registers) -> None:
            registers[slot] = None
            bits = [source(registers) for source in sources]
            if None in bits:
                return
            values = [float_of(x or 0, before) if origin == "f" else read_as(x or 0, origin, before) for x in bits]
            exact = [_exact(x or 0, value) if origin == "f" else value for x, value in zip(bits, values, strict=True)]
            with suppress(ZeroDivisionError, OverflowError, ValueError):
                registers[slot] = _stored((rounded or compute)(*values), compute(*exact), width)

        return step


def _exact(bits: int, value: float) -> float:
    """The number without rounding; of one that was not computed here, as an argument, its value, or the reciprocal of
    an integer that it was rounded from."""
    if isinstance(bits, _Float):
        return bits.exact
    if 1 / _LARGEST_DIVISOR <= value < 1:
        divisor = round(1 / value)
        if _in_32_bits(1 / divisor) == value:
            return 1 / divisor
    return value


def _whole_if_near(value: float) -> float:
    """An integer, if 64 bits rounded the number away from it."""
    nearest = round(value)
    return nearest if abs(value - nearest) <= _ROUNDING * max(1, abs(nearest)) else value


def _stored(value: float, exact: float, width: int) -> _Float:
    return _Float(int.from_bytes(struct.pack("<f" if width == 32 else "<d", value), "little"), exact)


def _in_32_bits(value: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return found


def _approximation(name: str) -> Callable[..., float] | None:
    """What GPUs compute for a reciprocal or a quotient that is not rounded to nearest; None for other operations."""
    opcode, ftz, full = name.partition(".")[0], ".ftz" in name, ".full" in name
    if opcode not in ("rcp", "div") or not (full or ".approx" in name) or name.endswith("64"):
        return None
    function = approximate32("rcp", ftz) if opcode == "rcp" else divide32(full, ftz)

    def compute(*values: float) -> float:
        return float(function(*(np.array([value], np.float32) for value in values))[0])

    return compute
