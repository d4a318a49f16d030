"""Count what a profiler counts, from the real addresses of a simulated launch.

Counts are kept for each PTX instruction and added up by source line or for the kernel. Shared loads that ptxas
fuses are counted at the width the machine uses: scalar loads from one base register at neighbouring offsets,
in one stretch of straight-line code, become one access of 8 or 16 bytes where the addresses are aligned so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.sim.bundle import CONTROL, Bundle
from gemmsmith.sim.lower import Lowered, Operation, Slot
from gemmsmith.sim.wavefronts import LINE, NOBODY, SECTOR, copies, distinct, matrix_wavefronts, sectors, wavefronts

if TYPE_CHECKING:
    from gemmsmith.sim.lanes import Lanes, WaveState

Array = NDArray[Any]


@dataclass
class Counts:
    """What one instruction did over a whole launch. Requests and executions are per warp.

    ``bytes`` are what lanes ask for, ``used`` the distinct ones among them within each request to global memory.
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

    def add(self, other: Counts) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


@dataclass(frozen=True)
class Fusion:
    """Scalar shared loads that can become wider: their order by offset, from one base."""

    members: tuple[Operation, ...]


class Counters:
    """The counts of a launch: one ``Counts`` an operation, and for copies a second one for their shared side."""

    def __init__(self, lowered: Lowered, geometry: Geometry) -> None:
        self.lowered, self.geometry = lowered, geometry
        self.by_operation: dict[int, Counts] = {}
        self.copies: dict[int, Counts] = {}
        self.operations: dict[int, Operation] = {id(o): o for o in lowered.operations}
        self.widths: dict[int, int] = {}
        self._fusions = _find_fusions(lowered)
        self._copy_patterns: dict[tuple[int, int, int], list[tuple[Array, slice, tuple[int, ...]]]] = {}
        self._matrix_patterns: dict[int, list[tuple[Array, int]]] = {}
        self._patterns: dict[tuple[int, int, str], list[tuple[Array, int, tuple[int, int, int]]]] = {}

    def counts(self, operation: Operation) -> Counts:
        return self.by_operation.setdefault(id(operation), Counts())

    # -- called by the machine --------------------------------------------------------------------

    def executed(self, machine: WaveState, step: Bundle, lanes: Lanes) -> None:
        warps, threads = machine.warps_of(lanes)
        for operation in step.operations:
            count = self.counts(operation)
            count.executed += warps
            count.threads += threads

    def diverged(self, machine: WaveState, step: Bundle, one: Lanes, other: Lanes) -> None:
        """A branch split these lanes; counts the warps that have lanes on both sides."""
        both = np.intersect1d(machine.warp[one], machine.warp[other])
        self.counts(step.first).divergent += both.size

    def global_access(self, machine: WaveState, operation: Operation, lanes: Lanes, addresses: Array) -> None:
        count = self.counts(operation)
        requests, touched, addressed = self._served(machine, operation, lanes, addresses, operation.width, "global")
        count.requests += requests
        count.sectors += touched
        count.bytes += addresses.size * operation.width
        count.used += addressed * operation.width

    def shared_access(self, machine: WaveState, operation: Operation, lanes: Lanes, addresses: Array) -> None:
        """``addresses`` are within the block's window, so equal patterns in different blocks look equal."""
        width = self._fused_width(operation, addresses)
        if width == 0:
            return  # another instruction's wider access brings these bytes
        count = self.counts(operation)
        kind = "store" if operation.kind == "store" else "load"
        requests, waves, groups = self._served(machine, operation, lanes, addresses, width, kind)
        count.requests += requests
        count.wavefronts += waves
        count.groups += groups
        count.bytes += addresses.size * width

    def matrix_access(self, operation: Operation, rows: Array) -> None:
        """ldmatrix or stmatrix; ``rows`` is (warps, 8 a matrix), the addresses of rows within the block's window."""
        count = self.counts(operation)
        first = int(rows[0, 0])
        pattern = rows.astype(np.int64) - first
        known = self._matrix_patterns.setdefault(id(operation), [])
        waves = next((answer for shape, answer in known if np.array_equal(shape, pattern)), None)
        if waves is None:
            waves = int(matrix_wavefronts((pattern - pattern.min()).reshape(-1, 8)).sum())
            if len(known) < 8:
                known.append((pattern, waves))
        count.requests += len(rows)
        count.wavefronts += waves
        count.groups += rows.size // 8
        count.bytes += rows.size * operation.width

    def copy(
        self, machine: WaveState, operation: Operation, lanes: Lanes, target: Array, source: Array, size: Array
    ) -> None:
        """An asynchronous copy. Its global side is counted with the operation, its shared side in ``copies``, which
        also has the sectors that the instruction (not L1's tag stage) counts."""
        count, other = self.counts(operation), self.copies.setdefault(id(operation), Counts())
        warps, requests, tagged, touched, waves, conflicts = self._served_copy(
            machine, operation, lanes, target, source.astype(np.int64), size > 0
        )
        count.requests += requests
        count.sectors += tagged
        count.bytes += int(size.sum())
        count.used += int(size.sum())  # lanes of a copy have sources of their own
        other.requests += warps
        other.sectors += touched
        other.wavefronts += waves
        other.groups += waves - conflicts
        other.bytes += target.size * operation.width

    # -- how it is served -------------------------------------------------------------------------

    def _served(self, machine: WaveState, operation: Operation, lanes: Lanes, addresses: Array, width: int,
                kind: str) -> tuple[int, int, int]:  # fmt: skip
        """(requests, sectors or wavefronts, distinct addresses or groups), remembered for patterns that come again."""
        if addresses.size == 0:
            return 0, 0, 0
        first = int(addresses.reshape(-1)[0])
        phase = first % SECTOR if kind == "global" else 0
        pattern = addresses.astype(np.int64) - first
        known = self._patterns.setdefault((id(operation), phase, kind), [])
        mark = id(lanes) if isinstance(lanes, np.ndarray) else hash((lanes.start, lanes.stop))
        for shape, where, answer in known:
            if where == mark and isinstance(lanes, slice) and np.array_equal(shape, pattern):
                return answer
        rows = machine.warp_rows(lanes, addresses.astype(np.int64) if kind == "global" else pattern - pattern.min())
        requests = int((rows != NOBODY).any(axis=1).sum())
        if kind == "global":
            answer = requests, int(sectors(rows).sum()), int(distinct(rows).sum())
        else:
            waves, groups = wavefronts(rows, width, kind)
            answer = requests, int(waves.sum()), int(groups.sum())
        if len(known) < 8:
            known.append((pattern, mark, answer))
        return answer

    def _served_copy(self, machine: WaveState, operation: Operation, lanes: Lanes, target: Array, source: Array,
                     reads: Array) -> tuple[int, ...]:  # fmt: skip
        """(warps, requests, tag sectors, sectors, wavefronts, conflicts), remembered for patterns that come again."""
        bypass, size = "cg" in operation.instruction.modifiers, operation.sources[2]
        start = int(source[np.argmax(reads)]) if reads.any() else 0
        if not bypass:
            source = np.where(reads, source, start)  # where a lane that fills points does not matter
        to = int(target[0])
        pattern = np.stack((target.astype(np.int64) - to, source - start, reads))
        known = self._copy_patterns.setdefault((id(operation), to % LINE, start % LINE), [])
        for shape, where, answer in known:
            if isinstance(lanes, slice) and where == lanes and np.array_equal(shape, pattern):
                return answer
        targets, sources, reading = (machine.warp_rows(lanes, x) for x in (target.astype(np.int64), source, reads))
        zero_fill = isinstance(size, Slot) or int(size) != operation.width
        cost = copies(targets, sources, reading == 1, operation.width, bypass=bypass, zero_fill=zero_fill)
        answer = (cost.requests.size, int(cost.requests.sum()), int(cost.tag_sectors.sum()), int(cost.sectors.sum()),
                  int(cost.wavefronts.sum()), int(cost.conflicts.sum()))  # fmt: skip
        if isinstance(lanes, slice) and len(known) < 8:
            known.append((pattern, lanes, answer))
        return answer

    def _fused_width(self, operation: Operation, addresses: Array) -> int:
        """The width of the access that this instruction stands for; 0 if a neighbour stands for it."""
        known = self.widths.get(id(operation))
        if known is not None:
            return known
        fusion = self._fusions.get(id(operation))
        if fusion is None:
            self.widths[id(operation)] = operation.width
            return operation.width
        base = addresses.astype(np.int64) - operation.offsets[0]
        common = int(np.bitwise_or.reduce(base, axis=None))
        alignment = common & -common if common else 16
        for member, width in _cut(fusion.members, alignment):
            self.widths[id(member)] = width
        return self.widths[id(operation)]


