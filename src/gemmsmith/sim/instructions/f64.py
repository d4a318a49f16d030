"""Arithmetic of fp64 numbers, with the NaN results of an H200."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.instructions.lanewise import lanewise
from gemmsmith.sim.rounding import absolute64, arithmetic64, negate64
from gemmsmith.sim.traits import Counted, Mix, Profiled

_OTHER = Counted(Profiled(Mix.OTHER_FP32))

RECORDS = (
    lanewise("add.rn?.f64", "f64, f64 -> f64", arithmetic64(np.add), counts=_OTHER),
    lanewise("sub.rn?.f64", "f64, f64 -> f64", arithmetic64(np.subtract), counts=_OTHER),
    lanewise("mul.rn?.f64", "f64, f64 -> f64", arithmetic64(np.multiply), counts=_OTHER),
    lanewise("div.rn.f64", "f64, f64 -> f64", arithmetic64(np.divide, prefer=0)),
    lanewise("neg.f64", "f64 -> f64", negate64),
    lanewise("abs.f64", "f64 -> f64", absolute64),
)
