"""Count what a profiler counts, from the real addresses of a simulated launch.

Counts are kept for each PTX instruction, by its position, and added up by source line or for the kernel. Shared loads
that ptxas fuses are counted at the width the machine uses (``fusion.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.lanes import ALL, Lanes, WaveState
from gemmsmith.sim.lowering.fusion import find_fusions
from gemmsmith.sim.lowering.operation import Lowered, Operation
from gemmsmith.sim.lowering.traits import Effect, Quantity, Space
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP
from gemmsmith.sim.wavefronts import LINE, NOBODY, SECTOR, copies, distinct, matrix_wavefronts, sectors, wavefronts

_WAVEFRONT = 128  # bytes
_PATTERNS_KEPT = 8  # access patterns remembered for each instruction


@dataclass
class Counts:
    """What one instruction did over a whole launch. Requests and executions are per warp.

    ``bytes`` are what lanes ask for, ``used`` the distinct ones among them within each request to global memory.
    ``flight`` are the simulator's steps between an asynchronous copy and the wait for it.
    """

    executed: int = 0
    threads: int = 0
    requests: int = 0
    sectors: int = 0
    wavefronts: int = 0
    groups: int = 0
    bytes: int = 0
    used: int = 0
    divergent: int = 0
    flight: int = 0

    @property
    def conflicts(self) -> int:
        """Wavefronts that only bank conflicts cost."""
        return self.wavefronts - self.groups

    def add(self, other: Counts) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Counters:
    """The counts of a launch, by an operation's position in the program.

    ``copies`` has the shared-memory side of asynchronous copies. ``widths`` has the width at which a shared access is
    served: 0 for a load that is part of a wider one. ``examples`` has the addresses of the costliest warp of each
    access, −1 where a lane is inactive, after its cost: wavefronts beyond one per group, or sectors.
    """

    def __init__(self, lowered: Lowered, geometry: Geometry) -> None:
        self.lowered, self.geometry = lowered, geometry
        self.by_position: dict[int, Counts] = {}
        self.copies: dict[int, Counts] = {}
        self.widths: dict[int, int] = {}
        self.examples: dict[int, tuple[int, Array]] = {}
        self._fusions = {} if lowered.machine_code else find_fusions(lowered)
        self._patterns: dict[tuple[int, ...], list[tuple[Lanes, Array, tuple[int, ...]]]] = {}

    def items(self) -> Iterator[tuple[Operation[Any], Counts]]:
        """Every operation that was counted, with its counts."""
        for position, count in self.by_position.items():
            yield self.lowered.operations[position], count

    def metrics(self, operation: Operation[Any], count: Counts) -> dict[str, int]:
        """What an operation adds to each of the profiler's counters."""
        counted, space = operation.traits.counts, operation.space
        if space is Space.GENERIC:
            space = Space.SHARED if count.groups else Space.GLOBAL
        profiled = counted.seen(space)
        found = {
            name: int(getattr(count, quantity)) * (profiled.instructions if quantity is Quantity.EXECUTED else 1)
            for name, quantity in profiled.metrics
        }
        if profiled.copy_metrics:
            side = self.copies[operation.position]
            found.update({name: int(getattr(side, quantity)) for name, quantity in profiled.copy_metrics})
        return found

    # -- called while the kernel runs -------------------------------------------------------------

    def executed(self, state: WaveState, step: Bundle[Any], lanes: Lanes) -> None:
        """These lanes executed a bundle."""
        warps, threads = state.warps_of(lanes)
        for operation in step.operations:
            count = self._counts(operation)
            count.executed += warps
            count.threads += threads

    def issued(self, state: WaveState, step: Bundle[Any], lanes: Lanes, active: Lanes | None) -> None:
        """A machine instruction was issued for these lanes, of which some are active: their guard holds."""
        warps, _ = state.warps_of(lanes)
        threads = 0 if active is None else state.warps_of(active)[1]
        for operation in step.operations:
            count = self._counts(operation)
            count.executed += warps
            count.threads += threads

    def flew(self, operation: Operation[Any], steps: int) -> None:
        """Copies of this operation have been waited for, so many steps after they were issued, summed over warps."""
        self._counts(operation).flight += steps

    def diverged(self, state: WaveState, step: Bundle[Any], one: Lanes, other: Lanes) -> None:
        """A branch split these lanes; counts the warps that have lanes on both sides."""
        here = np.zeros(int(state.warp[-1]) + 1, bool)
        here[state.warp[one]] = True
        there = np.zeros(here.size, bool)
        there[state.warp[other]] = True
        self._counts(step.first).divergent += int(np.count_nonzero(here & there))

    def access(self, state: WaveState, step: Bundle[Any], space: Space, lanes: Lanes, addresses: Array) -> None:
        """A bundle accesses ``space``; shared addresses are within the block's window."""
        if space is not Space.LOCAL:
            count = self._global_access if space is Space.GLOBAL else self._shared_access
            for operation, row in zip(step.operations, addresses.reshape(step.count, -1), strict=True):
                count(state, operation, lanes, row)

    def matrix_access(self, operation: Operation[Any], rows: Array) -> None:
        """ldmatrix or stmatrix; ``rows`` is (warps, 8 per matrix), the addresses of rows within the block's window."""
        count = self._counts(operation)
        pattern = rows.astype(np.int64) - int(rows[0, 0])

        def served() -> tuple[int, ...]:
            waves = matrix_wavefronts((pattern - pattern.min()).reshape(-1, 8))
            lanes = np.full((len(waves), WARP), NOBODY, np.int64)  # eight of them hold the rows of one matrix
            lanes[:, :8] = rows.reshape(-1, 8)
            self._keep_example(operation, lanes, waves - 1)
            return (int(waves.sum()),)

        (waves,) = self._remembered((operation.position,), ALL, pattern, served)
        count.requests += len(rows)
        count.wavefronts += waves
        count.groups += rows.size // 8
        count.bytes += rows.size * _width(operation)

    def shared_product(self, operation: Operation[Any], warps: int, nbytes: int) -> None:
        """wgmma of so many warps, for each of which it reads so many bytes of shared memory, without conflicts."""
        count = self._counts(operation)
        waves = warps * nbytes // _WAVEFRONT
        count.requests += warps
        count.wavefronts += waves
        count.groups += waves
        count.bytes += warps * nbytes

    def bulk_copy(self, operation: Operation[Any], touched: int, nbytes: int, blocks: int) -> None:
        """One copy by TMA of ``nbytes`` that touches so many sectors of global memory, to or from so many blocks.

        Its shared side is in ``copies``.
        """
        count, side = self._counts(operation), self.copies.setdefault(operation.position, Counts())
        count.requests += 1
        count.sectors += touched
        count.bytes += nbytes
        side.requests += blocks
        side.bytes += nbytes * blocks

    def copy(
        self, state: WaveState, operation: Operation[Any], lanes: Lanes, target: Array, source: Array, size: Array,
        *, bypass: bool, zero_fill: bool,
    ) -> None:  # fmt: skip
        """An asynchronous copy; ``bypass`` and ``zero_fill`` as for ``wavefronts.copies``.

        Its global side is counted with the operation. Its shared side is in ``copies``, with the sectors that the
        instruction (not L1's tag stage) counts.
        """
        count, side = self._counts(operation), self.copies.setdefault(operation.position, Counts())
        width, reads = _width(operation), size > 0
        source, target = source.astype(np.int64), target.astype(np.int64)
        start = int(source[np.argmax(reads)]) if reads.any() else 0
        if not bypass:
            source = np.where(reads, source, start)  # the address of a lane that only fills does not matter

        def cost() -> tuple[int, ...]:
            rows = (state.warp_rows(lanes, x) for x in (target, source, reads))
            targets, sources, reading = rows
            found = copies(targets, sources, reading == 1, width, bypass=bypass, zero_fill=zero_fill)
            return (found.requests.size, int(found.requests.sum()), int(found.tag_sectors.sum()),
                    int(found.sectors.sum()), int(found.wavefronts.sum()), int(found.conflicts.sum()))  # fmt: skip

        key = operation.position, int(target[0]) % LINE, start % LINE
        pattern = np.stack((target - target[0], source - start, reads))
        warps, requests, tagged, touched, waves, conflicts = self._remembered(key, lanes, pattern, cost)
        count.requests += requests
        count.sectors += tagged
        count.bytes += int(size.sum())
        count.used += int(size.sum())  # the lanes of a copy read different bytes
        side.requests += warps
        side.sectors += touched
        side.wavefronts += waves
        side.groups += waves - conflicts
        side.bytes += target.size * width

    # -- how an access is served ------------------------------------------------------------------

    def _counts(self, operation: Operation[Any]) -> Counts:
        found = self.by_position.get(operation.position)
        if found is None:
            found = self.by_position[operation.position] = Counts()
        return found

    def _global_access(self, state: WaveState, operation: Operation[Any], lanes: Lanes, addresses: Array) -> None:
        if addresses.size == 0:
            return
        count, width = self._counts(operation), _width(operation)
        first = int(addresses[0])
        pattern = addresses.astype(np.int64) - first

        def served() -> tuple[int, ...]:
            rows = state.warp_rows(lanes, addresses.astype(np.int64))
            touched = sectors(rows)
            self._keep_example(operation, rows, touched)
            return _active_warps(rows), int(touched.sum()), int(distinct(rows).sum())

        requests, touched, addressed = self._remembered((operation.position, first % SECTOR), lanes, pattern, served)
        count.requests += requests
        count.sectors += touched
        count.bytes += addresses.size * width
        count.used += addressed * width

    def _shared_access(self, state: WaveState, operation: Operation[Any], lanes: Lanes, addresses: Array) -> None:
        """Addresses within the block's window, so that equal patterns in different blocks look equal."""
        width = self._served_width(operation, addresses)
        if width == 0 or addresses.size == 0:
            return  # another instruction's wider access brings these bytes
        count = self._counts(operation)
        load = operation.access is not None and operation.access.effect is not Effect.WRITE
        pattern = addresses.astype(np.int64) - int(addresses[0])

        def served() -> tuple[int, ...]:
            rows = state.warp_rows(lanes, pattern - pattern.min())
            waves, groups = wavefronts(rows, width, load=load)
            self._keep_example(operation, np.where(rows == NOBODY, NOBODY, rows + int(addresses.min())), waves - groups)
            return _active_warps(rows), int(waves.sum()), int(groups.sum())

        requests, waves, groups = self._remembered((operation.position,), lanes, pattern, served)
        count.requests += requests
        count.wavefronts += waves
        count.groups += groups
        count.bytes += addresses.size * width

    def _keep_example(self, operation: Operation[Any], rows: Array, cost: Array) -> None:
        worst = int(cost.argmax())
        if operation.position not in self.examples or cost[worst] > self.examples[operation.position][0]:
            self.examples[operation.position] = int(cost[worst]), rows[worst].copy()

    def _served_width(self, operation: Operation[Any], addresses: Array) -> int:
        """The width of the access that this instruction stands for; 0 if a neighbour stands for it."""
        known = self.widths.get(operation.position)
        if known is not None:
            return known
        fusion = self._fusions.get(operation.position)
        if fusion is None:
            self.widths[operation.position] = _width(operation)
        else:
            base = addresses.astype(np.int64) - operation.pointers[0].offset
            common = int(np.bitwise_or.reduce(base, axis=None))
            self.widths.update(fusion.widths(common & -common if common else LINE))
        return self.widths[operation.position]

    def _remembered(
        self, key: tuple[int, ...], lanes: Lanes, pattern: Array, compute: Callable[[], tuple[int, ...]]
    ) -> tuple[int, ...]:
        """What an access costs. Most accesses repeat a pattern, so the last few of each instruction are kept."""
        known = self._patterns.setdefault(key, [])
        for seen_lanes, seen, answer in known:
            if _same_lanes(seen_lanes, lanes) and np.array_equal(seen, pattern):
                return answer
        answer = compute()
        if len(known) < _PATTERNS_KEPT:
            known.append((lanes, pattern, answer))
        return answer


def _active_warps(rows: Array) -> int:
    return int((rows != NOBODY).any(axis=1).sum())


def _same_lanes(one: Lanes, other: Lanes) -> bool:
    if isinstance(one, slice) or isinstance(other, slice):
        return isinstance(one, slice) and isinstance(other, slice) and one == other
    return one is other or np.array_equal(one, other)


def _width(operation: Operation[Any]) -> int:
    assert operation.access is not None
    return operation.access.width
