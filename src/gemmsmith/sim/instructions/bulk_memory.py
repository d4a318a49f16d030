"""The memory that a bulk copy reads and writes: its tensor map, blocks, positions in shared memory, and addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gemmsmith.errors import UnsupportedError
from gemmsmith.sim.arithmetic.bulk_reductions import TYPES, reduced
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.memory import parameter_bytes
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.memory.global_memory import RAW, check_alignment, resolve_generic
from gemmsmith.sim.memory.map_changes import MapChanges
from gemmsmith.sim.memory.tensor_box import CHUNK, Box, decoded
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.waits.mbarriers import BYTES

_MAP_BYTES = 128
_TILE_ALIGNMENT = 128  # bytes, of a box in shared memory
_RANK_BITS = 24


class _ParameterMaps:
    """Tensor maps among the kernel's parameters, which do not change, by their addresses."""

    def __init__(self, machine: Execution) -> None:
        del machine
        self.known: dict[int, Box] = {}


def box_of(machine: Execution, operation: Operation[Any], lane: int, address: int) -> Box:
    if (known := machine.unit(_ParameterMaps).known.get(address)) is not None:
        return known
    space, inside = resolve_generic(np.array([address], np.uint64))
    if space is Space.PARAM:
        data = parameter_bytes(machine, inside.astype(np.int64) + np.arange(_MAP_BYTES), 1).tobytes()
    else:
        data = machine.memory.view(int(inside[0]), _MAP_BYTES).tobytes()
        machine.unit(MapChanges).used(operation, lane, int(inside[0]))
    try:
        found = decoded(data)
    except UnsupportedError:
        raise LaneFault(0, f"a copy by TMA with the map at {int(inside[0]):#x}: no tensor map is there") from None
    if space is Space.PARAM:
        machine.unit(_ParameterMaps).known[address] = found
    if found.map.interleave and (found.map.im2col is not None or found.map.nan_fill):
        how = "in im2col mode" if found.map.im2col is not None else "with NaN outside"
        raise LaneFault(
            0, f"a copy of a tensor interleaved by {found.map.interleave} bytes {how}, which is not simulated"
        )
    return found


def blocks_of(machine: Execution, lane: int, address: int, mask: int | None) -> list[int]:
    """The blocks of the wave that a copy writes to: those of a multicast, or the one that the address names."""
    own, together = int(machine.block[lane]), machine.wave.cluster_blocks
    first = own // together * together
    if mask is not None:
        if mask >> together:
            raise LaneFault(0, f"a multicast to {mask:#x}: the cluster has {together} blocks")
        return [first + rank for rank in range(together) if mask >> rank & 1]
    rank = address >> _RANK_BITS
    return [own if rank == 0 else first + rank - 1]


def shared_index(machine: Execution, block: int, address: int, box: Box | None, nbytes: int) -> Array:
    """Positions in the wave's shared memory of the 16-byte chunks of a copy."""
    start, shared = address & (1 << _RANK_BITS) - 1, machine.shared
    alignment = CHUNK if box is None else _TILE_ALIGNMENT
    if start % alignment:
        raise LaneFault(0, f"shared address {start:#x} of a copy: it must be a multiple of {alignment}")
    if nbytes % CHUNK:
        raise LaneFault(0, f"a bulk copy of {nbytes} bytes: it must be a multiple of {CHUNK}")
    chunks = start + np.arange(0, nbytes, CHUNK) if box is None else box.chunks(start)
    return shared.index(chunks, np.array(block * shared.stride), CHUNK)


def barrier_index(machine: Execution, block: int, address: int) -> int:
    start, shared = address & (1 << _RANK_BITS) - 1, machine.shared
    if start % BYTES == 0 and start + BYTES <= shared.size:
        return block * shared.stride + start
    return int(shared.index(np.array([start]), np.array([block * shared.stride]), BYTES)[0])  # which says what is wrong


def read_global(machine: Execution, box: Box | None, values: list[int], at: list[int]) -> Callable[[], Array]:
    """What fetches the chunks of a copy's source. A fault belongs to the thread that issues it, so look for it now."""
    memory = machine.memory
    if box is None:
        address, nbytes = at[1], values[0]
        check_alignment(np.array([address], np.uint64), CHUNK, Space.GLOBAL)
        source = np.uint64(address) + np.arange(0, nbytes, CHUNK).astype(np.uint64)
        memory.gather(source, CHUNK)
        return lambda: memory.gather(source, CHUNK)
    elements, inside = elements_of(box, values)
    wanted = elements[inside]
    memory.gather(wanted, box.itemsize)

    def read() -> Array:
        if box.map.interleave:
            found = np.zeros(elements.size, RAW[CHUNK])
        else:
            found = np.full(elements.size, box.fill(inside), f"u{box.itemsize}").view(RAW[box.itemsize])
        found[inside] = box.loaded(memory.gather(wanted, box.itemsize))
        return found.view(RAW[CHUNK])

    return read


def elements_of(box: Box, values: list[int]) -> tuple[Array, Array]:
    """Of a copy whose sources are the map, its coordinates, and im2col offsets."""
    return box.elements(tuple(values[1 : 1 + box.rank]), tuple(values[1 + box.rank :]))


def write_shared(
    machine: Execution, targets: list[Array], reduce: tuple[str, str] | None = None
) -> Callable[[Array], None]:
    shared = machine.shared

    def write(chunks: Array) -> None:
        for index in targets:
            new = chunks
            if reduce is not None:
                kind = TYPES[reduce[1]]
                old = np.ascontiguousarray(shared.gather(index, CHUNK)).view(kind)
                new = reduced(reduce[0], old, np.ascontiguousarray(chunks).view(kind)).view(RAW[CHUNK])
            shared.scatter(index, CHUNK, new)

    return write


def read_shared(machine: Execution, index: Array, width: int = CHUNK) -> Callable[[], Array]:
    return lambda: machine.shared.gather(index, width)


def write_bytes(
    machine: Execution, nbytes: int, address: int, reduce: tuple[str, str] | None
) -> Callable[[Array], None]:
    check_alignment(np.array([address], np.uint64), CHUNK, Space.GLOBAL)
    kind = None if reduce is None else TYPES[reduce[1]]
    width = CHUNK if kind is None else kind.itemsize
    wanted = np.uint64(address) + np.arange(0, nbytes, width).astype(np.uint64)
    return _write_global(machine, wanted, width, reduce, kind)


def write_tensor(
    machine: Execution, box: Box, wanted: Array, reduce: tuple[str, str] | None
) -> Callable[[Array], None]:
    """The element type of a reduction is in the map."""
    kind = np.dtype(box.map.dtype.numpy)
    return _write_global(machine, wanted, box.itemsize, reduce, kind, box.map.dtype.name.endswith("_ftz"))


def _write_global(
    machine: Execution,
    wanted: Array,
    width: int,
    reduce: tuple[str, str] | None,
    kind: np.dtype[Any] | None,
    flush: bool = False,
) -> Callable[[Array], None]:
    """What writes values to these addresses, or reduces those there with them. Faults are looked for now."""
    memory = machine.memory
    memory.parts(wanted)  # a fault belongs to the thread that issues the store

    def write(values: Array) -> None:
        new = np.ascontiguousarray(values).view(RAW[width])
        if reduce is not None:
            assert kind is not None
            old = memory.gather(wanted, width).view(kind)
            new = reduced(reduce[0], old, new.view(kind), flush).view(RAW[width])
        memory.scatter(wanted, width, new)

    return write
