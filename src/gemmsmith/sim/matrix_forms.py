"""Lowering of the instructions that a warp executes as one: ldmatrix, stmatrix, movmatrix, mma.sync."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from gemmsmith.sim import ptx
from gemmsmith.sim.semantics import unknown
from gemmsmith.sim.tensor_core import arithmetic

if TYPE_CHECKING:
    from gemmsmith.sim.lower import Slot, Source

Fields = tuple[str, dict[str, Any]]

# Element bytes, and the depths that mma.sync has with 16 rows and 8 columns.
_DEPTHS = {"f16": (2, (16, 8)), "bf16": (2, (16, 8)), "tf32": (4, (8, 4)), "s8": (1, (32, 16)), "u8": (1, (32, 16))}


class MatrixLowering(ABC):
    """Handlers for matrix instructions; the lowering proper knows registers and addresses."""

    @abstractmethod
    def _slot(self, operand: ptx.Operand, kind: str, instruction: ptx.Instruction) -> Slot: ...

    @abstractmethod
    def _source(self, operand: ptx.Operand, kind: str, instruction: ptx.Instruction) -> Source: ...

    @abstractmethod
    def _address(self, operand: ptx.Operand, instruction: ptx.Instruction) -> tuple[Source, int]: ...

    def _op_ldmatrix(self, i: ptx.Instruction) -> Fields:
        if len(i.operands) != 2:
            raise unknown(i)
        count, transposed = _matrix_form(i)
        base, offset = self._address(i.operands[1], i)
        targets = tuple(self._slot(t, "b32", i) for t in _items(i, i.operands[0], count))
        return "ldmatrix", {"targets": targets, "sources": (base,), "space": "shared", "offsets": (offset,),
                            "width": 16, "number": int(transposed)}  # fmt: skip

    def _op_stmatrix(self, i: ptx.Instruction) -> Fields:
        if len(i.operands) != 2:
            raise unknown(i)
        count, transposed = _matrix_form(i)
        base, offset = self._address(i.operands[0], i)
        values = tuple(self._source(s, "b32", i) for s in _items(i, i.operands[1], count))
        return "stmatrix", {"sources": (base, *values), "space": "shared", "offsets": (offset,), "width": 16,
                            "number": int(transposed)}  # fmt: skip

    def _op_movmatrix(self, i: ptx.Instruction) -> Fields:
        if i.modifiers != ("sync", "aligned", "m8n8", "trans", "b16") or len(i.operands) != 2:
            raise unknown(i)
        return "movmatrix", {"targets": (self._slot(i.operands[0], "b32", i),),
                             "sources": (self._source(i.operands[1], "b32", i),)}  # fmt: skip

    def _op_mma(self, i: ptx.Instruction) -> Fields:
        """mma.sync.aligned.m16n8kK.row.col[.satfinite].D.A.B.C"""
        saturate = "satfinite" in i.modifiers
        names = [m for m in i.modifiers if m != "satfinite"]
        if len(names) != 9 or names[:2] != ["sync", "aligned"] or names[3:5] != ["row", "col"] or len(i.operands) != 4:
            raise unknown(i)
        shape, (d, a, b, c) = names[2], names[5:]
        size, depths = _DEPTHS.get(a, (0, ()))
        k = next((k for k in depths if shape == f"m16n8k{k}"), 0)
        whole = a in ("s8", "u8")
        if not k or d != c or d != ("s32" if whole else "f32") or saturate > whole:
            raise unknown(i)
        if b != a and not (whole and b in ("s8", "u8")):
            raise unknown(i)
        registers = k * size // 8, k * size // 16, 4
        sources = [self._source(o, "b32", i) for operand, count in zip(i.operands[1:], registers, strict=True)
                   for o in _items(i, operand, count)]  # fmt: skip
        targets = tuple(self._slot(o, "b32", i) for o in _items(i, i.operands[0], 4))
        return "mma", {"targets": targets, "sources": tuple(sources), "width": size,
                       "function": arithmetic(a, b, saturate)}  # fmt: skip


def _matrix_form(i: ptx.Instruction) -> tuple[int, bool]:
    """(matrices, transposed) of sync.aligned.m8n8.xN[.trans].shared.b16."""
    names = [m.removesuffix("::cta") for m in i.modifiers]
    transposed = "trans" in names
    names = [m for m in names if m != "trans"]
    if len(names) != 6 or names[:3] != ["sync", "aligned", "m8n8"] or names[4:] != ["shared", "b16"]:
        raise unknown(i)
    if names[3] not in ("x1", "x2", "x4"):
        raise unknown(i)
    return int(names[3][1:]), transposed


def _items(i: ptx.Instruction, operand: ptx.Operand, count: int) -> tuple[ptx.Operand, ...]:
    items = operand.items if isinstance(operand, ptx.Vector) else (operand,)
    if len(items) != count:
        raise unknown(i)
    return items
