"""What integer, bit, comparison and selection instructions must give, in Python's own integers.

Written from the PTX manual's definitions, bit by bit where it gives a loop; nothing here is shared with the simulator.
Values are raw bit patterns. ``meaning(name)`` returns a function from patterns to a pattern.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache

Oracle = Callable[..., int]


@cache
def width_of(kind: str) -> int:
    return int("".join(c for c in kind if c.isdigit()))


def read(kind: str, bits: int) -> int:
    """The number a pattern stands for; only the type's own bits of a wider register count."""
    width = width_of(kind)
    bits &= (1 << width) - 1
    return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits


def write(kind: str, value: int) -> int:
    """The pattern of a result; a byte is extended to the 16 bits of its register by its own sign."""
    width = width_of(kind)
    value %= 1 << width
    if width == 8 and kind[0] == "s" and value >> 7:
        value |= 0xFF00
    return value


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a - b * _divide(a, b)


_PLAIN: dict[str, Callable[..., int]] = {
    "add": operator.add, "sub": operator.sub, "mul.lo": operator.mul, "mad.lo": lambda a, b, c: a * b + c,
    "div": _divide, "rem": _remainder, "min": min, "max": max, "abs": abs, "neg": operator.neg, "mov": operator.pos,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "not": operator.invert,
    "cnot": lambda a: int(a == 0), "sad": lambda a, b, c: c + abs(a - b),
}  # fmt: skip
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip
COMBINE: dict[str, Callable[[bool, bool], bool]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def meaning(name: str) -> Oracle | None:
    """The oracle of an integer instruction, or None for any other."""
    opcode, *modes, kind = name.split(".")
    if kind == "pred":
        plain = {**COMBINE, "not": operator.not_, "mov": bool}[opcode]
        return lambda *p: int(plain(*map(bool, p)))
    if opcode == "selp":
        return lambda a, b, p: a if p else b
    if kind[0] not in "usb" or kind.startswith("bf"):
        return None
    if opcode == "setp":
        return _setp(modes, kind)
    if opcode in ("mul", "mad") and modes != ["lo"]:
        return _product(opcode, modes[0], kind)
    if opcode in _BITWISE:
        return _BITWISE[opcode](modes, kind)
    plain_function = _PLAIN[".".join((opcode, *modes))]
    return lambda *values: write(kind, plain_function(*(read(kind, v) for v in values)))


def _setp(modes: list[str], kind: str) -> Oracle:
    compare = COMPARE[modes[0]]
    if len(modes) == 1:
        return lambda a, b: int(compare(read(kind, a), read(kind, b)))
    combine = COMBINE[modes[1]]
    return lambda a, b, p: int(combine(compare(read(kind, a), read(kind, b)), bool(p)))


def _product(opcode: str, mode: str, kind: str) -> Oracle:
    width = width_of(kind)
    wide = f"{kind[0]}{2 * width}"

    def oracle(a: int, b: int, c: int = 0) -> int:
        product = read(kind, a) * read(kind, b)
        if mode == "wide":
            return write(wide, product + read(wide, c))
        return write(kind, (product >> width) + read(kind, c))

    assert opcode in ("mul", "mad")
    return oracle


def _shift_left(_: list[str], kind: str) -> Oracle:
    return lambda a, b: write(kind, a << min(b, 64))


def _shift_right(_: list[str], kind: str) -> Oracle:
    return lambda a, b: write(kind, read(kind, a) >> min(b, 64))


def _funnel(modes: list[str], _: str) -> Oracle:
    def oracle(a: int, b: int, c: int) -> int:
        n = c & 31 if modes[1] == "wrap" else min(c, 32)
        if modes[0] == "l":
            return ((b << n) | (a >> (32 - n))) & 0xFFFFFFFF
        return ((b << (32 - n)) | (a >> n)) & 0xFFFFFFFF

    return oracle


def _amount(kind: str, number: int) -> int:
    """A field's position or length: its low 8 bits; but an H200 takes all of it for 64-bit types."""
    return number & 0xFF if width_of(kind) == 32 else number


def _extract(_: list[str], kind: str) -> Oracle:
    """The manual's loop."""
    top = width_of(kind) - 1

    def oracle(a: int, b: int, c: int) -> int:
        position, length = _amount(kind, b), _amount(kind, c)
        sign = 0 if kind[0] == "u" or length == 0 else a >> min(position + length - 1, top) & 1
        result = 0
        for i in range(top + 1):
            bit = a >> (position + i) & 1 if i < length and position + i <= top else sign
            result |= bit << i
        return result

    return oracle


def _insert(_: list[str], kind: str) -> Oracle:
    top = width_of(kind) - 1

    def oracle(a: int, b: int, c: int, d: int) -> int:
        position, length = _amount(kind, c), _amount(kind, d)
        result = b
        for i in range(min(length, top - position + 1)):
            result = result & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
        return result

    return oracle


def _permute(_: list[str], __: str) -> Oracle:
    def oracle(a: int, b: int, c: int) -> int:
        source = a.to_bytes(4, "little") + b.to_bytes(4, "little")
        picked = []
        for i in range(4):
            selector = c >> (4 * i) & 0xF
            byte = source[selector & 7]
            picked.append((0xFF if byte & 0x80 else 0) if selector & 8 else byte)
        return int.from_bytes(bytes(picked), "little")

    return oracle


def _lop3(_: list[str], __: str) -> Oracle:
    def oracle(a: int, b: int, c: int, table: int) -> int:
        return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32))

    return oracle


_BITWISE: dict[str, Callable[[list[str], str], Oracle]] = {
    "shl": _shift_left, "shr": _shift_right, "shf": _funnel, "bfe": _extract, "bfi": _insert, "prmt": _permute,
    "lop3": _lop3,
    "popc": lambda _, __: lambda a: bin(a).count("1"),
    "clz": lambda _, kind: lambda a: width_of(kind) - a.bit_length(),
    "brev": lambda _, kind: lambda a: int(f"{a:0{width_of(kind)}b}"[::-1], 2),
}  # fmt: skip


def convert(saturate: bool, to: str, source: str) -> Oracle:
    """cvt between integer types."""
    low, high = limits(to)

    def oracle(a: int) -> int:
        value = read(source, a)
        return write(to, min(max(value, low), high) if saturate else value)

    return oracle


@cache
def limits(kind: str) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    width = width_of(kind)
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
