"""st.async and red.async: stores into the shared memory of a block of the cluster, counted by an mbarrier there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.memory import joined
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, items, operands
from gemmsmith.sim.lowering.traits import Access, Bundling, Counted, Effect, Mix, Profiled, Space
from gemmsmith.sim.memory.bulk_copies import BulkCopies, Load
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import DTYPES, TYPE_BYTES, Array
from gemmsmith.sim.waits.mbarriers import BYTES

_UPDATES: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, new: np.where(old >= new, 0, old + 1).astype(old.dtype),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1).astype(old.dtype),
}  # fmt: skip


@dataclass(frozen=True)
class AsyncStore:
    """``count`` elements of a PTX type for each lane; ``update`` is what red.async does with them."""

    kind: str
    count: int
    update: str = ""

    @property
    def nbytes(self) -> int:
        return TYPE_BYTES[self.kind] * self.count


def _decode(m: Modifiers) -> AsyncStore:
    return AsyncStore(m["type"], int(m.get("vec", "v1")[1:]), m.get("op", ""))


def _lower(code: Lowering, i: Instruction, form: AsyncStore) -> Draft[AsyncStore]:
    at, values, barrier = operands(i, 3)
    sources = tuple([code.source(value, form.kind) for value in items(values, form.count)])
    return Draft(form, (), sources, (code.pointer(at), code.pointer(barrier)),
                 Access(Space.SHARED, Effect.WRITE, form.nbytes, TYPE_BYTES[form.kind], form.nbytes))  # fmt: skip


def _store(machine: Execution, step: Bundle[AsyncStore], lanes: Lanes) -> None:
    form, shared, bases = step.detail, machine.shared, machine.shared_base[lanes]
    at, barrier = (machine.addresses(pointer, lanes, 1) for pointer in step.pointers)
    index = shared.index(at, bases, form.nbytes)
    barriers = shared.index(barrier, bases, BYTES)
    columns = [machine.spread(machine.fetch(source, lanes), lanes).copy() for source in step.sources]
    values = joined(columns, form.nbytes)

    def write(new: Array) -> None:
        if not form.update:
            shared.scatter(index, form.nbytes, new)
            return
        kind = DTYPES[form.kind]
        for n in range(index.size):  # one after the other: several may meet at one place
            old = shared.gather(index[n : n + 1], form.nbytes).view(kind)
            found = np.asarray(_UPDATES[form.update](old, new[n : n + 1].view(kind)))
            shared.scatter(index[n : n + 1], form.nbytes, found.view(values.dtype))

    machine.unit(BulkCopies).load(Load(step.first, machine.indices(lanes), index, form.nbytes, lambda: values, write,
                                       barriers, form.nbytes))  # fmt: skip


_WHERE = {"order": "weak relaxed", "scope": "cluster", "space": "shared::cluster"}

RECORDS = (
    Record("st.async.order?.scope?.space?.mbarrier::complete_tx::bytes.vec?.type",
           where={**_WHERE, "vec": "v2 v4", "type": "b32 u32 s32 f32 b64 u64 s64 f64"}, decode=_decode, lower=_lower,
           execute=_store, called="st.async", verb="write", bundling=Bundling.BOUNDARY,
           counts=Counted(Profiled(Mix.SHARED_STORE))),
    Record("red.async.order?.scope?.space?.mbarrier::complete_tx::bytes.op.type",
           where={**_WHERE, "op": " ".join(_UPDATES), "type": "b32 u32 s32 u64 s64"}, decode=_decode, lower=_lower,
           execute=_store, called="red.async", verb="update", bundling=Bundling.BOUNDARY,
           counts=Counted(Profiled(Mix.SHARED_STORE))),
)  # fmt: skip
