"""Calls in progress: where each lane returns to, its frame, and the registers that a recursive call would lose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.memory.window_memory import WindowMemory
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.special import FRAME


@dataclass(frozen=True)
class Copy:
    """A parameter: where it is in the caller's frame and in the function's, and how many bytes it has."""

    caller: int
    callee: int
    size: int


@dataclass(frozen=True)
class Callee:
    """A function as one call sees it. ``address`` is what a pointer to it holds."""

    label: str
    address: int
    frame_size: int
    arguments: tuple[Copy, ...]
    results: tuple[Copy, ...]


@dataclass(frozen=True)
class Call:
    """The ``detail`` of a call: whom it may call, and the caller's registers if it may be called again meanwhile.

    A call by name has one callee. One through a pointer has all functions with such parameters.
    """

    callees: tuple[Callee, ...]
    saved: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class _Record:
    """A call that is in progress in some lanes."""

    call: Call
    callee: Callee
    back: int


class CallStack:
    """The calls in progress of a wave. ``top`` is each lane's first free byte of local memory."""

    def __init__(self, machine: Execution) -> None:
        lanes = machine.wave.lanes
        self.machine = machine
        used = machine.lowered.special.get(FRAME)
        self.frame = np.zeros(lanes, np.uint64) if used is None else machine.files[used.file][used.row]
        self.top = np.full(lanes, machine.lowered.frame_size, np.uint64)
        self.depth = np.zeros(lanes, np.int64)
        self.records: list[_Record] = []
        self._numbers: dict[tuple[Call, Callee, int], int] = {}
        # By depth: each lane's record, frame and top before the call, and saved registers.
        self.levels: list[tuple[Array, Array, Array, dict[str, Array]]] = []

    def enter(self, call: Call, callee: Callee, lanes: Array, back: int) -> None:
        """Begin a call in these lanes; ``back`` is where they return to."""
        memory = self.machine.local
        frame = (self.top[lanes] + np.uint64(15)) & ~np.uint64(15)
        self._check(frame + np.uint64(callee.frame_size))
        for copy in callee.arguments:
            self._copy(memory, lanes, self.frame[lanes] + np.uint64(copy.caller), frame + np.uint64(copy.callee), copy)
        number = self._number(call, callee, back)
        for depth in np.unique(self.depth[lanes]):
            mine = lanes[self.depth[lanes] == depth]
            record, frames, tops, saved = self._level(int(depth))
            record[mine], frames[mine], tops[mine] = number, self.frame[mine], self.top[mine]
            for file, rows in call.saved:
                table = self.machine.files[file]
                held = saved.get(file, np.zeros((0, table.shape[1]), table.dtype))
                if len(held) < len(rows):
                    saved[file] = np.concatenate((held, np.zeros((len(rows) - len(held), table.shape[1]), table.dtype)))
                saved[file][np.arange(len(rows))[:, None], mine] = table[np.array(rows)[:, None], mine]
        self.depth[lanes] += 1
        self.frame[lanes] = frame
        self.top[lanes] = frame + np.uint64(callee.frame_size)
        self.machine.targets[lanes] = self.machine.lowered.labels[callee.label]

    def leave(self, lanes: Array) -> None:
        """Return from the innermost call of these lanes; a lane that is in no call ends."""
        outermost = self.depth[lanes] == 0
        self.machine.targets[lanes[outermost]] = len(self.machine.lowered.operations)
        lanes = lanes[~outermost]
        self.depth[lanes] -= 1
        for depth in np.unique(self.depth[lanes]):
            here = lanes[self.depth[lanes] == depth]
            record, frames, tops, saved = self._level(int(depth))
            for number in np.unique(record[here]):
                mine, known = here[record[here] == number], self.records[int(number)]
                before = frames[mine]
                for copy in known.callee.results:
                    self._copy(self.machine.local, mine, self.frame[mine] + np.uint64(copy.callee),
                               before + np.uint64(copy.caller), copy)  # fmt: skip
                self.frame[mine], self.top[mine] = before, tops[mine]
                for file, rows in known.call.saved:
                    self.machine.files[file][np.array(rows)[:, None], mine] = saved[file][
                        np.arange(len(rows))[:, None], mine
                    ]
                self.machine.targets[mine] = known.back

    def allocate(self, lanes: Array, sizes: Array, alignment: int) -> Array:
        """alloca: bytes from the top of the stack of each lane."""
        start = (self.top[lanes] + np.uint64(alignment - 1)) & ~np.uint64(alignment - 1)
        self._check(start + sizes.astype(np.uint64))
        self.top[lanes] = start + sizes.astype(np.uint64)
        return start

    def _check(self, tops: Array) -> None:
        size = self.machine.local.size
        if bool((tops > np.uint64(size)).any()):
            first = int(np.argmax(tops > np.uint64(size)))
            raise LaneFault(first, f"stack overflow: calls and alloca need more than the {size} bytes of local memory "
                            "that a thread has here")  # fmt: skip

    def _number(self, call: Call, callee: Callee, back: int) -> int:
        key = (call, callee, back)
        if key not in self._numbers:
            self._numbers[key] = len(self.records)
            self.records.append(_Record(call, callee, back))
        return self._numbers[key]

    def _level(self, depth: int) -> tuple[Array, Array, Array, dict[str, Array]]:
        lanes = self.machine.wave.lanes
        while len(self.levels) <= depth:
            self.levels.append((np.zeros(lanes, np.int64), np.zeros(lanes, np.uint64), np.zeros(lanes, np.uint64), {}))
        return self.levels[depth]

    def _copy(self, memory: WindowMemory, lanes: Array, source: Array, target: Array, copy: Copy) -> None:
        """Copy a parameter between frames, with what is known about which bytes were written; in words."""
        bases = self.machine.local_base[lanes]
        words = memory.data.view(np.uint32)
        for offset in range(0, copy.size, 4):
            at, to = ((x.astype(np.int64) + bases + offset) >> 2 for x in (source, target))
            words[to] = words[at]
            memory.written[to] = memory.written[at]
