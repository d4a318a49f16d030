"""Execute a lowered kernel for a wave of blocks: registers, divergence, barriers, asynchronous copies.

A *lane* is one thread of one block of the wave. A *group* is a set of lanes at one position in the
program; a branch that lanes disagree on splits it, and groups that meet again merge. Groups wait at
barriers until every live thread of their block has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import SimulationError
from gemmsmith.sim.async_copy import AsyncCopies
from gemmsmith.sim.bundle import Bundle, Operand, Program
from gemmsmith.sim.counters import Counters, warp_rows
from gemmsmith.sim.faults import describe_fault, divergent_barrier, stuck_barrier
from gemmsmith.sim.hazards import HazardLog, Shadow
from gemmsmith.sim.lower import FILE_DTYPES, Lowered
from gemmsmith.sim.memory import (
    LOCAL_WINDOW,
    RAW,
    SHARED_WINDOW,
    AccessFault,
    GlobalMemory,
    WindowMemory,
    window_of,
)
from gemmsmith.sim.schedule import Schedule

Array = NDArray[Any]
Lanes = Array | slice
ALL = slice(None)
WARP = 32
# What a register holds before it is written: a NaN in every floating type, so that a sum which starts from it shows.
_UNSET = {"p": False, "h": 0x7ECD, "w": 0x7FCDCDCD, "d": 0x7FFCCDCDCDCDCDCD}


@dataclass
class Group:
    """Lanes that stand at one position; ``team`` is the schedule's, so that warps can drift apart."""

    position: int
    lanes: Lanes
    team: int


