"""Comparison and selection: setp, optionally combined with a predicate, and selp."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.instructions.lanewise import COMPARE, Function, lanewise
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import AnyRecord
from gemmsmith.sim.types import BITS, INTEGERS, SIGNED, UNSIGNED

_ORDERED: dict[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_UNSIGNED: dict[str, Function] = {
    **_ORDERED, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def _with_nan(plain: Function) -> Function:
    """A comparison that is true with a NaN."""
    return lambda a, b: plain(a, b) | (a != a) | (b != b)


# Ordered comparisons are false with a NaN; those that end in 'u' are true with one.
_FLOATING: dict[str, Function] = {
    **_ORDERED,
    "ne": lambda a, b: (a < b) | (a > b),
    **{f"{name}u": _with_nan(function) for name, function in _ORDERED.items()},
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}
_COMBINE: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _setp(types: str, comparisons: dict[str, Function]) -> tuple[AnyRecord, AnyRecord]:
    """setp for some types: plain, and combined with a predicate."""
    names = {"type": types, "compare": " ".join(comparisons)}

    def plain(m: Modifiers) -> Function:
        return comparisons[m["compare"]]

    def combined(m: Modifiers) -> Function:
        compare, combine = comparisons[m["compare"]], _COMBINE[m["combine"]]
        return lambda a, b, predicate: combine(compare(a, b), predicate)

    return (
        lanewise("setp.compare.type", "type, type -> pred", where=names, choose=plain, counts=COMPARE),
        lanewise("setp.compare.combine.type", "type, type, pred -> pred", choose=combined, counts=COMPARE,
                 where={**names, "combine": " ".join(_COMBINE)}),
    )  # fmt: skip


RECORDS = (
    *_setp(SIGNED, _ORDERED),
    *_setp(UNSIGNED, _UNSIGNED),
    *_setp(BITS, {"eq": np.equal, "ne": np.not_equal}),
    *_setp("f16 f32 f64", _FLOATING),
    lanewise("selp.type", "type, type, pred -> type", lambda a, b, predicate: np.where(predicate, a, b),
             where={"type": f"{BITS} {INTEGERS} f32 f64"}),
)  # fmt: skip
