"""Arithmetic of fp64 numbers in all rounding modes, with the NaN results of an H200."""

from __future__ import annotations

from functools import partial

import numpy as np

from gemmsmith.sim.arithmetic import exact64
from gemmsmith.sim.arithmetic.rounding import (
    absolute64,
    arithmetic64,
    float_max,
    float_min,
    fused64,
    negate64,
    quiet64,
    single64,
)
from gemmsmith.sim.instructions.lanewise import Function, lanewise
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.lowering.traits import Counted, Mix, Profiled

_OTHER = Counted(Profiled(Mix.OTHER_FP32))
_FMA = Counted(Profiled(Mix.MULTIPLY_ADD))
_MODES = {"mode": "rn rz rm rp"}


def _add(m: Modifiers) -> Function:
    mode = m.get("mode", "rn")
    return arithmetic64(np.add if mode == "rn" else partial(exact64.add, mode=mode))


def _subtract(m: Modifiers) -> Function:
    mode = m.get("mode", "rn")
    return arithmetic64(np.subtract if mode == "rn" else lambda a, b: exact64.add(a, np.negative(b), mode))


def _multiply(m: Modifiers) -> Function:
    mode = m.get("mode", "rn")
    return arithmetic64(np.multiply if mode == "rn" else partial(exact64.multiply, mode=mode))


def _divide(m: Modifiers) -> Function:
    mode = m["mode"]
    return arithmetic64(np.divide if mode == "rn" else partial(exact64.divide, mode=mode), prefer=0)


def _reciprocal(m: Modifiers) -> Function:
    return single64(lambda a: exact64.divide(np.ones_like(a), a, m["mode"]))


RECORDS = (
    lanewise("add.mode?.f64", "f64, f64 -> f64", choose=_add, where=_MODES, counts=_OTHER),
    lanewise("sub.mode?.f64", "f64, f64 -> f64", choose=_subtract, where=_MODES, counts=_OTHER),
    lanewise("mul.mode?.f64", "f64, f64 -> f64", choose=_multiply, where=_MODES, counts=_OTHER),
    lanewise("div.mode.f64", "f64, f64 -> f64", choose=_divide, where=_MODES),
    lanewise("fma.mode.f64", "f64, f64, f64 -> f64", where=_MODES, counts=_FMA,
             choose=lambda m: fused64(partial(exact64.fma, mode=m["mode"]))),
    lanewise("rcp.mode.f64", "f64 -> f64", choose=_reciprocal, where=_MODES),
    lanewise("sqrt.mode.f64", "f64 -> f64", where=_MODES,
             choose=lambda m: single64(partial(exact64.root, mode=m["mode"]))),
    lanewise("min.f64", "f64, f64 -> f64", lambda a, b: quiet64(float_min(a, b)), counts=_OTHER),
    lanewise("max.f64", "f64, f64 -> f64", lambda a, b: quiet64(float_max(a, b)), counts=_OTHER),
    lanewise("neg.f64", "f64 -> f64", negate64),
    lanewise("abs.f64", "f64 -> f64", absolute64),
)  # fmt: skip
