"""cp.async.bulk and cp.async.bulk.tensor: TMA copies, their groups, and what prepares for them.

A copy into shared memory is counted by an mbarrier. A copy out of it belongs to a group of its thread, which the thread
commits and waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic.bulk_reductions import OPERATIONS, TYPES
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.bulk_memory import (
    barrier_index,
    blocks_of,
    box_of,
    elements_of,
    read_global,
    read_shared,
    shared_index,
    write_bytes,
    write_shared,
    write_tensor,
)
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Operation, Source
from gemmsmith.sim.lowering.places import Lowering, Refused, items
from gemmsmith.sim.lowering.traits import Access, Bundling, Counted, Effect, Mix, Profiled, Quantity, Space
from gemmsmith.sim.memory.access_faults import AccessFault, LaneFault
from gemmsmith.sim.memory.bulk_copies import BulkCopies, Load, Store, chunk_lanes
from gemmsmith.sim.memory.tensor_box import CHUNK, SECTOR, Box
from gemmsmith.sim.memory.tile_origins import TileOrigins
from gemmsmith.sim.ptx.syntax import Address, Instruction, Operand, Sampled
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.waits.mbarriers import BYTES, MBarriers

# -- what is copied -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transfer:
    """Which way, and how it ends. ``rank`` is that of a tensor, 0 for plain bytes; ``reduce`` an operation and type.

    ``im2col``: '' for tiles, 'im2col', or 'im2col_no_offs' for stores.
    """

    to_shared: bool
    from_shared: bool
    rank: int = 0
    multicast: bool = False
    hinted: bool = False
    reduce: tuple[str, str] | None = None
    im2col: str = ""

    @property
    def offsets(self) -> int:
        """Operands that are added to the position of each pixel."""
        return self.rank - 2 if self.im2col == "im2col" else 0


def _decode(m: Modifiers) -> Transfer:
    """The two spaces come in the order destination, source."""
    to, start = m["to"], m["from"]
    rank = int(m["rank"][0]) if "rank" in m else 0
    im2col = m["mode"] if m.get("mode", "tile") != "tile" else ""
    if im2col and (rank < 3 or (im2col == "im2col") != (to != "global")):
        raise Refused
    reduce = (m["op"], m["type"]) if "op" in m else None
    if (to == "global") == (start == "global") == True:  # noqa: E712 - both global
        raise Refused
    return Transfer(to != "global", start != "global", rank, "multicast::cluster" in m, "L2::cache_hint" in m, reduce,
                    im2col)  # fmt: skip


def _tensor(code: Lowering, operand: Operand, rank: int) -> tuple[Source, ...]:
    """The sources of a tensor operand: the address of the map, then the coordinates."""
    if not isinstance(operand, Sampled) or len(operand.coordinates.items) != rank:
        raise Refused
    return (code.source(operand.base, "u64"), *[code.source(at, "s32") for at in operand.coordinates.items])


def _lower(code: Lowering, i: Instruction, form: Transfer) -> Draft[Transfer]:
    """Sources: the map, coordinates and im2col offsets, or the number of bytes; then the mask of a multicast."""
    given = list(i.operands[:-1] if form.hinted else i.operands)
    pointers: list[Operand] = []
    sources: list[Source] = []
    extra = [given.pop()] if form.multicast else []
    shifts = items(given.pop(), form.offsets) if form.offsets else ()
    if form.rank:
        tensor = next((o for o in given if isinstance(o, Sampled)), None)
        if tensor is None:
            raise Refused
        sources += [*_tensor(code, tensor, form.rank), *[code.source(shift, "u16") for shift in shifts]]
        pointers = [o for o in given if o is not tensor]
    else:
        pointers = [o for o in given if isinstance(o, Address)]
        plain = [o for o in given if not isinstance(o, Address)]
        if len(plain) != 1:
            raise Refused
        sources.append(code.source(plain[0], "u32"))
    expected = (1 if form.rank else 2) + form.to_shared
    if len(pointers) != expected:
        raise Refused
    sources += [code.source(mask, "u16") for mask in extra]
    effect = Effect.WRITE if form.to_shared else Effect.READ
    return Draft(form, (), tuple(sources), tuple([code.pointer(p) for p in pointers]),
                 Access(Space.SHARED, effect, CHUNK, 4, 0))  # fmt: skip


@dataclass(frozen=True)
class BulkSource:
    """The global side of a copy: the box at coordinates, innermost first, or bytes at an address.

    ``shared``: the address is of another block's shared memory.
    """

    box: Box | None
    at: tuple[int, ...]
    address: int
    shared: bool

    def elements(self) -> tuple[Array, Array] | None:
        """(addresses, whether they are in the tensor) of the box's elements; None for plain bytes."""
        if self.box is None:
            return None
        return self.box.elements(self.at[: self.box.rank], self.at[self.box.rank :])


