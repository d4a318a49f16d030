"""What an instruction means, in terms of PTX's table: functions of lanes, accesses, tensor-core products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.instructions.lanewise import Form, compute, compute_several
from gemmsmith.sim.instructions.record import Draft
from gemmsmith.sim.instructions.table import Decoded, table
from gemmsmith.sim.lowering.operation import Slot
from gemmsmith.sim.lowering.traits import Traits
from gemmsmith.sim.ptx.types import DTYPES, Array

Function = Callable[..., Any]
WIDE = ("b64", "u64", "s64", "f64")
HALF = ("f16", "bf16")  # numbers in the lower half of a register


def word_kind(kind: str) -> str:
    """The kind as which a register holds a value, or a part of one."""
    return "u32" if kind in WIDE or kind in HALF else kind


@dataclass(frozen=True)
class Part:
    """One operation that an instruction becomes. ``counted``: it stands for the instruction in the counts.

    ``guard``: a predicate of its own, which takes the place of the instruction's, and whether it is negated.
    """

    traits: Traits
    execute: Callable[..., None]
    draft: Draft[Any]
    counted: bool = True
    guarded: bool = True
    guard: tuple[Slot, bool] | None = field(default=None)


def ptx(name: str, kind: int = 0) -> Decoded:
    """The record of a PTX instruction; ``kind`` chooses among several of one name."""
    return table().find(name)[kind]


def function(name: str, mod32: bool = False) -> Function:
    """The function of a lane-wise PTX instruction; with ``mod32``, that of fp32 arithmetic modulo 2³²."""
    form = ptx(name).form
    assert isinstance(form, Form), name
    return form.mod32 if mod32 else form.function


def modelled(name: str, draft: Draft[Any], kind: int = 0, counted: bool = True) -> Part:
    """A part that does what a PTX instruction does."""
    record = ptx(name, kind).record
    return Part(record, record.execute, draft, counted)


PLAIN = Traits()


def lanewise(
    found: Function, targets: tuple[Slot, ...], sources: tuple[Any, ...], counted: bool = True,
    traits: Traits = PLAIN,
) -> Part:  # fmt: skip
    """A part that applies a function to every lane; it returns one value for each target, if there are several."""
    return Part(traits, compute if len(targets) == 1 else compute_several, Draft(found, targets, sources), counted,
                guarded=counted)  # fmt: skip


def _negated(x: Any) -> Any:
    return np.negative(x)


def _inverted(x: Any) -> Any:
    return np.invert(x)


def _lower_half(x: Any) -> Any:
    low = x & np.uint32(0xFFFF)
    return low | low << np.uint32(16)


def _upper_half(x: Any) -> Any:
    high = x >> np.uint32(16)
    return high | high << np.uint32(16)


def _byte(n: int) -> Function:
    return lambda x: (np.asarray(x).view(np.uint32) >> np.uint32(8 * n)) & np.uint32(0xFF)


CHANGES: dict[str, Function] = {
    "-": _negated, "~": _inverted, "!": np.logical_not, "|": np.abs, "-|": lambda x: np.negative(np.abs(x)),
    "H0_H0": _lower_half, "H1_H1": _upper_half, "B0": _byte(0), "B1": _byte(1), "B2": _byte(2), "B3": _byte(3),
    "H0": lambda x: np.asarray(x) & np.uint32(0xFFFF), "H1": lambda x: np.asarray(x) >> np.uint32(16),
    "H1_H0": lambda x: x,
}  # fmt: skip
# Signs of both numbers of a word.
_PACKED: dict[str, Function] = {
    "-": lambda x: x ^ np.uint32(0x80008000), "|": lambda x: x & np.uint32(0x7FFF7FFF),
    "-|": lambda x: (x & np.uint32(0x7FFF7FFF)) ^ np.uint32(0x80008000),
}  # fmt: skip


def _change(x: Any, names: tuple[str, ...], kind: str) -> Any:
    for name in names:
        packed = _PACKED.get(name) if kind.endswith("x2") else None
        x = (packed or CHANGES[name])(x)
    return x


def _half(word: Any, kind: str) -> Array:
    low = np.ascontiguousarray((np.asarray(word) & np.uint32(0xFFFF)).astype(np.uint16))
    found: Array = low.view(DTYPES[kind])
    return found


def join(low: Any, high: Any) -> Array:
    """Two words as one of 64 bits."""
    lower, upper = np.broadcast_arrays(low, high)
    joined: Array = lower.astype(np.uint64) | upper.astype(np.uint64) << np.uint64(32)
    return joined


@cache
def applied(
    found: Function, kinds: tuple[str, ...], changes: tuple[tuple[str, ...], ...], results: tuple[str, ...]
) -> Function:
    """A function of words: those of wide kinds are joined, signs and parts applied, and wide results split.

    One function for each combination, so that like operations are bundled.
    """
    wide = [kind in WIDE for kind in kinds]
    plain = not any(word_kind(kind) != kind for kind in (*kinds, *results))
    if plain and not any(changes) and len(results) == 1:
        return found

    def compute(*words: Any) -> Any:
        values, at = [], 0
        for kind, change, two in zip(kinds, changes, wide, strict=True):
            value = words[at]
            if two:
                value = join(words[at], words[at + 1]).view(DTYPES[kind])
            at += 2 if two else 1
            if kind in HALF:
                value = _half(_change(value, tuple(c for c in change if c[0] == "H"), "u32"), kind)
                change = tuple(c for c in change if c[0] != "H")
            values.append(_change(value, change, kind))
        given = found(*values)
        if len(results) == 1 and results[0] not in WIDE and results[0] not in HALF:
            return given
        if len(results) == 1 and results[0] in HALF:
            return np.ascontiguousarray(given).view(np.uint16).astype(np.uint32)
        return _split(given if len(results) > 1 else (given,), results)

    return compute


def _split(values: Any, kinds: tuple[str, ...]) -> list[Any]:
    words: list[Any] = []
    for value, kind in zip(values, kinds, strict=True):
        if kind in WIDE:
            raw = np.ascontiguousarray(value).view(np.uint64)
            words += [raw.astype(np.uint32), (raw >> np.uint64(32)).astype(np.uint32)]
        else:
            words.append(value)
    return words
