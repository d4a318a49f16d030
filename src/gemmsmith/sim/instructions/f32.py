"""Arithmetic of fp32 numbers, rounded to nearest even. NaN results are NVIDIA's canonical NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim import rounding
from gemmsmith.sim.instructions.lanewise import lanewise
from gemmsmith.sim.rounding import canonical32
from gemmsmith.sim.traits import Counted, Mix, Profiled, Quantity
from gemmsmith.sim.types import Array


def _thread_metric(op: str) -> tuple[tuple[str, Quantity], ...]:
    return ((f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum", Quantity.THREADS),)


_FADD = Counted(Profiled(Mix.OTHER_FP32, metrics=_thread_metric("fadd")))
_FMUL = Counted(Profiled(Mix.OTHER_FP32, metrics=_thread_metric("fmul")))
_FFMA = Counted(Profiled(Mix.MULTIPLY_ADD, metrics=_thread_metric("ffma")))


def _words(x: Any) -> Array:
    return np.asarray(x).view(np.uint32)


def _add_mod32(a: Array, b: Array) -> Array:
    return (_words(a) + _words(b)).view(np.float32)


def _subtract_mod32(a: Array, b: Array) -> Array:
    return (_words(a) - _words(b)).view(np.float32)


def _multiply_mod32(a: Array, b: Array) -> Array:
    return (_words(a) * _words(b)).view(np.float32)


def _fma_mod32(a: Array, b: Array, c: Array) -> Array:
    return (_words(a) * _words(b) + _words(c)).view(np.float32)


RECORDS = (
    lanewise("add.rn?.f32", "f32, f32 -> f32", rounding.add32, mod32=_add_mod32, counts=_FADD),
    lanewise("sub.rn?.f32", "f32, f32 -> f32", rounding.sub32, mod32=_subtract_mod32, counts=_FADD),
    lanewise("mul.rn?.f32", "f32, f32 -> f32", rounding.mul32, mod32=_multiply_mod32, counts=_FMUL),
    lanewise("fma.rn.f32", "f32, f32, f32 -> f32", rounding.fma32, mod32=_fma_mod32, counts=_FFMA),
    lanewise("mad.rn.f32", "f32, f32, f32 -> f32", rounding.fma32, mod32=_fma_mod32, counts=_FFMA),
    lanewise("div.rn.f32", "f32, f32 -> f32", rounding.div32),
    lanewise("rcp.rn.f32", "f32 -> f32", lambda a: rounding.div32(np.ones_like(a), a)),
    lanewise("sqrt.rn.f32", "f32 -> f32", lambda a: canonical32(np.sqrt(a))),
    lanewise("neg.f32", "f32 -> f32", lambda a: canonical32(np.negative(a))),
    lanewise("abs.f32", "f32 -> f32", lambda a: canonical32(np.abs(a))),
    lanewise("min.f32", "f32, f32 -> f32", lambda a, b: canonical32(rounding.float_min(a, b))),
    lanewise("max.f32", "f32, f32 -> f32", lambda a, b: canonical32(rounding.float_max(a, b))),
)
