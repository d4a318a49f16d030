"""What each warp of a launch executes, in the order of the program, with what its accesses cost.

Lanes run in NumPy as always; this module only writes down. Operations of a stretch of straight-line code run in any
order that respects their dependencies, so positions are sorted again at each boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lanes import Lanes, WaveState
from gemmsmith.sim.lowering.operation import Lowered, Operation
from gemmsmith.sim.lowering.traits import Effect, Space
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wavefronts import LINE, SECTOR, copies, matrix_wavefronts, wavefronts

Payload = Any
Lines = tuple[tuple[int, int], ...]
_NOBODY = np.zeros(0, np.int64)
_SECTORS = LINE // SECTOR  # of a line
_ARRAYS_KEPT = 64  # sets of lanes whose warps are remembered
"""What an instruction of a warp did to memory; see ``Stream``."""


@dataclass(frozen=True)
class Stream:
    """The instructions of one warp: positions in the program, and for each None or what it did.

    shared access    wavefronts, as an int
    global access    a tuple of (line, mask of sectors), one for each line
    LDGSTS           (such a tuple, wavefronts that write shared memory)
    """

    block: int
    warp: int
    positions: tuple[int, ...]
    payloads: tuple[Payload, ...]


class StreamRecorder(Counters):
    """Stands where counters stand, and writes down instead of counting."""

    def __init__(self, lowered: Lowered, geometry: Geometry) -> None:
        super().__init__(lowered, geometry)
        self._log: list[tuple[Array, tuple[int, ...], bool]] = []
        self._payloads: dict[tuple[int, int], list[Payload]] = {}
        self._known: dict[tuple[Any, ...], Any] = {}
        self._known_lines: dict[Lines, Lines] = {}
        self._known_positions: dict[
            int, tuple[Any, tuple[int, ...]]
        ] = {}  # of bundles, by identity of their operations
        self._warps = np.zeros(0, np.int64)
        self._blocks = np.zeros(0, np.int64)
        self.warps_per_block = 1
        self.windows: dict[int, int] = {}  # the number of each block among those that ran with it
        self.window_bytes = 0  # from one block's shared memory to the next one's, where mbarriers were used
        self._state: WaveState | None = None
        self.noted: frozenset[int] = frozenset()  # positions without an access that get payloads all the same
        self._first = 0  # the number of the wave's first warp among all that ran
        self._in_slices: dict[tuple[int, int], Array] = {}  # warps of lanes that are consecutive
        self._in_arrays: dict[int, tuple[Array, Array]] = {}  # of others, by the identity of the array
        self._vain: set[tuple[int, int]] = set()  # warps and positions of waits that were in vain

    # -- called while the kernel runs -------------------------------------------------------------

    def issued(self, state: WaveState, step: Bundle[Any], lanes: Lanes, active: Lanes | None) -> None:
        if state is not self._state:
            self._first, self._state = len(self._blocks) * self.warps_per_block, state
            self._in_slices, self._in_arrays = {}, {}
            self.warps_per_block = state.warps_per_block
            self._blocks = np.concatenate([self._blocks, state.wave.blocks])
            self.windows.update((int(block), n) for n, block in enumerate(state.wave.blocks))
        self._warps = self._warps_of(state, lanes)
        known = self._known_positions.get(id(step.operations))
        if known is None:
            known = step.operations, tuple([o.position for o in step.operations])
            self._known_positions[id(step.operations)] = known
        self._log.append((self._warps, known[1], step.waits))
        if active is lanes:
            return
        whole, self._warps = self._warps, self._warps_of(state, active) if active is not None else _NOBODY
        if self._warps.size < whole.size:
            for operation in step.operations:
                if operation.access is not None or operation.position in self.noted:
                    for warp in np.setdiff1d(whole, self._warps).tolist():
                        self.note(warp, operation.position, None)

    def executed(self, state: WaveState, step: Bundle[Any], lanes: Lanes) -> None:
        """Nothing: machine code is counted when it is issued."""

    def diverged(self, state: WaveState, step: Bundle[Any], one: Lanes, other: Lanes) -> None:
        """Nothing: both sides are issued."""

    def _warps_of(self, state: WaveState, lanes: Lanes) -> Array:
        """The warps that have one of these lanes, by their numbers among all that ran."""
        if isinstance(lanes, slice):
            key = lanes.start or 0, lanes.stop or 0
            found = self._in_slices.get(key)
            if found is None:
                found = self._in_slices[key] = self._fresh(state, lanes)
            return found
        known = self._in_arrays.get(id(lanes))
        if known is None:  # lanes that go together stay one array until they part or meet others
            if len(self._in_arrays) >= _ARRAYS_KEPT:
                self._in_arrays.clear()
            known = self._in_arrays[id(lanes)] = lanes, self._fresh(state, lanes)
        return known[1]

    def _fresh(self, state: WaveState, lanes: Lanes) -> Array:
        warps = state.warp[lanes]
        fresh = np.ones(warps.size, bool)
        fresh[1:] = warps[1:] != warps[:-1]
        found: Array = warps[fresh] + self._first
        return found

    def note(self, warp: int, position: int, payload: Payload) -> None:
        """Keep what the latest execution of an instruction by a warp did."""
        key = warp, position
        mine = self._payloads.get(key)
        if mine is None:
            self._payloads[key] = [payload]
        else:
            mine.append(payload)

    def note_here(self, warp: int, position: int, payload: Payload) -> None:
        """The same for a warp by its number in the wave that runs."""
        self.note(warp + self._first, position, payload)
        if _waits(payload) and not payload[3]:
            self._vain.add((warp + self._first, position))

    def matrix_access(self, operation: Operation[Any], rows: Array) -> None:
        matrices = rows.shape[1] // 8

        def count() -> Array:
            each = matrix_wavefronts((rows - rows.min()).reshape(-1, 8))
            found: Array = each.reshape(-1, matrices).sum(axis=1)
            return found

        waves = self._cached((operation.position, "m"), rows - rows[0, 0], count)
        for warp, wave in zip(self._warps.tolist(), waves.tolist(), strict=True):
            self.note(warp, operation.position, wave)

    def copy(
        self, state: WaveState, operation: Operation[Any], lanes: Lanes, target: Array, source: Array, size: Array,
        *, bypass: bool, zero_fill: bool,
    ) -> None:  # fmt: skip
        assert operation.access is not None
        source, target, reads = source.astype(np.int64), target.astype(np.int64), size > 0
        width = operation.access.width
        warps = self._warps_of(state, lanes)
        rows = [state.warp_rows(lanes, x) for x in (target, np.where(reads, source, 0), reads.astype(np.int64))]
        found = copies(rows[0], rows[1], rows[2] == 1, width, bypass=bypass, zero_fill=zero_fill)
        lines = self._lines(state.warp[lanes][reads] + self._first, source[reads])
        for warp, waves in zip(warps.tolist(), found.wavefronts.tolist(), strict=True):
            self.note(warp, operation.position, (lines.get(warp, ()), waves))

    def _global_access(self, state: WaveState, operation: Operation[Any], lanes: Lanes, addresses: Array) -> None:
        for warp, lines in self._lines(state.warp[lanes] + self._first, addresses.astype(np.int64)).items():
            self.note(warp, operation.position, lines)

    def _lines(self, warps: Array, addresses: Array) -> dict[int, Lines]:
        """For each warp, its lines and the sectors of each as bits of a mask; equal ones are the same object."""
        if addresses.size == 0:
            return {}
        sector = addresses // SECTOR
        base = int(sector.min()) // _SECTORS * _SECTORS
        span = (int(sector.max()) - base) // _SECTORS * _SECTORS + _SECTORS
        keys = np.unique(warps * span + (sector - base))
        whole = keys // _SECTORS  # a line of a warp
        starts = np.flatnonzero(np.diff(whole, prepend=-1))
        masks = np.bitwise_or.reduceat(1 << keys % _SECTORS, starts)
        of, line = np.divmod(whole[starts], span // _SECTORS)
        pairs = list(zip((line + base // _SECTORS).tolist(), masks.tolist(), strict=True))
        firsts = np.flatnonzero(np.diff(of, prepend=-1))
        ends = [*firsts[1:].tolist(), of.size]
        found = {}
        for warp, start, end in zip(of[firsts].tolist(), firsts.tolist(), ends, strict=True):
            lines = tuple(pairs[start:end])
            found[warp] = self._known_lines.setdefault(lines, lines)
        return found

    def _shared_access(self, state: WaveState, operation: Operation[Any], lanes: Lanes, addresses: Array) -> None:
        if addresses.size == 0:
            return
        assert operation.access is not None
        load = operation.access.effect is not Effect.WRITE
        pattern = addresses.astype(np.int64)
        pattern = pattern - pattern.min() // LINE * LINE
        warps = self._warps_of(state, lanes)
        width = operation.access.width
        waves = self._cached((operation.position, warps.tobytes()), pattern,
                             lambda: wavefronts(state.warp_rows(lanes, pattern), width, load=load)[0])  # fmt: skip
        for warp, wave in zip(warps.tolist(), waves.tolist(), strict=True):
            self.note(warp, operation.position, wave)

    def bulk_copy(self, operation: Operation[Any], touched: int, nbytes: int, blocks: int) -> None:
        """Nothing: ``HopperEvents`` sees the copy with its mbarrier."""

    def shared_product(self, operation: Operation[Any], warps: int, nbytes: int) -> None:
        """Nothing: the instruction's own shape says what it reads."""

    def access(self, state: WaveState, step: Bundle[Any], space: Space, lanes: Lanes, addresses: Array) -> None:
        if space is Space.LOCAL:
            for operation in step.operations:
                for warp in self._warps_of(state, lanes).tolist():
                    self.note(warp, operation.position, "local")
            return
        super().access(state, step, space, lanes, addresses)

    def _cached(self, key: tuple[Any, ...], pattern: Array, compute: Any) -> Array:
        whole = (*key, pattern.tobytes())
        if whole not in self._known:
            self._known[whole] = compute()
        found: Array = self._known[whole]
        return found

    # -- afterwards -------------------------------------------------------------------------------

    def streams(self) -> list[Stream]:
        """The streams of all warps that ran, by block and warp."""
        orders = self._orders()
        known: dict[int, tuple[int, ...]] = {}
        places: dict[int, dict[int, list[int]]] = {}  # where in an order each position is
        found = []
        spinning = {warp for warp, _ in self._vain}
        for warp in sorted(orders):
            block, inside = divmod(warp, self.warps_per_block)
            kept = orders[warp]
            if id(kept) not in places:
                places[id(kept)] = _places_of(kept)
            paid = self._paid(warp, len(kept), places[id(kept)])
            if warp in spinning:
                kept, paid = _without_spins(kept, paid)
            positions = known.get(id(kept)) if kept is orders[warp] else None
            if positions is None:
                positions = tuple(kept)
                if kept is orders[warp]:
                    known[id(kept)] = positions
            found.append(Stream(int(self._blocks[block]), inside, positions, tuple(paid)))
        return found

    def _orders(self) -> dict[int, list[int]]:
        """What each warp executed, in order; warps that always went together have one list."""
        numbers: dict[bytes, int] = {}
        of_entry = [numbers.setdefault(warps.tobytes(), len(numbers)) for warps, _, _ in self._log]
        entries: dict[int, list[int]] = {}  # the sets of warps that a warp is in
        for whole, number in numbers.items():
            for warp in np.frombuffer(whole, np.int64).tolist():
                entries.setdefault(warp, []).append(number)
        together: dict[tuple[int, ...], list[int]] = {}
        for warp, sets in entries.items():
            together.setdefault(tuple(sets), []).append(warp)
        orders: dict[int, list[int]] = {}
        for numbers_of, warps in together.items():
            mine = frozenset(numbers_of)
            order: list[int] = []
            tail: list[int] = []
            for (_, executed, boundary), number in zip(self._log, of_entry, strict=True):
                if number in mine:
                    if boundary:
                        order += [*sorted(tail), *executed]
                        tail.clear()
                    else:
                        tail += executed
            orders.update(dict.fromkeys(warps, order + sorted(tail)))
        return orders

    def _paid(self, warp: int, length: int, places: dict[int, list[int]]) -> list[Payload]:
        found: list[Payload] = [None] * length
        for position, here in places.items():
            mine = self._payloads.get((warp, position))
            if mine is not None:
                for n, payload in zip(here, mine, strict=False):
                    found[n] = payload
        return found


def _places_of(order: Sequence[int]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for n, position in enumerate(order):
        if position in places:
            places[position].append(n)
        else:
            places[position] = [n]
    return places


def _waits(payload: Payload) -> bool:
    """Whether a payload is that of a wait for an mbarrier."""
    return isinstance(payload, tuple) and len(payload) == 4 and payload[0] == "wait"


def _without_spins(positions: list[int], payloads: list[Payload]) -> tuple[list[int], list[Payload]]:
    """Drop what a warp did between a wait for an mbarrier that was in vain and the one that was not.

    How often a warp asks is the schedule's choice; in the time model the first wait lasts until the phase is complete.
    """
    kept: list[int] = []
    paid: list[Payload] = []
    vain: tuple[Any, ...] | None = None
    start = 0  # of what is kept next
    for n, payload in enumerate(payloads):
        if payload.__class__ is not tuple or not _waits(payload):
            continue
        if vain is None and not payload[3]:
            vain = payload[1:3]
            kept += positions[start : n + 1]
            paid += payloads[start : n + 1]
        elif vain is not None and payload[1:3] == vain and payload[3]:
            vain = None
            start = n + 1
    if vain is None:
        kept += positions[start:]
        paid += payloads[start:]
    return kept, paid
