"""Approximations: rcp, rsqrt, sqrt, ex2, lg2, sin, cos, tanh and div, bit for bit as an H200 computes them."""

from __future__ import annotations

from gemmsmith.sim.arithmetic import approximations, halves
from gemmsmith.sim.instructions.lanewise import Choice, lanewise
from gemmsmith.sim.lowering.traits import Counted, Mix, Profiled

_OTHER = Counted(Profiled(Mix.OTHER_FP32))


def _choose(name: str) -> Choice:
    return lambda m: approximations.approximate32(name, "ftz" in m)


RECORDS = (
    *(lanewise(f"{name}.approx.ftz?.f32", "f32 -> f32", counts=_OTHER, choose=_choose(name))
      for name in approximations.FUNCTIONS.split()),
    lanewise("tanh.approx.f32", "f32 -> f32", approximations.approximate32("tanh", False), counts=_OTHER),
    lanewise("tanh.approx.type", "type -> type", where={"type": halves.KINDS}, counts=_OTHER,
             choose=lambda m: halves.hyperbolic_tangent(m["type"])),
    lanewise("ex2.approx.type", "type -> type", where={"type": "f16 f16x2"}, counts=_OTHER,
             choose=lambda m: halves.exponential(m["type"])),
    lanewise("ex2.approx.ftz.type", "type -> type", where={"type": "bf16 bf16x2"}, counts=_OTHER,
             choose=lambda m: halves.exponential(m["type"])),
    lanewise("div.method.ftz?.f32", "f32, f32 -> f32", where={"method": "approx full"}, counts=_OTHER,
             choose=lambda m: approximations.divide32(m["method"] == "full", "ftz" in m)),
    lanewise("div.method.fma.ftz?.sat?.f32", "f32, f32, f32 -> f32", where={"method": "approx full"}, counts=_OTHER,
             choose=lambda m: approximations.divide_add32(m["method"] == "full", "ftz" in m, "sat" in m)),
    lanewise("rcp.approx.ftz.f64", "f64 -> f64", approximations.reciprocal64, counts=_OTHER),
    lanewise("rsqrt.approx.ftz?.f64", "f64 -> f64", choose=lambda m: approximations.rsqrt64("ftz" in m), counts=_OTHER),
)  # fmt: skip
