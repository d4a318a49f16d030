"""The kind of an operation, for readers of a trace."""

from __future__ import annotations

from typing import Any

from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.traits import Effect, Mix, Space
from gemmsmith.trace.launch_trace import Kind

_LOADS = {Space.GLOBAL: Kind.LOAD_GLOBAL, Space.SHARED: Kind.LOAD_SHARED, Space.LOCAL: Kind.LOCAL}
_STORES = {Space.GLOBAL: Kind.STORE_GLOBAL, Space.SHARED: Kind.STORE_SHARED, Space.LOCAL: Kind.LOCAL}
_OPCODES = {"ldmatrix": Kind.LOAD_MATRIX, "stmatrix": Kind.STORE_MATRIX, "mma": Kind.MMA, "fence": Kind.FENCE,
            "membar": Kind.FENCE, "bar": Kind.BARRIER, "barrier": Kind.BARRIER, "atom": Kind.ATOMIC,
            "red": Kind.ATOMIC}  # fmt: skip
_ARITHMETIC = ("fma", "mul", "add", "sub", "mad", "max", "min", "div", "ex2", "rcp", "sqrt", "rsqrt")
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")


def kind_of(operation: Operation[Any], space: Space | None) -> Kind:
    """``space`` is the memory that was reached, for an access through a generic pointer."""
    name, opcode = operation.instruction.name, operation.instruction.opcode
    if opcode in ("cp", "wgmma"):
        return _asynchronous(name)
    if opcode == "mbarrier":
        return Kind.PHASE_WAIT if "_wait" in name else Kind.ARRIVE if ".arrive" in name or "_tx" in name else Kind.OTHER
    if opcode in _OPCODES:
        return Kind.OTHER if name.startswith("bar.warp") else _OPCODES[opcode]
    if operation.access is not None and space is not None:
        table = _STORES if operation.access.effect is Effect.WRITE else _LOADS
        return table.get(space, Kind.OTHER)
    if operation.profiled.mix in (Mix.MULTIPLY_ADD, Mix.OTHER_FP32):
        return Kind.ARITHMETIC
    if opcode in _ARITHMETIC and name.rpartition(".")[2] in _FLOATS:
        return Kind.ARITHMETIC
    return Kind.OTHER


def _asynchronous(name: str) -> Kind:
    if ".commit_group" in name:
        return Kind.COMMIT
    if ".wait_" in name:
        return Kind.WAIT
    if ".mbarrier.arrive" in name:
        return Kind.ARRIVE
    if name.startswith("wgmma"):
        return Kind.WGMMA if "mma_async" in name else Kind.FENCE
    if ".bulk" in name:
        if "prefetch" in name:
            return Kind.OTHER
        parts = name.split(".")
        to = next((part for part in parts if part.startswith(("shared", "global"))), "")
        return Kind.BULK_LOAD if to.startswith("shared") else Kind.BULK_STORE
    return Kind.COPY


def group_family(name: str) -> str:
    """What a commit or a wait is about: 'cp.async', 'cp.async.bulk' or 'wgmma'."""
    return "wgmma" if name.startswith("wgmma") else "cp.async.bulk" if ".bulk" in name else "cp.async"
