"""Warpgroup products: HGMMA, IGMMA and QGMMA, and what waits for them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from gemmsmith.sim.arithmetic.matrix_arithmetic import wgmma_arithmetic
from gemmsmith.sim.instructions.record import Draft
from gemmsmith.sim.instructions.wgmma import Product
from gemmsmith.sim.instructions.wgmma_groups import GroupWait
from gemmsmith.sim.lowering.operation import Source
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Access, Effect, Space, Traits, Wait
from gemmsmith.sim.memory.tensor_box import CHUNK
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.instructions.control import literal
from gemmsmith.sim.sass.instructions.tma import inside, joined
from gemmsmith.sim.sass.meaning import Part, modelled, ptx
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import Bracketed, MachineInstruction, Operand, Register, Symbol

_INPUTS = {"BF16": "bf16", "TF32": "tf32", "S8": "s8", "U8": "u8", "E4M3": "e4m3", "E5M2": "e5m2"}
_DEFAULT = {"HGMMA": "f16", "IGMMA": "s8", "QGMMA": "e4m3"}


@cache
def _at_once(name: str) -> Traits:
    return replace(ptx(name).record, waits_on=Wait.NOTHING)


def _gmma(code: Code, i: MachineInstruction) -> list[Part]:
    shape = next(m for m in i.modifiers if "x" in m)
    if not set(i.modifiers) <= {shape, "F32", "F16", "SAT", *_INPUTS}:
        raise Refused
    rows, columns, depth = shape.split("x")
    inputs = [_INPUTS[m] for m in i.modifiers if m in _INPUTS] or [_DEFAULT[i.opcode]]
    kinds = inputs * 2 if len(inputs) == 1 else inputs
    result = "s32" if i.opcode == "IGMMA" else "f16" if "F16" in i.modifiers else "f32"
    name = f"wgmma.mma_async.sync.aligned.m{rows}n{columns}k{depth}.{result}.{kinds[0]}.{kinds[1]}"
    name += ".satfinite" if "SAT" in i.modifiers else ""
    form = ptx(name).form
    target, *operands = i.operands
    first = operands[0]
    in_registers = isinstance(first, Register)
    of_a = code.words(replace(first, sign=""), 4) if isinstance(first, Register) else ()
    operands = operands[1:] if in_registers else operands
    descriptor, accumulators, *rest = operands
    base = inside(descriptor, "gdesc")
    assert isinstance(descriptor, Bracketed)
    if not in_registers:
        of_a = (joined(code, base),)
    of_b = joined(code, base, 2)  # the second pair, also where A is in registers and there is no first
    scale, negated = _scale(code, accumulators, rest)
    flags = set(descriptor.suffixes)
    if not flags <= {"tnspA", "tnspB", "negA", "negB"}:
        raise Refused
    negate_a = first.sign == "-" if isinstance(first, Register) else "negA" in flags
    product = Product(wgmma_arithmetic(form.a, form.b, form.d, form.saturate), form, in_registers, negate_a,
                      "negB" in flags, "tnspA" in flags, "tnspB" in flags, negated)  # fmt: skip
    targets = code.targets(target, "u32", form.columns * form.accumulator // 8)
    draft = Draft(product, targets, (*of_a, of_b, scale), access=Access(Space.SHARED, Effect.READ, CHUNK, 4, 0))
    parts = [replace(modelled(name, draft), traits=_at_once(name))]
    if Symbol("gsb0") in rest:
        commit = "wgmma.commit_group.sync.aligned"
        parts.append(replace(modelled(commit, Draft(None), counted=False), traits=_at_once(commit)))
    return parts


def _scale(code: Code, accumulators: Operand, rest: list[Operand]) -> tuple[Source, bool]:
    """Whether the accumulators are added to: always, never, or as a uniform predicate says; and if that is negated."""
    predicates = [o for o in rest if isinstance(o, Register) and o.predicate]
    if not predicates:
        if isinstance(accumulators, Register) and accumulators.number is None:
            return np.bool_(False), False
        return np.bool_(True), False
    (predicate,) = predicates
    if predicate.number is None:
        return np.bool_(predicate.sign != "!"), False
    return code.row(predicate.file, predicate.number, "pred"), predicate.sign == "!"


def _warpgroup(code: Code, i: MachineInstruction) -> Part:
    del code
    if i.modifiers == ("ARRIVE",):
        name = "wgmma.fence.sync.aligned"
        return replace(modelled(name, Draft(None)), traits=_at_once(name))
    if i.modifiers == ("DEPBAR", "LE"):
        return modelled("wgmma.wait_group.sync.aligned", Draft(GroupWait(literal(i.operands[1]))))
    raise Refused


RECORDS = (
    Opcode("HGMMA IGMMA QGMMA", _gmma, "*"),
    Opcode("WARPGROUP", _warpgroup, "ARRIVE DEPBAR LE"),
)