def _find_fusions(lowered: Lowered) -> dict[int, Fusion]:
    """Runs of scalar (or narrow vector) shared loads at neighbouring offsets from one register."""
    leaders = set(lowered.labels.values())
    found: dict[int, Fusion] = {}
    stretch: dict[tuple[Any, ...], list[Operation]] = {}

    def close(groups: Iterable[list[Operation]]) -> None:
        for group in groups:
            ordered = sorted(group, key=lambda o: o.offsets[0])
            if len(ordered) > 1:
                fusion = Fusion(tuple(ordered))
                found.update({id(o): fusion for o in ordered})

    for position, operation in enumerate(lowered.operations):
        if (
            position in leaders
            or operation.kind in CONTROL
            or (operation.kind == "store" and operation.space == "shared")
        ):
            close(stretch.values())
            stretch = {}
        if operation.kind == "load" and operation.space == "shared" and operation.width < 16:
            base = operation.sources[0]
            if operation.guard is None:
                cell = base.cell if isinstance(base, Slot) else ("const",)
                stretch.setdefault((cell, operation.width), []).append(operation)
    close(stretch.values())
    return found


def _cut(members: tuple[Operation, ...], alignment: int) -> list[tuple[Operation, int]]:
    """Each member with the width it is served at: the widest aligned access that whole neighbours fill, or 0."""
    result: list[tuple[Operation, int]] = []
    each = members[0].width
    i = 0
    while i < len(members):
        start = members[i].offsets[0]
        run = 1
        while i + run < len(members) and members[i + run].offsets[0] == start + run * each:
            run += 1
        width = next((w for w in (16, 8) if w > each and w <= alignment and start % w == 0 and run * each >= w), each)
        taken = width // each
        result += [(member, width if n == 0 else 0) for n, member in enumerate(members[i : i + taken])]
        i += taken
    return result
