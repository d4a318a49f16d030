"""Loads and stores of global, shared and local memory, and through generic pointers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.lanewise import Function, compute, lanewise
from gemmsmith.sim.instructions.move import same
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form, nothing
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.live_parts import live_bytes
from gemmsmith.sim.lowering.places import Lowering, Refused, items, operands
from gemmsmith.sim.lowering.read_back import check_unmarked, marked
from gemmsmith.sim.lowering.traits import Access, Bundling, Counted, Effect, Metrics, Mix, Profiled, Quantity, Space
from gemmsmith.sim.memory.access_faults import AccessFault
from gemmsmith.sim.memory.global_memory import RAW
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import TYPE_BYTES, Array

WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"

SPACES = {"global": Space.GLOBAL, "const": Space.GLOBAL, "shared": Space.SHARED, "shared::cta": Space.SHARED,
          "shared::cluster": Space.SHARED,
          "local": Space.LOCAL, "": Space.GENERIC}  # fmt: skip
TYPES = "b8 u8 s8 b16 u16 s16 f16 bf16 b32 u32 s32 f32 f16x2 bf16x2 b64 u64 s64 f64"
# Orders, scopes and cache hints change neither what is read nor what is written.
FORM = {
    "order": "weak relaxed volatile", "scope": "cta cluster gpu sys", "space": " ".join(SPACES), "vec": "v2 v4",
    "hint": "nc ca cg cs lu cv wb wt L1::* L2::*", "type": TYPES,
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """A vector of ``count`` elements of a PTX type in some space."""

    space: Space
    count: int
    kind: str

    def access(self, effect: Effect) -> Access:
        element = TYPE_BYTES[self.kind]
        return Access(self.space, effect, element * self.count, element, element * self.count)


def decode(m: Modifiers) -> Form:
    form = Form(SPACES[m.get("space", "")], int(m.get("vec", "v1")[1:]), m["type"])
    if form.count * TYPE_BYTES[form.kind] > 16:
        raise Refused
    return form


def _lower_load(code: Lowering, i: Instruction, form: Form) -> Draft[None]:
    into, at, *_ = operands(i, 2, 3)  # a third is a cache policy
    targets = tuple([code.slot(target, form.kind) for target in items(into, form.count)])
    return Draft(None, targets, pointers=(code.pointer(at),), access=form.access(Effect.READ))


def _load(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    assert step.access is not None
    width = step.access.width
    space, addresses = machine.place_of(step, lanes)
    if machine.counters is not None:
        machine.counters.access(machine, step, space, lanes, addresses)
    if space is Space.GLOBAL:
        raw = machine.memory.gather(addresses, width)
    elif space is Space.PARAM:
        raw = parameter_bytes(machine, addresses.astype(np.int64), width)
    else:
        memory, bases = machine.window(space, lanes)
        index = memory.index(addresses, bases, width)
        raw = memory.gather(index, width, live_bytes(machine.lowered, step.operations))
        if machine.shadow is not None and space is Space.SHARED:
            machine.shadow.read_all(step.operations, machine.indices(lanes), index.reshape(step.count, -1))
    if machine.read_back is not None:
        check_unmarked(machine.read_back, step.operations, raw)
    put_vector(machine, step, lanes, raw)


def parameter_bytes(machine: Execution, at: Array, width: int) -> Array:
    """Elements of ``width`` bytes of the kernel's parameters."""
    parameters = np.frombuffer(machine.wave.parameters, np.uint8)
    beyond = (at < 0) | (at + width > parameters.size)
    if beyond.any():
        position = int(np.flatnonzero(beyond.reshape(-1))[0])
        raise AccessFault("out-of-bounds", position, int(at.reshape(-1)[position]),
                          f"the kernel has {parameters.size} bytes of parameters", Space.PARAM)  # fmt: skip
    raw: Array = np.ascontiguousarray(parameters[at[..., None] + np.arange(width)]).view(RAW[width])[..., 0]
    return raw