@dataclass(frozen=True)
class Moved:
    """What one copy moves, element by element: addresses in global memory, which of them are in the tensor, and their
    positions in the wave's shared memory, for each block that gets them. ``rounds``: elements change on the way."""

    addresses: Array
    inside: Array
    shared: tuple[Array, ...]
    itemsize: int
    rounds: bool = False


def moved_elements(machine: Execution, step: Bundle[Transfer], lanes: Lanes) -> Iterator[Moved]:
    """The copies of these lanes between global and shared memory, one after another."""
    form, mine = step.detail, machine.indices(lanes)
    pointers = [machine.addresses(pointer, lanes, 1) for pointer in step.pointers]
    sources = [machine.spread(machine.fetch(source, lanes), lanes) for source in step.sources]
    for n, lane in enumerate(mine.tolist()):
        at, values = [int(p[n]) for p in pointers], [int(s[n]) for s in sources]
        mask = values.pop() if form.multicast else None
        box = box_of(machine, step.first, lane, values[0]) if form.rank else None
        nbytes = values[0] if box is None else box.nbytes
        shared_at, other = (at[0], at[1:]) if form.to_shared else (at[-1], at)
        blocks = blocks_of(machine, lane, shared_at, mask) if form.to_shared else [int(machine.block[lane])]
        if box is None:
            size, start = CHUNK, np.uint64(other[0])
            addresses = start + np.arange(0, nbytes, CHUNK).astype(np.uint64)
            inside = np.ones(addresses.size, bool)
        else:
            size = box.itemsize
            addresses, inside = elements_of(box, values)
        places = [shared_index(machine, block, shared_at, box, nbytes) for block in blocks]
        each = [(index[:, None] + np.arange(0, CHUNK, size)).reshape(-1) for index in places]
        rounds = box is not None and box.map.dtype.name.startswith("tf32") and form.to_shared
        yield Moved(addresses, inside, tuple(each), size, rounds)


# -- execution ----------------------------------------------------------------------------------------


def _copy(machine: Execution, step: Bundle[Transfer], lanes: Lanes) -> None:
    """One copy after another, for each lane."""
    form, mine = step.detail, machine.indices(lanes)
    pointers = [machine.addresses(pointer, lanes, 1) for pointer in step.pointers]
    sources = [machine.spread(machine.fetch(source, lanes), lanes) for source in step.sources]
    if mine.size > 1 and _copy_by_warps(machine, step.first, form, mine, pointers, sources):
        return
    requests: set[tuple[int, ...]] = set()
    for n, lane in enumerate(mine.tolist()):
        at = [int(p[n]) for p in pointers]
        values = [int(s[n]) for s in sources]
        request = (int(machine.warp[lane]), *at, *values)
        if _is_plain_store(form) and request in requests:
            continue
        requests.add(request)
        try:
            _one(machine, step.first, form, lane, at, values)
        except LaneFault as fault:
            raise LaneFault(n, fault.detail) from None


def _copy_by_warps(
    machine: Execution, operation: Operation[Transfer], form: Transfer, lanes: Array, pointers: list[Array],
    sources: list[Array],
) -> bool:  # fmt: skip
    """Make copies of plain bytes that all lanes of a warp issue as one, as cuda::memcpy_async of single threads does.

    False, and nothing is done, where copies differ in more than their addresses, or one is at fault.
    """
    plain = form.to_shared and not (form.from_shared or form.rank or form.multicast or form.reduce)
    if not plain or not machine.moves_data or machine.counters is not None or machine.recorder is not None:
        return False
    to, start, barrier = pointers
    nbytes, last = int(sources[0][0]), machine.shared.size
    if nbytes <= 0 or nbytes % CHUNK or (sources[0] != nbytes).any() or machine.wave.cluster_blocks > 1:
        return False
    if ((to % CHUNK) | (start % CHUNK) | (barrier % BYTES)).any() or int(barrier.max()) + BYTES > last:
        return False
    if int(to.max()) + nbytes > last or machine.memory.parts_missing(start, nbytes):
        return False
    base, chunks = machine.shared_base[lanes], np.arange(0, nbytes, CHUNK)
    targets = (to.astype(np.int64) + base)[:, None] + chunks
    wanted = start[:, None] + chunks.astype(np.uint64)
    places = barrier.astype(np.int64) + base
    try:
        machine.unit(MBarriers).load(places)
    except AccessFault:
        return False
    warps = machine.warp[lanes]
    keys = np.stack((warps, places), axis=1)
    for warp, place in sorted({(int(a), int(b)) for a, b in keys}):
        these = np.flatnonzero((warps == warp) & (places == place))
        index, source = targets[these].reshape(-1), wanted[these].reshape(-1)
        machine.memory.gather(source, CHUNK)
        write = write_shared(machine, [index])
        if machine.shadow is not None:
            write = _noting(machine, write, None, (), operation, int(lanes[these[0]]), [index])
        machine.unit(BulkCopies).load(Load(
            operation, np.repeat(lanes[these], chunks.size), index, CHUNK, _reading(machine, source), write,
            np.array([place]), nbytes, these.size))  # fmt: skip
    return True


