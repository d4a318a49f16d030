"""Moves: mov of whole registers, of parts of registers, and of addresses between spaces (cvta)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.lanewise import Function, compute, lanewise
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, Refused, operands
from gemmsmith.sim.lowering.traits import Counted, Mix, Profiled
from gemmsmith.sim.memory.global_memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from gemmsmith.sim.ptx.syntax import SINK, Instruction, Symbol, Vector
from gemmsmith.sim.ptx.types import BITS, INTEGERS, TYPE_BYTES, Array

_RENAMED = Counted(Profiled(Mix.NONE))  # ptxas renames registers instead


def same(a: Array) -> Array:
    """The function of a move."""
    return a


@dataclass(frozen=True)
class Parts:
    """Which parts of a register a move takes: ``width`` bytes each."""

    width: int
    numbers: tuple[int, ...]


def _lower_pack(code: Lowering, i: Instruction, kind: str) -> Draft[Parts]:
    """mov.b64 %d, {%r0, %r1}"""
    target, source = operands(i, 2)
    if not isinstance(source, Vector):
        raise Refused
    width = TYPE_BYTES[kind] // len(source.items)
    sources = tuple([code.source(s, f"b{8 * width}") for s in source.items])
    return Draft(Parts(width, tuple(range(len(sources)))), (code.slot(target, kind),), sources)


def _pack(machine: Execution, step: Bundle[Parts], lanes: Lanes) -> None:
    bits = 8 * step.detail.width
    wide = np.dtype(f"u{step.detail.width * len(step.sources)}")
    total: Any = wide.type(0)
    for number, source in zip(step.detail.numbers, step.sources, strict=True):
        total = total | (np.asarray(machine.fetch(source, lanes)).astype(wide) << wide.type(bits * number))
    machine.put(step.targets[0], lanes, total)


def _lower_unpack(code: Lowering, i: Instruction, kind: str) -> Draft[Parts]:
    """mov.b64 {%r0, %r1}, %d"""
    target, source = operands(i, 2)
    if not isinstance(target, Vector):
        raise Refused
    width = TYPE_BYTES[kind] // len(target.items)
    wanted = [(number, item) for number, item in enumerate(target.items) if item != SINK]
    targets = tuple([code.slot(item, f"b{8 * width}") for _, item in wanted])
    return Draft(Parts(width, tuple([number for number, _ in wanted])), targets, (code.source(source, kind),))


def _unpack(machine: Execution, step: Bundle[Parts], lanes: Lanes) -> None:
    bits, narrow = 8 * step.detail.width, np.dtype(f"u{step.detail.width}")
    value = np.asarray(machine.fetch(step.sources[0], lanes))
    for target, number in zip(step.targets, step.detail.numbers, strict=True):
        machine.put(target, lanes, (value >> value.dtype.type(bits * number)).astype(narrow))


# Generic addresses of global memory are its own; shared and local memory have windows.
_WINDOWS = {"global": 0, "const": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW,
            "param": PARAM_WINDOW}  # fmt: skip


def _decode_cvta(m: Modifiers) -> np.uint64:
    """What is added to an address."""
    window = _WINDOWS[m["space"].partition("::")[0]]
    return np.uint64((-window if "to" in m else window) % (1 << 64))


def _lower_cvta(code: Lowering, i: Instruction, shift: np.uint64) -> Draft[Function]:
    target, source = operands(i, 2)
    return Draft(np.add, (code.slot(target, "u64"),), (code.source(source, "u64"), shift))


def _lower_frame(code: Lowering, i: Instruction, kind: str) -> Draft[Function]:
    """mov of the address of a function's own local variable: from the start of its frame."""
    target, source = operands(i, 2)
    offset = code.frame_offset(source.name) if isinstance(source, Symbol) else None
    if offset is None:
        raise Refused
    return Draft(np.add, (code.slot(target, kind),), (code.frame(), np.uint64(offset)))


def _frame_address(machine: Execution, step: Bundle[Function], lanes: Lanes) -> None:
    compute(machine, step, lanes)


def _type(m: Modifiers) -> str:
    return m["type"]


RECORDS = (
    lanewise("mov.type", "type -> type", same, where={"type": f"pred {BITS} {INTEGERS} f32 f64"}),
    Record("mov.type", where={"type": "b32 b64"}, decode=_type, lower=_lower_pack, execute=_pack, counts=_RENAMED),
    Record("mov.type", where={"type": "b32 b64"}, decode=_type, lower=_lower_unpack, execute=_unpack, counts=_RENAMED),
    Record("mov.type", where={"type": "u64 b64 s64"}, decode=_type, lower=_lower_frame, execute=_frame_address,
           counts=_RENAMED),
    Record("cvta.to?.space.u64", where={"space": "global const shared shared::cta shared::cluster local param"},
           decode=_decode_cvta, lower=_lower_cvta, execute=compute),
)  # fmt: skip