def put_vector(machine: Execution, step: Bundle[Any], lanes: Lanes, raw: Array) -> None:
    """Write raw elements to the targets, each of which takes its part of every element."""
    parts = len(step.targets)
    if parts == 1:
        machine.put(step.targets[0], lanes, raw.view(step.targets[0].dtype))
        return
    pieces = raw.view(RAW[raw.dtype.itemsize // parts]).reshape(*raw.shape, parts)
    for n, target in enumerate(step.targets):
        machine.put(target, lanes, np.ascontiguousarray(pieces[..., n]).view(target.dtype))


def _lower_store(code: Lowering, i: Instruction, form: Form) -> Draft[None]:
    at, values, *_ = operands(i, 2, 3)
    sources = tuple([code.source(source, form.kind) for source in items(values, form.count)])
    return Draft(None, (), sources, (code.pointer(at),), form.access(Effect.WRITE))


def _store(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    assert step.access is not None
    width = step.access.width
    space, addresses = machine.place_of(step, lanes)
    values = joined([spread_over(machine.fetch(source, lanes), addresses.shape) for source in step.sources], width)
    if machine.read_back is not None:
        values = marked(machine.read_back, step.operations, values, width)
    if machine.counters is not None:
        machine.counters.access(machine, step, space, lanes, addresses)
    if space is Space.GLOBAL:
        machine.memory.scatter(addresses, width, values)
        return
    if space is Space.PARAM:
        raise AccessFault("forbidden", 0, int(addresses.reshape(-1)[0]), "kernel parameters are read-only", space)
    memory, bases = machine.window(space, lanes)
    index = memory.index(addresses, bases, width)
    memory.scatter(index, width, values)
    if machine.shadow is not None and space is Space.SHARED:
        rows = zip(step.operations, index.reshape(step.count, -1), values.reshape(step.count, -1), strict=True)
        for operation, row, written in rows:
            machine.shadow.write(operation, machine.indices(lanes), row, written)


def spread_over(values: Any, shape: tuple[int, ...]) -> Array:
    """Values or a constant, one for each element of ``shape``."""
    if isinstance(values, np.ndarray) and values.shape == shape:
        return values
    return np.broadcast_to(values, shape)


def joined(columns: list[Array], width: int) -> Array:
    """The elements of a vector side by side, as one raw element of ``width`` bytes."""
    if len(columns) == 1:
        return np.ascontiguousarray(columns[0]).view(RAW[width])
    return np.ascontiguousarray(np.stack(columns, axis=-1)).view(RAW[width]).reshape(columns[0].shape)


def _global_metrics(op: str) -> Metrics:
    return ((f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum", Quantity.REQUESTS),
            (f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum", Quantity.SECTORS))  # fmt: skip


def _shared_metrics(op: str) -> Metrics:
    return ((f"smsp__sass_inst_executed_op_shared_{op}.sum", Quantity.REQUESTS),
            (WAVEFRONTS.format(op), Quantity.WAVEFRONTS), (CONFLICTS.format(op), Quantity.CONFLICTS))  # fmt: skip


def _without_order() -> dict[str, str]:
    return {word: choices for word, choices in FORM.items() if word != "order"}


def _lower_prefetch(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    """Caches change nothing here; the address is not accessed."""
    code.pointer(operands(i, 1)[0])
    return Draft(None)


def _lower_hint(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    """Of a range of bytes, which is not accessed."""
    code.pointer(operands(i, 2)[0])
    return Draft(None)


def _lower_policy(code: Lowering, i: Instruction, _: None) -> Draft[Function]:
    """A cache policy: what it holds does not matter."""
    return Draft(same, (code.slot(operands(i, 1, 2, 3, 4)[0], "b64"),), (np.uint64(0),))


def _is_in(m: Modifiers) -> Function:
    """Whether a generic address lies in the window of a space."""
    window = {"shared": 1, "local": 2, "param": 3}.get(m["space"].partition("::")[0], 0)
    return lambda a: (np.asarray(a) >> np.uint64(48)) == window


_LOADS = Counted(by_space={
    Space.GLOBAL: Profiled(Mix.GLOBAL_LOAD, "LDG", _global_metrics("ld")),
    Space.SHARED: Profiled(Mix.SHARED_LOAD, "LDS", _shared_metrics("ld")),
    Space.LOCAL: Profiled(Mix.LOCAL_LOAD, "LDL"),
    Space.GENERIC: Profiled(Mix.GLOBAL_LOAD, "LD"),
})  # fmt: skip
_STORES = Counted(by_space={
    Space.GLOBAL: Profiled(Mix.GLOBAL_STORE, "STG", _global_metrics("st")),
    Space.SHARED: Profiled(Mix.SHARED_STORE, "STS", _shared_metrics("st")),
    Space.LOCAL: Profiled(Mix.LOCAL_STORE, "STL"),
    Space.GENERIC: Profiled(Mix.GLOBAL_STORE, "ST"),
})  # fmt: skip

RECORDS = (
    Record("ld.order?.scope?.space?.hint*.vec?.type", where=FORM, decode=decode, lower=_lower_load, execute=_load,
           verb="read", counts=_LOADS),
    Record("ldu.space?.vec?.type", where={k: FORM[k] for k in ("space", "vec", "type")}, decode=decode,
           lower=_lower_load, execute=_load, verb="read", counts=_LOADS),
    Record("st.order?.scope?.space?.hint*.vec?.type", where=FORM, decode=decode, lower=_lower_store, execute=_store,
           verb="write", counts=_STORES),
    # Nothing moves past an acquire or a release.
    Record("ld.acquire.scope.space?.hint*.vec?.type", where=_without_order(), decode=decode, lower=_lower_load,
           execute=_load, verb="read", counts=_LOADS, bundling=Bundling.BOUNDARY),
    Record("st.release.scope.space?.hint*.vec?.type", where=_without_order(), decode=decode, lower=_lower_store,
           execute=_store, verb="write", counts=_STORES, bundling=Bundling.BOUNDARY),
    Record("prefetch.space?.level", where={"space": "global local const param", "level": "L1 L2 L2::*"}, decode=no_form,
           lower=_lower_prefetch, execute=nothing),
    Record("applypriority.space?.L2::evict_normal", where={"space": "global"}, decode=no_form, lower=_lower_hint,
           execute=nothing),
    Record("prefetchu.L1", decode=no_form, lower=_lower_prefetch, execute=nothing),
    Record("createpolicy.kind.hint*.b64", where={"kind": "fractional range cvt", "hint": "L2::* L2 global"},
           decode=no_form, lower=_lower_policy, execute=compute),
    lanewise("isspacep.space", "u64 -> pred", choose=_is_in,
             where={"space": "global const shared shared::cta shared::cluster local param"}),
)  # fmt: skip
