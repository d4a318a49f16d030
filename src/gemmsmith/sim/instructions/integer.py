"""Integer arithmetic; it wraps as registers do."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim import integers
from gemmsmith.sim.instructions.lanewise import lanewise
from gemmsmith.sim.types import DTYPES, INTEGERS, SIGNED

_ANY = {"type": INTEGERS}
_SIGNED = {"type": SIGNED}
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


RECORDS = (
    lanewise("add.type", "type, type -> type", np.add, where=_ANY),
    lanewise("sub.type", "type, type -> type", np.subtract, where=_ANY),
    lanewise("mul.lo.type", "type, type -> type", np.multiply, where=_ANY),
    lanewise("mul.hi.type", "type, type -> type", integers.multiply_high, where=_ANY),
    lanewise("mad.lo.type", "type, type, type -> type", integers.mad_low, where=_ANY),
    lanewise("mad.hi.type", "type, type, type -> type", integers.mad_high, where=_ANY),
    *(
        record
        for kind, wide in _WIDER.items()
        for record in (
            lanewise(f"mul.wide.{kind}", f"{kind}, {kind} -> {wide}", integers.multiply_wide(DTYPES[wide])),
            lanewise(f"mad.wide.{kind}", f"{kind}, {kind}, {wide} -> {wide}", integers.mad_wide(DTYPES[wide])),
        )
    ),
    lanewise("sad.type", "type, type, type -> type", integers.sum_of_difference, where=_ANY),
    lanewise("div.type", "type, type -> type", integers.divide, where=_ANY),
    lanewise("rem.type", "type, type -> type", integers.remainder, where=_ANY),
    lanewise("min.type", "type, type -> type", np.minimum, where=_ANY),
    lanewise("max.type", "type, type -> type", np.maximum, where=_ANY),
    lanewise("neg.type", "type -> type", np.negative, where=_SIGNED),
    lanewise("abs.type", "type -> type", np.abs, where=_SIGNED),
)
