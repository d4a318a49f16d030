"""Arithmetic of fp16 and bf16 numbers, single or two in a word, rounded once to nearest even."""

from __future__ import annotations

from gemmsmith.sim.arithmetic import halves
from gemmsmith.sim.instructions.lanewise import Function, lanewise
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import AnyRecord
from gemmsmith.sim.lowering.traits import Counted, Mix, Profiled

_OTHER = Counted(Profiled(Mix.OTHER_FP32))
_FMA = Counted(Profiled(Mix.MULTIPLY_ADD))
_F16, _BF16 = {"type": "f16 f16x2"}, {"type": "bf16 bf16x2"}


def _arithmetic(name: str) -> AnyRecord:
    def choose(m: Modifiers) -> Function:
        return halves.arithmetic(name, m["type"], "ftz" in m, "sat" in m)

    return lanewise(f"{name}.rn?.ftz?.sat?.type", "type, type -> type", where=_F16, choose=choose, counts=_OTHER)


def _arithmetic_bf16(name: str) -> AnyRecord:
    return lanewise(f"{name}.rn?.type", "type, type -> type", where=_BF16, counts=_OTHER,
                    choose=lambda m: halves.arithmetic(name, m["type"]))  # fmt: skip


def _least(name: str) -> AnyRecord:
    def choose(m: Modifiers) -> Function:
        return halves.least(m["type"], name == "max", "ftz" in m, "NaN" in m, "xorsign" in m)

    return lanewise(f"{name}.ftz?.NaN?.xorsign?.abs?.type", "type, type -> type", where={"type": halves.KINDS},
                    choose=choose, counts=_OTHER)  # fmt: skip


RECORDS = (
    *(_arithmetic(name) for name in ("add", "sub", "mul")),
    *(_arithmetic_bf16(name) for name in ("add", "sub", "mul")),
    lanewise("fma.rn.ftz?.sat?.relu?.type", "type, type, type -> type", where=_F16, counts=_FMA,
             choose=lambda m: halves.arithmetic("fma", m["type"], "ftz" in m, "sat" in m, "relu" in m)),
    lanewise("fma.rn.relu?.type", "type, type, type -> type", where=_BF16, counts=_FMA,
             choose=lambda m: halves.arithmetic("fma", m["type"], relu="relu" in m)),
    lanewise("neg.ftz?.type", "type -> type", where={"type": halves.KINDS}, counts=_OTHER,
             choose=lambda m: halves.negate(m["type"], "ftz" in m)),
    lanewise("abs.ftz?.type", "type -> type", where={"type": halves.KINDS}, counts=_OTHER,
             choose=lambda m: halves.absolute(m["type"], "ftz" in m)),
    _least("min"),
    _least("max"),
)  # fmt: skip
