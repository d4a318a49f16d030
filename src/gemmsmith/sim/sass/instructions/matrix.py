"""Tensor cores of a warp, and the loads that fill their fragments."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.instructions.matrix import Tiles
from gemmsmith.sim.instructions.record import Draft
from gemmsmith.sim.lowering.operation import Slot
from gemmsmith.sim.lowering.places import Refused
from gemmsmith.sim.lowering.traits import Effect, Traits, Wait
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.sass.code import Code
from gemmsmith.sim.sass.meaning import Part, join, lanewise, modelled, ptx
from gemmsmith.sim.sass.record import Opcode
from gemmsmith.sim.sass.syntax import MachineInstruction, Operand, Register

_SHAPES = {"16816": "m16n8k16", "1688": "m16n8k8", "1684": "m16n8k4", "16832": "m16n8k32", "16864": "m16n8k64",
           "8816": "m8n8k16", "8832": "m8n8k32"}  # fmt: skip
_DOUBLE_SHAPES = {"884": "m8n8k4", "8x8x4": "m8n8k4", "16x8x4": "m16n8k4", "16x8x8": "m16n8k8",
                  "16x8x16": "m16n8k16"}  # fmt: skip
_INPUTS = {"BF16": "bf16", "TF32": "tf32", "S8": "s8", "U8": "u8", "S4": "s4", "U4": "u4", "E4M3": "e4m3",
           "E5M2": "e5m2"}  # fmt: skip
_DEFAULT = {"HMMA": "f16", "IMMA": "s8", "QMMA": "e4m3"}


@cache
def _at_once(name: str) -> Traits:
    """The traits of a PTX instruction, without the wait for the rest of the warp: it must be there already."""
    record = ptx(name).record
    profiled = replace(record.counts.profiled, instructions=1)
    return replace(record, waits_on=Wait.NOTHING, counts=replace(record.counts, profiled=profiled))


def _mma(code: Code, i: MachineInstruction) -> Part:
    d, a, b, c = i.operands
    shape = next((_SHAPES[m] for m in i.modifiers if m in _SHAPES), "")
    inputs = [_INPUTS[m] for m in i.modifiers if m in _INPUTS] or [_DEFAULT[i.opcode]]
    kinds = inputs * 2 if len(inputs) == 1 else inputs
    results = "s32" if i.opcode == "IMMA" else "f16" if "F16" in i.modifiers else "f32"
    saturate = ".satfinite" if "SAT" in i.modifiers else ""
    name = f"mma.sync.aligned.{shape}.row.col{saturate}.{results}.{kinds[0]}.{kinds[1]}.{results}"
    if not shape or not table_has(name):
        raise Refused
    form = ptx(name).form
    of_a, of_b, of_c, of_d = form.registers
    sources = (*code.words(a, of_a), *code.words(b, of_b), *code.words(c, of_c))
    return replace(modelled(name, Draft(form, code.targets(d, "u32", of_d), sources)), traits=_at_once(name))


def table_has(name: str) -> bool:
    try:
        ptx(name)
    except IndexError:
        return False
    return True


def _dmma(code: Code, i: MachineInstruction) -> list[Part]:
    """fp64: each element is a pair of registers."""
    d, *abc = i.operands
    shape = next(_DOUBLE_SHAPES[m] for m in i.modifiers if m in _DOUBLE_SHAPES)
    name = f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64"
    form = ptx(name).form
    *inputs, of_d = form.registers
    sources = [_double(code, operand, n) for operand, count in zip(abc, inputs, strict=True) for n in range(count)]
    targets = tuple([code.unused("b64") for _ in range(of_d)])
    product = replace(modelled(name, Draft(form, targets, tuple(sources))), traits=_at_once(name))
    words = code.targets(d, "u32", 2 * of_d)
    halves = [lanewise(_halves, words[2 * n : 2 * n + 2], (target,), counted=False) for n, target in enumerate(targets)]
    return [product, *[replace(part, guarded=True) for part in halves]]


def _double(code: Code, operand: Operand, number: int) -> Slot:
    """A row with one of the doubles that lie in consecutive pairs of registers, with the operand's sign applied."""
    if not isinstance(operand, Register) or operand.absolute or operand.sign not in ("", "-"):
        raise Refused
    target = code.unused("b64")
    first = None if operand.number is None else operand.number + 2 * number
    words = code.words(Register(operand.file, first), 2)
    code.before.append(lanewise(_joined_negative if operand.sign else join, (target,), words, counted=False))
    return target


def _joined_negative(low: Any, high: Any) -> Array:
    return join(low, high) ^ np.uint64(1 << 63)


def _halves(value: Any) -> tuple[Any, Any]:
    raw = np.asarray(value)
    return raw.astype(np.uint32), (raw >> np.uint64(32)).astype(np.uint32)


def _ldsm(code: Code, i: MachineInstruction) -> Part:
    target, at = i.operands
    count = next((int(m) for m in i.modifiers if m in ("2", "4")), 1)
    transposed = "MT88" in i.modifiers
    if not transposed and "M88" not in i.modifiers:
        raise Refused
    tiles = Tiles(count, transposed, generic=False)
    name = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    draft = Draft(tiles, code.targets(target, "u32", count), (), (code.pointer(at),),
                  tiles.access(Effect.READ))  # fmt: skip
    return replace(modelled(name, draft), traits=_at_once(name))


def _stsm(code: Code, i: MachineInstruction) -> Part:
    at, value = i.operands
    count = next((int(m) for m in i.modifiers if m in ("2", "4")), 1)
    transposed = "MT88" in i.modifiers
    tiles = Tiles(count, transposed, generic=False)
    name = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    draft = Draft(tiles, (), code.words(value, count), (code.pointer(at),), tiles.access(Effect.WRITE))
    return replace(modelled(name, draft), traits=_at_once(name))


def _movm(code: Code, i: MachineInstruction) -> Part:
    target, value = i.operands
    name = "movmatrix.sync.aligned.m8n8.trans.b16"
    return replace(
        modelled(name, Draft(None, code.targets(target, "u32"), code.words(value, 1))), traits=_at_once(name)
    )


RECORDS = (
    Opcode("DMMA", _dmma, " ".join(_DOUBLE_SHAPES)),
    Opcode("HMMA IMMA QMMA", _mma, f"{' '.join(_SHAPES)} {' '.join(_INPUTS)} F32 F16 SAT", "ROW COL"),
    Opcode("LDSM", _ldsm, "2 4 M88 MT88", "16"),
    Opcode("STSM", _stsm, "2 4 M88 MT88", "16"),
    Opcode("MOVM", _movm, "16 MT88"),
)  # fmt: skip
