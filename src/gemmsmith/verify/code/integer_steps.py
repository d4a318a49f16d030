"""The steps of a thread's walk that come most often, with as few Python operations as possible.

Each function makes a step for operands that are slots of the register list; constants have slots, too. A value that is
not known is None, and so is what is computed from it. Results are what ``integer_ops`` says, to the bit: sums and low
products do not depend on the signs of their operands, and the others get them first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gemmsmith.verify.code.integer_ops import Compute, Value

Registers = list[Value]
Step = Callable[[Registers], int | None]
"""Runs one instruction; returns where to go on, if not at the next."""

BELOW, EQUAL, ABOVE = 1, 2, 4


def signs_of(letter: str, width: int) -> tuple[int, int]:
    """(mask, sign): ``((bits & mask) ^ sign) - sign`` is the number that a bit pattern stands for."""
    return (1 << width) - 1, 1 << (width - 1) if letter == "s" else 0


def _copy(slot: int, a: int, mask: int) -> Step:
    def step(r: Registers) -> None:
        x = r[a]
        r[slot] = None if x is None else x & mask

    return step


def _add(slot: int, a: int, b: int, mask: int) -> Step:
    def step(r: Registers) -> None:
        x, y = r[a], r[b]
        r[slot] = None if x is None or y is None else (x + y) & mask

    return step


def _sub(slot: int, a: int, b: int, mask: int) -> Step:
    def step(r: Registers) -> None:
        x, y = r[a], r[b]
        r[slot] = None if x is None or y is None else (x - y) & mask

    return step


def _mul(slot: int, a: int, b: int, mask: int) -> Step:
    def step(r: Registers) -> None:
        x, y = r[a], r[b]
        r[slot] = None if x is None or y is None else (x * y) & mask

    return step


def _mad(slot: int, a: int, b: int, c: int, mask: int) -> Step:
    def step(r: Registers) -> None:
        x, y, z = r[a], r[b], r[c]
        r[slot] = None if x is None or y is None or z is None else (x * y + z) & mask

    return step


_LOW: dict[tuple[str, int], Callable[..., Step]] = {
    ("mov", 1): _copy, ("cvta", 1): _copy, ("add", 2): _add, ("sub", 2): _sub, ("mul", 2): _mul, ("mad", 3): _mad,
}  # fmt: skip


def low_step(name: str, slot: int, places: Sequence[int], mask: int) -> Step | None:
    """A step whose operands need no sign: moves, sums, the low halves of products; None for others."""
    words = name.split(".")
    if "wide" in words or "hi" in words or "sat" in words:
        return None
    make = _LOW.get((words[0], len(places)))
    return make(slot, *places, mask) if make is not None else None


def binary_step(run: Compute, slot: int, places: Sequence[int], letter: str, width: int, mask: int) -> Step:
    """Any computation of two operands of one type."""
    (a, b), (all_bits, sign) = places, signs_of(letter, width)

    def step(r: Registers) -> None:
        x, y = r[a], r[b]
        if x is None or y is None:
            r[slot] = None
        else:
            r[slot] = run(((x & all_bits) ^ sign) - sign, ((y & all_bits) ^ sign) - sign) & mask

    return step


def widening_step(slot: int, a: int, letter: str, before: int, mask: int) -> Step:
    """A conversion to a type that is no narrower."""
    all_bits, sign = signs_of(letter, before)

    def step(r: Registers) -> None:
        x = r[a]
        r[slot] = None if x is None else (((x & all_bits) ^ sign) - sign) & mask

    return step


def compare_step(
    test: Callable[[float, float], bool], slot: int, places: Sequence[int], letter: str, width: int,
    note: Callable[[int], None],
) -> Step:  # fmt: skip
    """A comparison of two integers; ``note`` is told the sign of their difference."""
    (a, b), (all_bits, sign) = places, signs_of(letter, width)

    def step(r: Registers) -> None:
        x, y = r[a], r[b]
        if x is None or y is None:
            r[slot] = None
            return
        x, y = ((x & all_bits) ^ sign) - sign, ((y & all_bits) ^ sign) - sign
        note(BELOW if x < y else ABOVE if x > y else EQUAL)
        r[slot] = 1 if test(x, y) else 0

    return step
