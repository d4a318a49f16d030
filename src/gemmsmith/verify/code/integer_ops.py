"""What PTX's integer instructions compute, on Python integers: as much as the path of one thread depends on.

Values are bit patterns without a sign, as wide as their register. An instruction that is not here has an unknown
result, which is None; so has one with an unknown operand.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

Value = int | None
Compute = Callable[..., int]
"""From operands, interpreted in the instruction's type, to the result before it is cut to the register's width."""

_TYPE = re.compile(r"\.([subf])(8|16|32|64)$")


def type_of(name: str) -> tuple[str, int] | None:
    """The last type in an instruction's name: ('s', 32); None for predicates and the rest."""
    found = _TYPE.search(name)
    return (found[1], int(found[2])) if found is not None else None


def read_as(bits: int, kind: str, width: int) -> int:
    """A bit pattern as a number of type ``kind``; floats are ordered as their numbers are."""
    bits &= (1 << width) - 1
    return bits - (1 << width) if kind == "s" and bits >> (width - 1) else bits


def float_of(bits: int, width: int) -> float:
    """The number that a pattern of 32 or 64 bits is."""
    code = "f" if width == 32 else "d"
    found: float = struct.unpack(f"<{code}", (bits & ((1 << width) - 1)).to_bytes(width // 8, "little"))[0]
    return found


def _quotient(a: int, b: int) -> int:
    if b == 0:
        return -1  # PTX leaves it open; GPUs give all ones
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _bit_field(a: int, start: int, length: int) -> int:
    return (a >> min(start & 255, 64)) & ((1 << min(length & 255, 64)) - 1)


def _logic(a: int, b: int, c: int, table: int) -> int:
    """lop3: each of the eight bits of ``table`` is for one combination of a, b and c."""
    found = 0
    for n in range(8):
        if table >> n & 1:
            found |= (a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c)
    return found


# By opcode; ``mul`` and ``mad`` have further words (lo, hi, wide), which ``computation`` sees to.
_PLAIN: dict[str, Compute] = {
    "mov": lambda a: a,
    "cvta": lambda a: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: -a,
    "abs": abs,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "div": _quotient,
    "rem": lambda a, b: a - b * _quotient(a, b) if b else a,
    "shl": lambda a, n: a << min(n & 0xFFFFFFFF, 64),
    "shr": lambda a, n: a >> min(n & 0xFFFFFFFF, 64),
    "bfe": _bit_field,
    "popc": lambda a: a.bit_count(),
    "lop3": _logic,
}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "lo": lambda a, b: a < b, "ls": lambda a, b: a <= b,
    "hi": lambda a, b: a > b, "hs": lambda a, b: a >= b,
    "equ": lambda a, b: not (a < b or a > b), "neu": lambda a, b: a != b, "ltu": lambda a, b: not a >= b,
    "leu": lambda a, b: not a > b, "gtu": lambda a, b: not a <= b, "geu": lambda a, b: not a < b,
}  # fmt: skip


def comparison(name: str) -> Callable[[float, float], bool] | None:
    """The test of a ``setp``; None for one that is not known."""
    words = name.split(".")
    return _COMPARE.get(words[1]) if len(words) > 1 else None


def computation(name: str) -> tuple[Compute, str, int] | None:
    """What an integer instruction computes, and the type of its operands; None for one that is not known."""
    opcode, words = name.partition(".")[0], name.split(".")
    kind = type_of(name)
    if opcode in ("mov", "cvta") and kind is not None:
        return _PLAIN[opcode], "u", kind[1]
    if kind is None or kind[0] == "f" or ".cc" in name or (opcode.endswith("c") and opcode != "popc"):
        return None
    letter, width = kind
    letter = "s" if letter == "s" else "u"
    if opcode in ("mul", "mad"):
        shift = width if "hi" in words else 0
        if opcode == "mul":
            return (lambda a, b: (a * b) >> shift), letter, width
        return (lambda a, b, c: ((a * b) >> shift) + c), letter, width
    if opcode == "mul24" and "lo" in words:
        return (lambda a, b: a * b), letter, width
    found = _PLAIN.get(opcode)
    return (found, letter, width) if found is not None else None


def conversion(name: str) -> tuple[tuple[str, int], tuple[str, int]] | None:
    """The types (to, from) of a conversion between integers; None for others."""
    found = re.search(r"\.([su])(8|16|32|64)\.([su])(8|16|32|64)$", name)
    if found is None or ".sat" in name:
        return None
    return (found[1], int(found[2])), (found[3], int(found[4]))
