"""Arithmetic of fp32 numbers in all rounding modes. NaN results are NVIDIA's canonical NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic import directed, rounding
from gemmsmith.sim.arithmetic.rounding import canonical32
from gemmsmith.sim.instructions.lanewise import Function, lanewise
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import AnyRecord
from gemmsmith.sim.lowering.traits import Counted, Mix, Profiled, Quantity
from gemmsmith.sim.ptx.types import Array


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


def _rounded(name: str) -> Callable[[Modifiers], Function]:
    """The function by rounding mode, .ftz and .sat; the plain one is the fastest."""
    plain: dict[str, Function] = {
        "add": rounding.add32, "sub": rounding.sub32, "mul": rounding.mul32, "fma": rounding.fma32,
        "mad": rounding.fma32, "div": rounding.div32, "rcp": lambda a: rounding.div32(np.ones_like(a), a),
        "sqrt": lambda a: canonical32(np.sqrt(a)),
    }  # fmt: skip

    def choose(m: Modifiers) -> Function:
        mode = m.get("mode", "rn")
        if mode == "rn" and "ftz" not in m and "sat" not in m:
            return plain[name]
        return directed.arithmetic32(name, mode, "ftz" in m, "sat" in m)

    return choose


def _least(name: str) -> AnyRecord:
    def choose(m: Modifiers) -> Function:
        return directed.least32(name == "max", "ftz" in m, "NaN" in m, "xorsign" in m)

    return lanewise(f"{name}.ftz?.NaN?.xorsign?.abs?.f32", "f32, f32 -> f32", choose=choose)


_MODES = {"mode": directed.MODES}

RECORDS = (
    lanewise("add.mode?.ftz?.sat?.f32", "f32, f32 -> f32", choose=_rounded("add"), where=_MODES, mod32=_add_mod32,
             counts=_FADD),
    lanewise("sub.mode?.ftz?.sat?.f32", "f32, f32 -> f32", choose=_rounded("sub"), where=_MODES, mod32=_subtract_mod32,
             counts=_FADD),
    lanewise("mul.mode?.ftz?.sat?.f32", "f32, f32 -> f32", choose=_rounded("mul"), where=_MODES, mod32=_multiply_mod32,
             counts=_FMUL),
    lanewise("fma.mode.ftz?.sat?.f32", "f32, f32, f32 -> f32", choose=_rounded("fma"), where=_MODES, mod32=_fma_mod32,
             counts=_FFMA),
    lanewise("mad.rn.f32", "f32, f32, f32 -> f32", rounding.fma32, mod32=_fma_mod32, counts=_FFMA),
    lanewise("div.mode.ftz?.f32", "f32, f32 -> f32", choose=_rounded("div"), where=_MODES),
    lanewise("rcp.mode.ftz?.f32", "f32 -> f32", choose=_rounded("rcp"), where=_MODES),
    lanewise("sqrt.mode.ftz?.f32", "f32 -> f32", choose=_rounded("sqrt"), where=_MODES),
    lanewise("neg.f32", "f32 -> f32", lambda a: canonical32(np.negative(a))),
    lanewise("abs.f32", "f32 -> f32", lambda a: canonical32(np.abs(a))),
    lanewise("neg.ftz.f32", "f32 -> f32", lambda a: canonical32(np.negative(directed.flush32(a)))),
    lanewise("abs.ftz.f32", "f32 -> f32", lambda a: canonical32(np.abs(directed.flush32(a)))),
    _least("min"),
    _least("max"),
)  # fmt: skip