def _reading(machine: Execution, source: Array) -> Callable[[], Array]:
    return lambda: machine.memory.gather(source, CHUNK)


def _is_plain_store(form: Transfer) -> bool:
    """Whether lanes of a warp that store the same box or bytes are one request.

    ptxas makes one UTMASTG of it, which a warp executes once: CuTe DSL leaves a warp's stores to all of its lanes.
    """
    return not form.to_shared and form.reduce is None


def _one(
    machine: Execution, operation: Operation[Transfer], form: Transfer, lane: int, at: list[int], values: list[int]
) -> None:
    mask = values.pop() if form.multicast else None
    box = box_of(machine, operation, lane, values[0]) if form.rank else None
    if box is not None and box.rank != form.rank:
        raise LaneFault(0, f"a copy of {form.rank} coordinates with a tensor map of {box.rank} dimensions")
    if box is not None and bool(form.im2col) != (box.map.im2col is not None):
        kinds = ("a tiled", "an im2col")
        raise LaneFault(0, f"{kinds[bool(form.im2col)]} copy with {kinds[not form.im2col]} tensor map")
    if box is not None:
        _check_start(box, values[1])
    nbytes = values[0] if box is None else box.nbytes
    copies = machine.unit(BulkCopies)
    if machine.counters is not None:
        _count(machine, operation, form, lane, at, values, mask, box, nbytes)
    if not form.to_shared:
        if machine.moves_data:
            _store(machine, operation, form, lane, at, values, box, nbytes)
        elif machine.recorder is not None:
            machine.recorder.bulk_store(machine, operation, lane, np.zeros(0, np.int64), nbytes, None)
        return
    barrier = at.pop()
    counting = blocks_of(machine, lane, barrier, mask)
    if not machine.moves_data:
        places = np.array([barrier_index(machine, block, barrier) for block in counting])
        if machine.recorder is not None:
            source = BulkSource(box, tuple(values[1:]), 0 if box is not None else at[1], form.from_shared)
            machine.recorder.bulk_load(machine, operation, lane, [], places, nbytes, source)
        machine.unit(MBarriers).landed(places, np.full(places.size, nbytes))
        return
    targets = [shared_index(machine, block, at[0], box, nbytes) for block in blocks_of(machine, lane, at[0], mask)]
    barriers = np.array([barrier_index(machine, block, barrier) for block in counting])
    if machine.recorder is not None:
        source = BulkSource(box, tuple(values[1:]), 0 if box is not None else at[1], form.from_shared)
        machine.recorder.bulk_load(machine, operation, lane, targets, barriers, nbytes, source)
    if form.from_shared:
        read = read_shared(machine, shared_index(machine, int(machine.block[lane]), at[1], None, nbytes))
    else:
        read = read_global(machine, box, values, at)
    write = write_shared(machine, targets, form.reduce)
    if machine.shadow is not None:
        write = _noting(machine, write, box, tuple(values[1 : 1 + form.rank]), operation, lane, targets)
    copies.load(Load(operation, chunk_lanes(lane, targets), np.concatenate(targets), CHUNK, read, write, barriers,
                     nbytes))  # fmt: skip


def _check_start(box: Box, at: int) -> None:
    """A box begins on 16 bytes along the innermost dimension: an H200 ends the kernel otherwise."""
    if (at * box.itemsize) % CHUNK:
        raise LaneFault(0, f"a copy by TMA at {at} along the innermost dimension of its tensor, which is "
                        f"{at * box.itemsize} bytes: it must be a multiple of {CHUNK}")  # fmt: skip


def _noting(machine: Execution, write: Callable[[Array], None], box: Box | None, at: tuple[int, ...],
            operation: Operation[Transfer], lane: int, targets: list[Array]) -> Callable[[Array], None]:  # fmt: skip
    """The same write, after which it is known what lies in shared memory."""

    def noted(chunks: Array) -> None:
        write(chunks)
        machine.unit(TileOrigins).landed(box, at, operation, lane, targets)

    return noted


