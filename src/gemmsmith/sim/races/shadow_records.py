"""What is written down of accesses to shared memory, and the arrays that accesses must stay in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gemmsmith.sim.lanes import WaveState
from gemmsmith.sim.lowering.live_parts import live_bytes
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.shared_arrays import SharedArray, meant_arrays, plain_name
from gemmsmith.sim.memory.access_faults import ArrayFault
from gemmsmith.sim.memory.window_memory import WindowMemory
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.clocks import Moment
from gemmsmith.sim.races.race_pairs import Event


@dataclass(frozen=True)
class Landing:
    """When something was done: what the lanes knew, and how many steps they had taken."""

    moment: Moment
    time: int


@dataclass(frozen=True)
class Record:
    """One execution of an instruction. ``done``, of a copy, are the numbers of the records at which it had landed."""

    event: Event
    number: int
    lanes: Array
    index: Array
    parts: Array | None  # which of its units each lane reads, if not all
    count: int  # units of each access
    values: Array | None = None
    done: Array | None = None

    def part(self, keep: Array) -> Record:
        values = None if self.values is None else self.values.reshape(self.lanes.size, -1)[keep].reshape(-1)
        done = None if self.done is None else self.done.reshape(self.lanes.size, -1)[keep].reshape(-1)
        return replace(self, lanes=self.lanes[keep], index=self.index[keep], values=values, done=done)


@dataclass(frozen=True)
class Reads:
    """The reads of a bundle: row n of ``index`` is where its operation n reads, under ``number`` + n.

    ``turn``: ends of loops that lanes had come to.
    """

    operations: tuple[Operation[Any], ...]
    landing: Landing
    turn: int
    number: int
    lanes: Array
    index: Array


class Watcher(Protocol):
    """Who wants to know of accesses to shared memory, other than by copies."""

    def accessed(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """These lanes access byte positions ``index``."""

    def nothing_new(self, lanes: Array, index: Array) -> bool:
        """Whether it need not be told of accesses of these lanes to the positions in a row of ``index`` each."""


class ArrayBounds:
    """The arrays of shared memory: an access must stay in the one that its address comes from."""

    def __init__(self, state: WaveState, shared: WindowMemory) -> None:
        self.state, self.shared = state, shared
        self._arrays = state.lowered.fact(meant_arrays)
        self._base = state.block * shared.stride

    def _addresses(self, lanes: Array, index: Array) -> Array:
        inside: Array = index - self._base[lanes]
        return inside % self.shared.stride if self.shared.cluster > 1 else inside

    def check_all(self, operations: tuple[Operation[Any], ...], lanes: Array, index: Array) -> None:
        """Raise for the first operation of a bundle, a row of ``index`` each, that leaves its array."""
        arrays = [self._arrays.get(operation.position) for operation in operations]
        if not any(arrays):
            return
        addresses = self._addresses(lanes, index)
        ends = zip(addresses.min(axis=1).tolist(), addresses.max(axis=1).tolist(), strict=True)
        for operation, array, row, (first, last) in zip(operations, arrays, index, ends, strict=True):
            assert operation.access is not None
            if array is not None and not array.start <= first <= last + operation.access.width <= array.stop:
                self.check(operation, lanes, row)

    def check(self, operation: Operation[Any], lanes: Array, index: Array) -> None:
        """Raise for an access that leaves its array."""
        array = self._arrays.get(operation.position)
        if not operation.pointers or not lanes.size or array is None:
            return
        assert operation.access is not None
        address = self._addresses(lanes, index)
        unused = live_bytes(self.state.lowered, (operation,))
        width = operation.access.width if unused is None else int(np.flatnonzero(unused[0])[-1]) + 1
        if int(address.min()) >= array.start and int(address.max()) + width <= array.stop:
            return
        i = int(np.argmax((address < array.start) | (address + width > array.stop)))
        at = int(address[i])
        others = [SharedArray(plain_name(n), *place) for n, *place in self.state.lowered.shared_variables]
        into = next((f", into {o.name}" for o in others if o.start <= max(at, array.stop) < o.stop), "")
        if at < array.start:
            into = next((f", into {o.name}" for o in others if o.start <= at < o.stop), "")
        where = (
            f"{array.start - at} bytes before {array.name}" if at < array.start
            else f"it starts inside {array.name} and runs over its end" if at < array.stop
            else f"{at - array.stop} bytes past the end of {array.name}"
        )  # fmt: skip
        raise ArrayFault(operation, int(lanes[i]), at, f"{where} ({array.size} bytes){into}")
