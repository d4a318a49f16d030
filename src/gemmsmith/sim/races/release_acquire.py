"""Threads that synchronise through memory: what a strong write releases, and what a strong read acquires.

A thread releases by a strong write of release order, or by a fence and then any strong write; it acquires by a strong
read of acquire order, or by any strong read and then a fence. The read must see that write, or an atomic update of it.
A fence or an access of block scope counts within its block only, one of cluster scope within its cluster. Around
barriers this is generous, as kernels in use are: threads may each execute their fence, then a barrier, and then one of
them writes the flag; and a fence may come after a barrier that follows the read of the flag.

A barrier is no fence: PTX's acquire pattern ends with one, of the scope of the flag. A kernel that spins on a flag and
has a barrier in its place may read stale data from L1, and such reads are races. Other accesses go to L2, which holds
what the flag's writer released, and count as ordered. So does what follows a counter that is updated once: the last
block of a reduction in the CUDA C++ Programming Guide has a barrier there, and no fence.

Flags themselves need no fence. An atomic whose result was used is performed: its thread waited for the result. Who sees
a later write of that thread, at any flag, comes after the atomic, and may set its flag back by a plain store. So it is
with flags only: data that was written before needs the fence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.traits import Effect, Space
from gemmsmith.sim.memory.global_memory import PEER_OFFSET, PEER_SHIFT
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.clocks import Clock, Clocks, Moment, joined, last_writes_seen, later, ordered
from gemmsmith.sim.races.memory_order import Scope, SharedBetweenThreads
from gemmsmith.sim.waits.cooperative import GridBarrier

_SHARED = 1 << 62
_MOST_COUNTERS = 1 << 10  # of more flags than these, atomics update data, and none is set back by a plain store


def flag_codes(state: WaveState, space: Space, lanes: Lanes, addresses: Array) -> Array:
    """A number for each address: of global memory the address itself, of shared memory one for each block and place,
    the same for all blocks of a cluster that reach it."""
    if space is not Space.SHARED:
        return addresses
    places, blocks, together = addresses.astype(np.uint64), state.block[lanes], state.wave.cluster_blocks
    ranks = (places >> np.uint64(PEER_SHIFT)).astype(np.int64)
    if ranks.any():
        blocks = np.where(ranks > 0, blocks // together * together + ranks - 1, blocks)
    owners = state.wave.blocks[blocks].astype(np.uint64) << np.uint64(PEER_SHIFT)
    codes: Array = places & np.uint64(PEER_OFFSET) | owners | np.uint64(_SHARED)
    return codes


Teams = tuple[int, int, int]  # by scope: the number of a thread's block, of its cluster, and of the device


@dataclass
class _Flag:
    """What the value at an address carries, by scope and by the team of its writers.

    ``performed``: the writes to flags that its writers knew to be performed, by flag the number of the last.
    """

    released: dict[tuple[Scope, int], Clock] = field(default_factory=dict)
    version: int = 0
    performed: dict[int, int] = field(default_factory=dict)

    @property
    def everyone(self) -> Clock | None:
        return self.released.get((Scope.DEVICE, 0))

    def add(self, clock: Clock, teams: Teams, scope: Scope) -> None:
        """A thread of these teams releases to those of ``scope``, and to narrower ones."""
        for each in Scope:
            if each <= scope:
                kept = self.released.get((each, teams[each]))
                self.released[each, teams[each]] = clock if kept is None else kept.joined(clock)

    def clear(self) -> None:
        self.released, self.performed = {}, {}

    def seen(self, teams: Teams, scope: Scope) -> Clock | None:
        """What a thread of these teams sees by a read of ``scope``."""
        return joined(tuple(self.released.get((each, teams[each])) for each in Scope if each <= scope))


@dataclass
class _Thread:
    """What a thread read that its next fence acquires, by the fence's scope, and which version of each flag it saw
    last.

    ``spun``: it waited for it in a loop.
    """

    pending: dict[Scope, Clock] = field(default_factory=dict)
    spun: bool = False
    versions: dict[int, int] = field(default_factory=dict)


class Flags:
    """The flags and counters of a launch. ``addresses``: where strong writes and strong reads meet."""

    def __init__(
        self, between: SharedBetweenThreads, addresses: frozenset[int], grid_barrier: GridBarrier | None = None
    ) -> None:
        self.between, self.grid_barrier = between, grid_barrier
        self._wanted = np.array(sorted(addresses), np.uint64)
        self._flags: dict[int, _Flag] = {}
        self.writes: dict[
            tuple[int, int], tuple[int, int]
        ] = {}  # by event and lane: which flag, and the write's number
        self._fences: dict[int, tuple[list[Array], list[Moment]]] = {}
        self._threads: dict[tuple[int, int], _Thread] = {}
        self._pending: dict[int, set[int]] = {}  # by wave, the lanes that read something and executed no fence since

    # -- fences -----------------------------------------------------------------------------------

    def fence(self, clocks: Clocks, operation: Operation[Any], lanes: Array) -> None:
        """These lanes execute a fence."""
        if not self._wanted.size:
            return
        order = self.between.orders[operation.position]
        if order.acquires:
            self._acquire_all(clocks, lanes, order.scope)
            if not order.block_only:
                clocks.fence(lanes)
        if order.releases:
            clocks.tick(lanes)
            last, moments = self._fenced(clocks)
            moments.append(clocks.now())
            for scope in Scope:
                if scope <= order.scope:
                    last[scope][lanes] = len(moments) - 1

    def _fenced(self, clocks: Clocks) -> tuple[list[Array], list[Moment]]:
        """By scope, for each lane of a wave, the index of the moment of its last fence of that scope or a wider one."""
        if clocks.number not in self._fences:
            self._fences[clocks.number] = [np.full(clocks.state.wave.lanes, -1) for _ in Scope], []
        return self._fences[clocks.number]

    def barrier(self, clocks: Clocks, lanes: Array) -> None:
        """These lanes are about to pass a barrier."""
        self._acquire_all(clocks, lanes, Scope.DEVICE, fenced=False)

    def _acquire_all(self, clocks: Clocks, lanes: Array, scope: Scope, fenced: bool = True) -> None:
        """These lanes acquire what they have read; without a fence, what they spun for is only waited for."""
        waiting = self._pending.get(clocks.number)
        if not waiting:
            return
        for lane in sorted(waiting & set(lanes.tolist())):
            thread = self._threads[clocks.number, lane]
            found = joined(tuple(thread.pending.pop(each, None) for each in Scope if each <= scope))
            if scope is Scope.DEVICE:
                waiting.discard(lane)
            if found is not None and thread.spun and not fenced:
                found = Clock(np.zeros_like(found.epochs), flags=found.flags, unfenced=found.waited())
            if found is not None:
                clocks.acquire(np.array([lane]), found)
            thread.spun &= scope is not Scope.DEVICE

    # -- accesses ---------------------------------------------------------------------------------

    def access(self, clocks: Clocks, operation: Operation[Any], lanes: Array, codes: Array, event: int) -> None:
        """A strong access, by each lane in turn; ``event`` is its number in the record of accesses."""
        if not self._wanted.size:
            return
        assert operation.access is not None
        effect = operation.access.effect
        reads = effect is not Effect.WRITE and any(cell in self.between.used for cell in operation.writes())
        at = np.minimum(np.searchsorted(self._wanted, codes), self._wanted.size - 1)
        for i in np.flatnonzero(self._wanted[at] == codes):
            lane, code = int(lanes[i]), int(codes[i])
            flag = self._flags.setdefault(code, _Flag())
            if reads:
                self._read(clocks, operation, lane, code, flag)
            if effect is not Effect.READ:
                flag.version += 1
                self.writes[event, lane] = code, flag.version
                self._write(clocks, operation, lane, flag, update=effect is Effect.UPDATE)
                if self._wanted.size <= _MOST_COUNTERS:
                    flag.performed = later(flag.performed, last_writes_seen(clocks.now(), lane))
                if self.grid_barrier is not None and self.grid_barrier.holds(code):
                    self.grid_barrier.arrive((clocks.number, lane), flag.everyone)

    def _read(self, clocks: Clocks, operation: Operation[Any], lane: int, code: int, flag: _Flag) -> None:
        thread = self._threads.setdefault((clocks.number, lane), _Thread())
        if self.grid_barrier is not None and self.grid_barrier.holds(code):
            if (round_ended := self.grid_barrier.passed((clocks.number, lane))) is not None:
                clocks.acquire(np.array([lane]), round_ended)
            return
        assert operation.access is not None
        own = 1 if operation.access.effect is Effect.UPDATE else 0  # its own update, whose result it waits for
        if flag.version == 0 and own == 0:
            return
        if flag.version and thread.versions.get(code) == flag.version:
            if self.between.orders[operation.position].acquires:  # the value is old, the order is new
                self._acquire_all(clocks, np.array([lane]), self.between.orders[operation.position].scope)
            return
        thread.versions[code] = flag.version
        clocks.saw(lane, flag.performed | {code: flag.version + own})  # with or without a fence
        order, teams = self.between.orders[operation.position], _teams(clocks, lane)
        if order.acquires:
            if (found := _through(code, flag, flag.seen(teams, order.scope))) is not None:
                clocks.acquire(np.array([lane]), found)
            return
        self._pending.setdefault(clocks.number, set()).add(lane)
        thread.spun |= operation.position in self.between.polling
        for scope in Scope:
            seen = _through(code, flag, flag.seen(teams, min(scope, order.scope)))
            if (found := joined((thread.pending.get(scope), seen))) is not None:
                thread.pending[scope] = found

    def _write(self, clocks: Clocks, operation: Operation[Any], lane: int, flag: _Flag, *, update: bool) -> None:
        order, teams = self.between.orders[operation.position], _teams(clocks, lane)
        if not update:
            flag.clear()
        if order.releases:
            flag.add(clocks.release(lane), teams, order.scope)
            return
        for scope in Scope:
            if scope <= order.scope and (clock := self._published(clocks, lane, scope)) is not None:
                flag.add(clock, teams, scope)

    def _published(self, clocks: Clocks, lane: int, scope: Scope) -> Clock | None:
        """What the lane's last fence of a scope made visible, and those of its block before the last barrier."""
        last, moments = self._fenced(clocks)
        threads = clocks.state.wave.threads
        start = int(clocks.state.block[lane]) * threads
        here, epochs = last[scope][start : start + threads], clocks.now().epochs
        clock: Clock | None = None
        for index in np.unique(here[here >= 0]):
            moment, lanes = moments[index], start + np.flatnonzero(here == index)
            if moment.epochs[start // threads] == epochs[start // threads]:
                lanes = lanes[ordered(moment, lanes, clocks.now(), np.full(lanes.size, lane))]
            if lanes.size:
                clock = joined((clock, clocks.known(moment, lanes)))
        return clock


def _through(code: int, flag: _Flag, clock: Clock | None) -> Clock | None:
    return None if clock is None else replace(clock, flags=clock.flags | {code: flag.version})


def _teams(clocks: Clocks, lane: int) -> Teams:
    state = clocks.state
    block = int(state.block[lane])
    first = block // state.wave.cluster_blocks * state.wave.cluster_blocks
    return int(state.wave.blocks[block]), int(state.wave.blocks[first]), 0