def _count(machine: Execution, operation: Operation[Transfer], form: Transfer, lane: int, at: list[int],
           values: list[int], mask: int | None, box: Box | None, nbytes: int) -> None:  # fmt: skip
    """Tell the counters: sectors of global memory, and bytes of shared memory in all blocks that get them."""
    assert machine.counters is not None
    blocks = len(blocks_of(machine, lane, at[0], mask)) if form.to_shared else 1
    sectors = 0
    if box is not None:
        sectors = box.sectors(tuple(values[1 : 1 + box.rank]), tuple(values[1 + box.rank :]))
    elif not (form.to_shared and form.from_shared):
        start = at[1] if form.to_shared else at[0]
        sectors = (start + nbytes - 1) // SECTOR - start // SECTOR + 1
    machine.counters.bulk_copy(operation, sectors, nbytes, blocks)


def _store(machine: Execution, operation: Operation[Transfer], form: Transfer, lane: int, at: list[int],
           values: list[int], box: Box | None, nbytes: int) -> None:  # fmt: skip
    """A copy out of shared memory. Elements outside the tensor are neither read nor written."""
    if box is not None and box.map.interleave:
        raise LaneFault(0, f"a store to a tensor interleaved by {box.map.interleave} bytes, which is not simulated")
    copies = machine.unit(BulkCopies)
    source = shared_index(machine, int(machine.block[lane]), at[-1], box, nbytes)
    if machine.recorder is not None:
        target = BulkSource(box, tuple(values[1:]), 0 if box is not None else at[0], False)
        machine.recorder.bulk_store(machine, operation, lane, source, nbytes, target)
    if box is None:
        read, write = read_shared(machine, source), write_bytes(machine, values[0], at[0], form.reduce)
    else:
        elements, inside = box.written(*elements_of(box, values), tuple(values[1 : 1 + box.rank]))
        each = np.repeat(source, CHUNK // box.itemsize) + np.tile(np.arange(0, CHUNK, box.itemsize), source.size)
        read = read_shared(machine, each[inside], box.itemsize)
        write = write_tensor(machine, box, elements[inside], form.reduce)
        source = source[inside.reshape(source.size, -1).any(axis=1)]
    copies.store(Store(operation, lane, int(copies.committed[lane]), source, read, write))


# -- records ------------------------------------------------------------------------------------------

_SPACES = {"to": "shared::cluster shared::cta global", "from": "global shared::cta"}
_LOADS = {"to": "shared::cluster shared::cta", "from": "global shared::cta"}
_STORES = {"to": "global", "from": "shared::cta"}
_MODES = {
    "rank": "1d 2d 3d 4d 5d",
    "mode": "tile im2col im2col_no_offs",
    "end": "mbarrier::complete_tx::bytes bulk_group",
}
_OPS = {"op": OPERATIONS}
_COMMON: dict[str, Any] = {
    "lower": _lower, "execute": _copy, "verb": "copy by TMA", "bundling": Bundling.BOUNDARY,
    "counts": Counted(Profiled(Mix.COPY)),
}  # fmt: skip

_TENSOR = "cp.async.bulk.tensor.rank.to.from.mode?.end!.multicast::cluster?.L2::cache_hint?"


def _counted(name: str) -> Counted:
    return Counted(Profiled(Mix.COPY, metrics=((name, Quantity.EXECUTED),)))


RECORDS = (
    Record(_TENSOR, where={**_LOADS, **_MODES}, decode=_decode, called="cp.async.bulk.tensor",
           **{**_COMMON, "counts": _counted("smsp__inst_executed_op_tma_ld.sum")}),
    Record(_TENSOR, where={**_STORES, **_MODES}, decode=_decode, called="cp.async.bulk.tensor",
           **{**_COMMON, "counts": _counted("smsp__inst_executed_op_tma_st.sum")}),
    Record("cp.async.bulk.to.from.end!.multicast::cluster?.L2::cache_hint?",
           where={**_SPACES, "end": _MODES["end"]}, decode=_decode, called="cp.async.bulk", **_COMMON),
    Record("cp.reduce.async.bulk.tensor.rank.to.from.op.mode?.end!.L2::cache_hint?",
           where={**_SPACES, **_MODES, **_OPS}, decode=lambda m: _decode({**m, "type": ""}),
           called="cp.reduce.async.bulk.tensor", **_COMMON),
    Record("cp.reduce.async.bulk.to.from.end!.L2::cache_hint?.op.noftz?.type",
           where={**_SPACES, **_OPS, "end": _MODES["end"], "type": " ".join(TYPES)}, decode=_decode,
           called="cp.reduce.async.bulk", **_COMMON),
)  # fmt: skip
