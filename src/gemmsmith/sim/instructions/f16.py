"""Arithmetic of single fp16 and bf16 numbers, rounded once to nearest even."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.instructions.lanewise import lanewise
from gemmsmith.sim.rounding import round_to_odd_sum, to_bfloat, to_half
from gemmsmith.sim.traits import Counted, Mix, Profiled
from gemmsmith.sim.types import Array

_OTHER = Counted(Profiled(Mix.OTHER_FP32))
_FMA = Counted(Profiled(Mix.MULTIPLY_ADD))


def _wide(a: Array) -> Array:
    return np.asarray(a).astype(np.float64)


RECORDS = (
    lanewise("add.rn?.f16", "f16, f16 -> f16", lambda a, b: to_half(_wide(a) + b), counts=_OTHER),
    lanewise("sub.rn?.f16", "f16, f16 -> f16", lambda a, b: to_half(_wide(a) - b), counts=_OTHER),
    lanewise("mul.rn?.f16", "f16, f16 -> f16", lambda a, b: to_half(_wide(a) * b), counts=_OTHER),
    lanewise("fma.rn.f16", "f16, f16, f16 -> f16",
             lambda a, b, c: to_half(round_to_odd_sum(_wide(a) * b, _wide(c))), counts=_FMA),
    lanewise("fma.rn.bf16", "bf16, bf16, bf16 -> bf16",
             lambda a, b, c: to_bfloat(round_to_odd_sum(_wide(a) * _wide(b), _wide(c))), counts=_FMA),
)  # fmt: skip