@dataclass(frozen=True)
class Wave:
    """Which blocks run together, and the launch they belong to."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks: Array
    shared_size: int
    parameters: bytes

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def lanes(self) -> int:
        return self.threads * len(self.blocks)


class Machine:
    """One wave's state and its execution."""

    def __init__(
        self,
        lowered: Lowered,
        program: Program,
        wave: Wave,
        memory: GlobalMemory,
        schedule: Schedule,
        log: HazardLog | None = None,
        counters: Counters | None = None,
    ) -> None:
        self.lowered, self.program, self.wave = lowered, program, wave
        self.memory, self.schedule = memory, schedule
        count = wave.lanes
        self.files = {f: np.full((h, count), _UNSET[f], FILE_DTYPES[f]) for f, h in lowered.heights.items()}
        self.thread = np.tile(np.arange(wave.threads), len(wave.blocks))
        self.block = np.repeat(np.arange(len(wave.blocks)), wave.threads)
        self.shared = WindowMemory("shared", len(wave.blocks), wave.shared_size)
        self.shared_base = self.block * self.shared.stride
        self.local = WindowMemory("local", count if lowered.local_size else 0, lowered.local_size)
        self.local_base = np.arange(count) * self.local.stride
        self.alive = np.ones(count, bool)
        self.live = np.full(len(wave.blocks), wave.threads)
        self.copies = AsyncCopies(self, count)
        self.warps_per_block = -(-wave.threads // WARP)
        self.warp = self.block * self.warps_per_block + self.thread // WARP
        self.counters = counters
        self.shadow = Shadow(self, log) if log is not None and wave.shared_size else None
        self.at_warp_barrier: list[tuple[Group, Bundle]] = []
        self._fill_special()
        self.execute = {
            "compute": self._compute, "load": self._load, "store": self._store, "copy": self.copies.issue,
            "pack": self._pack, "unpack": self._unpack, "atomic": self._atomic, "shuffle": self._shuffle,
        }  # fmt: skip

    def _fill_special(self) -> None:
        words, rows = self.files["w"], self.lowered.special
        for name, size, index in (("tid", self.wave.block, self.thread), ("ctaid", self.wave.grid, None)):
            linear = self.wave.blocks[self.block] if index is None else index
            words[rows[f"%{name}.x"]] = linear % size[0]
            words[rows[f"%{name}.y"]] = linear // size[0] % size[1]
            words[rows[f"%{name}.z"]] = linear // (size[0] * size[1])
            for axis, extent in zip("xyz", size, strict=True):
                words[rows[f"%n{name}.{axis}"]] = extent
        words[rows["%laneid"]] = self.thread % WARP
        words[rows["%warpid"]] = self.thread // WARP

    # -- control ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Run every group to its end."""
        ready = self._start()
        waiting: list[tuple[Group, Bundle]] = []
        while ready or waiting or self.at_warp_barrier:
            if not ready:
                ready = self._release_warps() or self._release(waiting)
            group = ready.pop(self.schedule.choose([g.team for g in ready], [g.position for g in ready]))
            ready, group = self._merge(ready, group)
            meet = {g.position for g in ready if g.team == group.team}
            ready += self._advance(group, waiting, meet, alone=not (ready or waiting or self.at_warp_barrier))

    def _start(self) -> list[Group]:
        if self.schedule.lockstep:
            return [Group(0, ALL, 0)]
        warp = self.thread // WARP
        return [Group(0, compact(np.flatnonzero(warp == w)), w) for w in range(int(warp.max()) + 1)]

    def _merge(self, ready: list[Group], group: Group) -> tuple[list[Group], Group]:
        same = [g for g in ready if g.position == group.position and g.team == group.team]
        if not same:
            return ready, group
        lanes = np.sort(np.concatenate([self.indices(g.lanes) for g in (*same, group)]))
        rest = [g for g in ready if g.position != group.position or g.team != group.team]
        return rest, Group(group.position, self._compact(lanes), group.team)

    def _advance(self, group: Group, waiting: list[tuple[Group, Bundle]], meet: set[int], alone: bool) -> list[Group]:
        """Run one group until it waits, ends, splits, meets another of its team, or its turn is over."""
        steps, position, lanes = self.program.steps, group.position, group.lanes
        turn = self.schedule.quantum()
        taken = 0
        while position < len(steps):
            step = steps[position]
            kind = step.first.kind
            if position in meet and position != group.position:
                return [Group(position, lanes, group.team)]
            if self.counters is not None and kind in ("branch", "barrier"):
                self.counters.executed(self, step, lanes)
            if (run := self.execute.get(kind)) is not None:
                self._step(run, step, lanes)
                position += 1
            elif kind == "branch":
                groups = self._branch(step, position, lanes, group.team)
                if len(groups) > 1 or not alone:
                    return groups
                position = groups[0].position
            elif kind == "barrier":
                arriving = self._guarded(step, lanes)
                if arriving is not lanes:
                    return self._arrive_in_part(step, position, lanes, arriving, group.team, waiting)
                if not (alone and isinstance(lanes, slice) and lanes == ALL):
                    waiting.append((Group(position + 1, lanes, group.team), step))
                    return []
                self._passed(lanes)
                position += 1
            elif kind == "warp_barrier" and self._guarded(step, lanes) is not None:
                self.at_warp_barrier.append((Group(position + 1, lanes, group.team), step))
                groups = self._release_warps()
                if len(groups) != 1 or groups[0].lanes is not lanes:
                    return groups
                position += 1
            elif kind == "exit":
                left = self._exit(step, lanes)
                if left is None:
                    return []
                lanes, position = left, position + 1
            else:
                if (active := self._guarded(step, lanes)) is not None:
                    self._ordering(step, active)
                position += 1
            taken += 1
            if taken == turn:
                return [Group(position, lanes, group.team)]
        self._exit_all(lanes)
        return []

    def _step(self, run: Any, step: Bundle, lanes: Lanes) -> None:
        active = self._guarded(step, lanes)
        if active is None:
            return
        if self.counters is not None:
            self.counters.executed(self, step, active)
        try:
            run(step, active)
        except AccessFault as fault:
            raise describe_fault(self, step, active, fault) from None

    def _guarded(self, step: Bundle, lanes: Lanes) -> Lanes | None:
        """The lanes whose guard holds, or None if there are none."""
        guard = step.first.guard
        if guard is None:
            return lanes
        values = self.files["p"][guard.row][lanes]
        if step.first.negated:
            values = ~values
        if values.all():
            return lanes
        if not values.any():
            return None
        return compact(self.indices(lanes)[values])

    def _branch(self, step: Bundle, position: int, lanes: Lanes, team: int) -> list[Group]:
        target = self.program.labels[step.first.label]
        taken = self._guarded(step, lanes)
        if taken is None:
            return [Group(position + 1, lanes, team)]
        if taken is lanes:
            return [Group(target, lanes, team)]
        chosen = np.zeros(self.wave.lanes, bool)
        chosen[taken] = True
        mine = self.indices(lanes)
        stay = compact(mine[~chosen[mine]])
        if self.counters is not None:
            self.counters.diverged(self, step, stay, taken)
        return [Group(position + 1, stay, team), Group(target, taken, team)]

    def _arrive_in_part(self, step: Bundle, position: int, lanes: Lanes, arriving: Lanes | None, team: int,
                        waiting: list[tuple[Group, Bundle]]) -> list[Group]:  # fmt: skip
        """A predicated barrier: the lanes whose guard holds wait at it, the others go on."""
        mine = self.indices(lanes)
        if arriving is None:
            return [Group(position + 1, lanes, team)]
        waiting.append((Group(position + 1, arriving, team), step))
        return [Group(position + 1, compact(mine[~np.isin(mine, self.indices(arriving))]), team)]

    def _exit(self, step: Bundle, lanes: Lanes) -> Lanes | None:
        """Ends the guarded lanes; the lanes that go on, or None."""
        leaving = self._guarded(step, lanes)
        if leaving is None:
            return lanes
        self._exit_all(leaving)
        mine = self.indices(lanes)
        left = mine[self.alive[mine]]
        return compact(left) if left.size else None

    def _exit_all(self, lanes: Lanes) -> None:
        self.alive[lanes] = False
        self.live = np.bincount(self.block[self.alive], minlength=len(self.wave.blocks))

    def _release(self, waiting: list[tuple[Group, Bundle]]) -> list[Group]:
        """Let go every block whose live threads have all arrived at one barrier."""
        blocks = len(self.wave.blocks)
        arrived = np.zeros(blocks, np.int64)
        at = np.full(blocks, -1)
        for group, step in waiting:
            counts = np.bincount(self.block[group.lanes], minlength=blocks)
            here = counts > 0
            clash = here & (at >= 0) & (at != group.position)
            if clash.any():
                raise divergent_barrier(self, int(np.flatnonzero(clash)[0]), waiting)
            at[here] = group.position
            arrived += counts
            del step
        free = (arrived == self.live) & (arrived > 0)
        if not free.any():
            raise stuck_barrier(self, waiting or self.at_warp_barrier)
        released, passed = [], []
        for entry in list(waiting):
            group, step = entry
            lanes = self.indices(group.lanes)
            go = free[self.block[lanes]]
            waiting.remove(entry)
            if go.any():
                released.append(Group(group.position, self._compact(lanes[go]), group.team))
                passed.append(lanes[go])
            if not go.all():
                waiting.append((Group(group.position, compact(lanes[~go]), group.team), step))
        self._passed(np.concatenate(passed))
        return released

    def _release_warps(self) -> list[Group]:
        """Let go the lanes at a warp-wide barrier for which every live lane of their mask has arrived there, too."""
        released = []
        for at in sorted({group.position for group, _ in self.at_warp_barrier}):
            here = [entry for entry in self.at_warp_barrier if entry[0].position == at]
            live, arrived = (np.zeros((len(self.wave.blocks) * self.warps_per_block, WARP), bool) for _ in range(2))
            live[self.warp[self.alive], self.thread[self.alive] % WARP] = True
            for group, _ in here:
                arrived[self.warp[group.lanes], self.thread[group.lanes] % WARP] = True
            missing = (live & ~arrived) @ (np.uint32(1) << np.arange(WARP, dtype=np.uint32))
            for group, step in here:
                self.at_warp_barrier.remove((group, step))
                mine = self.indices(group.lanes)
                go = (missing[self.warp[mine]] & self.fetch(step.sources[0], group.lanes)) == 0
                if go.any():
                    released.append(group if go.all() else Group(at, compact(mine[go]), group.team))
                if not go.all():
                    self.at_warp_barrier.append((Group(at, compact(mine[~go]), group.team), step))
        if self.shadow is not None and released:
            self.shadow.warp_barrier(np.concatenate([self.indices(group.lanes) for group in released]))
        return released

    def _passed(self, lanes: Lanes) -> None:
        """All threads of these lanes' blocks have passed a barrier."""
        if self.shadow is not None:
            self.shadow.barrier(lanes)

    def _ordering(self, step: Bundle, lanes: Lanes) -> None:
        if step.first.kind == "commit":
            self.copies.commit(lanes)
        elif step.first.kind == "wait":
            try:
                self.copies.wait(lanes, step.first.number)
            except AccessFault as fault:
                raise describe_fault(self, step, lanes, fault) from None

    # -- registers --------------------------------------------------------------------------------

    def indices(self, lanes: Lanes) -> Array:
        """Lane numbers of a set of lanes."""
        return np.arange(self.wave.lanes)[lanes] if isinstance(lanes, slice) else lanes

    def warps_of(self, lanes: Lanes) -> tuple[int, int]:
        """How many warps have a lane in this set, and how many lanes it has."""
        if isinstance(lanes, slice) and lanes == ALL:
            return self.warps_per_block * len(self.wave.blocks), self.wave.lanes
        warps = self.warp[lanes]
        return np.unique(warps).size, warps.size

    def warp_rows(self, lanes: Lanes, values: Array) -> Array:
        """Values of these lanes, one row of 32 a warp, −1 where a lane is inactive."""
        warps = self.warps_per_block * len(self.wave.blocks)
        return warp_rows(self.warp[lanes], self.thread[lanes] % WARP, warps, values)

    def _compact(self, lanes: Array) -> Lanes:
        return ALL if lanes.size == self.wave.lanes else compact(lanes)

    def fetch(self, operand: Operand, lanes: Lanes) -> Any:
        """An operand's values: one row a lane, or one row an operation of the bundle."""
        if operand.constant is not None:
            return operand.constant
        rows, table = operand.rows, self.files[operand.file]
        narrow = operand.dtype.itemsize != table.dtype.itemsize
        if not narrow and operand.file != "p":
            table = table.view(operand.dtype)
        if isinstance(rows, np.ndarray) and isinstance(lanes, np.ndarray):
            values = table[rows[:, None], lanes]
        elif isinstance(rows, int):
            values = table[rows][lanes]
        else:
            values = table[rows, lanes]
        return values.astype(operand.dtype) if narrow and operand.file != "p" else values

    def put(self, operand: Operand, lanes: Lanes, values: Any) -> None:
        """Write results; a value narrower than its register is extended by its own sign."""
        rows, table = operand.rows, self.files[operand.file]
        if operand.file != "p":
            if operand.dtype.itemsize == table.dtype.itemsize:
                table = table.view(operand.dtype)
            else:
                values = np.asarray(values).astype(f"{operand.dtype.kind}{table.dtype.itemsize}").view(table.dtype)
        if isinstance(rows, np.ndarray) and isinstance(lanes, np.ndarray):
            table[rows[:, None], lanes] = values
        else:
            table[rows, lanes] = values

    def _compute(self, step: Bundle, lanes: Lanes) -> None:
        function = step.first.function
        assert function is not None
        self.put(step.targets[0], lanes, function(*[self.fetch(s, lanes) for s in step.sources]))

    def _pack(self, step: Bundle, lanes: Lanes) -> None:
        width, target = step.first.width, step.targets[0]
        wide = np.dtype(f"u{width * len(step.sources)}")
        total: Any = wide.type(0)
        for i, source in enumerate(step.sources):
            total = total | (np.asarray(self.fetch(source, lanes)).astype(wide) << wide.type(8 * width * i))
        self.put(target, lanes, total)

    def _unpack(self, step: Bundle, lanes: Lanes) -> None:
        width = step.first.width
        value = np.asarray(self.fetch(step.sources[0], lanes))
        for target, part in zip(step.targets, step.first.offsets, strict=True):
            shifted = value >> value.dtype.type(8 * width * part)
            self.put(target, lanes, shifted.astype(f"u{width}").view(target.dtype))

    # -- memory -----------------------------------------------------------------------------------

    def addresses(self, base: Operand, offset: Any, lanes: Lanes, count: int) -> Array:
        """Byte addresses of every lane (and every operation of the bundle)."""
        values = self.fetch(base, lanes)
        shape = (np.arange(self.wave.lanes)[lanes] if isinstance(lanes, slice) else lanes).shape
        full = shape if count == 1 else (count, *shape)
        kind = values.dtype.type
        if isinstance(offset, int):
            values = values + kind(offset % (1 << (8 * values.dtype.itemsize))) if offset else values
        else:
            values = values + offset.astype(np.int64).astype(kind)
        return np.broadcast_to(values, full)

    def space(self, step: Bundle, addresses: Array) -> tuple[str, Array]:
        """The space an access goes to, with addresses inside it."""
        name = step.first.space
        if name != "generic":
            return name, addresses
        name = window_of(addresses)
        if name == "mixed":
            raise AccessFault("mixed-space", 0, int(addresses.reshape(-1)[0]),
                              "one instruction reaches several memories through generic pointers")  # fmt: skip
        start = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0}[name]
        return name, addresses - np.uint64(start)

    def window(self, name: str, lanes: Lanes) -> tuple[WindowMemory, Array]:
        return (self.shared, self.shared_base[lanes]) if name == "shared" else (self.local, self.local_base[lanes])

    def _count_access(self, step: Bundle, space: str, lanes: Lanes, addresses: Array) -> None:
        if self.counters is not None and space != "local":
            count = self.counters.global_access if space == "global" else self.counters.shared_access
            for operation, row in zip(step.operations, addresses.reshape(step.count, -1), strict=True):
                count(self, operation, lanes, row)

    def _load(self, step: Bundle, lanes: Lanes) -> None:
        width, parts = step.first.width, len(step.targets)
        if step.first.space == "param":
            raw = self._parameter(step, width)
        else:
            name, addresses = self.space(step, self.addresses(step.sources[0], step.offsets[0], lanes, step.count))
            self._count_access(step, name, lanes, addresses)
            if name == "global":
                raw = self.memory.gather(addresses, width)
            else:
                memory, bases = self.window(name, lanes)
                index = memory.index(addresses, bases, width)
                raw = memory.gather(index, width)
                if self.shadow is not None and name == "shared":
                    for operation, row in zip(step.operations, index.reshape(step.count, -1), strict=True):
                        self.shadow.read(operation, self.indices(lanes), row)
        if parts == 1:
            self.put(step.targets[0], lanes, raw.view(step.targets[0].dtype))
            return
        pieces = raw.view(RAW[width // parts]).reshape(*raw.shape, parts)
        for i, target in enumerate(step.targets):
            self.put(target, lanes, np.ascontiguousarray(pieces[..., i]).view(target.dtype))

    def _parameter(self, step: Bundle, width: int) -> Array:
        values = []
        for operation in step.operations:
            (source,) = operation.sources
            if not isinstance(source, np.generic):
                raise SimulationError(f"a parameter is read through a register ({operation.instruction.text})")
            at = int(source)
            values.append(np.frombuffer(self.wave.parameters[at : at + width], RAW[width])[0])
        return np.array(values, RAW[width]).reshape((-1, 1) if step.count > 1 else (1,))

    def _store(self, step: Bundle, lanes: Lanes) -> None:
        width, parts = step.first.width, len(step.sources) - 1
        name, addresses = self.space(step, self.addresses(step.sources[0], step.offsets[0], lanes, step.count))
        columns = [np.broadcast_to(self.fetch(s, lanes), addresses.shape) for s in step.sources[1:]]
        if parts == 1:
            values = np.ascontiguousarray(columns[0]).view(RAW[width])
        else:
            values = np.ascontiguousarray(np.stack(columns, axis=-1)).view(RAW[width]).reshape(addresses.shape)
        self._count_access(step, name, lanes, addresses)
        if name == "global":
            self.memory.scatter(addresses, width, values)
        else:
            memory, bases = self.window(name, lanes)
            index = memory.index(addresses, bases, width)
            memory.scatter(index, width, values)
            if self.shadow is not None and name == "shared":
                rows = zip(step.operations, index.reshape(step.count, -1), values.reshape(step.count, -1), strict=True)
                for operation, row, written in rows:
                    self.shadow.write(operation, self.indices(lanes), row, written)

    def _atomic(self, step: Bundle, lanes: Lanes) -> None:
        """Additions one lane after another, in lane order."""
        width = step.first.width
        name, addresses = self.space(step, self.addresses(step.sources[0], step.offsets[0], lanes, 1))
        values = np.broadcast_to(self.fetch(step.sources[1], lanes), addresses.shape)
        old = np.zeros(addresses.shape, values.dtype)
        if self.shadow is not None and name == "shared":
            self.shadow.atomic(
                step.first, self.indices(lanes), self.shared.index(addresses, self.shared_base[lanes], width)
            )
        for i in range(addresses.size):
            one = slice(i, i + 1)
            if name == "global":
                old[one] = self.memory.gather(addresses[one], width).view(values.dtype)
                self.memory.scatter(addresses[one], width, (old[one] + values[one]).view(RAW[width]))
            else:
                memory, bases = self.window(name, lanes)
                index = memory.index(addresses[one], bases[one], width)
                old[one] = memory.gather(index, width).view(values.dtype)
                memory.scatter(index, width, (old[one] + values[one]).view(RAW[width]))
        if step.targets:
            self.put(step.targets[0], lanes, old)

    def _shuffle(self, step: Bundle, lanes: Lanes) -> None:
        """shfl.sync: each lane reads another lane of its warp, by PTX's segment and clamp rules."""
        mine = self.indices(lanes)
        value, b, c = (np.broadcast_to(self.fetch(s, lanes), mine.shape).astype(np.int64) for s in step.sources)
        lane = self.thread[mine] % WARP
        clamp, segment = c & 31, (c >> 8) & 31
        most = (lane & segment) | (clamp & ~segment & 31)
        least = lane & segment
        mode = step.first.label
        wanted = {
            "up": lane - (b & 31), "down": lane + (b & 31), "bfly": lane ^ (b & 31),
            "idx": least | (b & 31 & ~segment),
        }[mode]  # fmt: skip
        valid = wanted >= most if mode == "up" else wanted <= most
        source = np.where(valid, wanted, lane) + (mine - lane)
        table = np.zeros(self.wave.lanes, np.uint32)
        table[mine] = value.astype(np.uint32)
        present = np.zeros(self.wave.lanes, bool)
        present[mine] = True
        inside = (source - mine + self.thread[mine]) < self.wave.threads  # the last warp of a block may be short
        absent = ~(inside & present[np.where(inside, source, mine)])
        if absent.any():
            raise AccessFault("inactive-lane", int(np.flatnonzero(absent)[0]), 0,
                              "shfl.sync reads a lane that does not take part")  # fmt: skip
        self.put(step.targets[0], lanes, table[source])
        if len(step.targets) == 2:
            self.put(step.targets[1], lanes, valid)


def compact(lanes: Array) -> Lanes:
    """A slice where the lanes are consecutive, which NumPy handles without copying."""
    if lanes.size and int(lanes[-1]) - int(lanes[0]) + 1 == lanes.size:
        return slice(int(lanes[0]), int(lanes[-1]) + 1)
    return lanes
