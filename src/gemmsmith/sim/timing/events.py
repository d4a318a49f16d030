"""What mbarriers, TMA and wgmma do, written down for the time model beside what memory accesses cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gemmsmith.sim.instructions.mbarrier import places
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.sass.program import MachineProgram
from gemmsmith.sim.sass.syntax import MachineInstruction, Register
from gemmsmith.sim.timing.streams import Stream, StreamRecorder
from gemmsmith.sim.waits.mbarriers import BYTES


class EventRecorder:
    """A recorder of a launch that adds payloads to the streams of ``StreamRecorder``.

    SYNCS            ("init", place, arrivals), ("arrive", ((place, arrivals), ...), bytes),
                     ("wait", place, parity, met)
    UTMALDG          ("tma", places of the mbarriers, bytes for each, where they come from)
    UBLKCP           ("bulk", the same)
    UTMASTG          ("store", bytes)
    STAS             ("stas", ((place, bytes), ...))
    BAR              ("barrier", number), where a register has the number

    A place is the number of a block among those that run, and a byte of its shared memory.
    """

    def __init__(self, streams: StreamRecorder) -> None:
        assert isinstance(streams.lowered, MachineProgram)
        self.streams, self.program = streams, streams.lowered
        code = tuple(enumerate(self.program.instructions))
        self._numbered = frozenset(
            n for n, i in code if i.opcode == "BAR" and i.operands and isinstance(i.operands[0], Register)
        )
        streams.noted = self._numbered | {n for n, i in code if i.opcode in ("UTMALDG", "UBLKCP", "UTMASTG")}
        self._remote = frozenset(n for n, i in enumerate(self.program.instructions)
                                 if i.opcode == "STAS" and n in self.program.counted)  # fmt: skip
        self._syncs = {n: i for n, i in code if i.opcode == "SYNCS"}
        self._watched = self._remote | self._syncs.keys()

    def executes(self, machine: Any, step: Any, lanes: Any) -> None:
        first = step.operations[0].position
        if first not in self._watched:
            return
        if first in self._remote:
            self._stored(machine, step, lanes)
            return
        i = self._syncs[first]
        if not step.pointers or first not in self.program.counted:
            return
        self.streams.window_bytes = machine.shared.stride
        mine, index = places(machine, step, lanes, generic=False)
        value = machine.spread(machine.fetch(step.sources[0], lanes), lanes) if step.sources else np.zeros(mine.size)
        wait = "PHASECHK" in i.modifiers
        met = step.detail.complete(machine, step, lanes, index) if wait else np.ones(mine.size, bool)
        warps = machine.warp[mine]  # in ascending order
        starts = [0, *(np.flatnonzero(warps[1:] != warps[:-1]) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], mine.size], strict=True):
            payload = _payload(i, index[start:end], value[start:end])
            whole = (*payload, bool(met[start:end].all())) if wait else payload
            self.streams.note_here(int(warps[start]), first, whole)

    def _stored(self, machine: Any, step: Any, lanes: Any) -> None:
        """STAS: every lane's bytes count at an mbarrier, perhaps of another block."""
        mine = machine.indices(lanes)
        addresses = machine.addresses(step.pointers[1], lanes, 1)
        index = machine.shared.index(addresses, machine.shared_base[lanes], BYTES)
        warps = machine.warp[mine]
        for warp in np.unique(warps).tolist():
            found, counts = np.unique(index[warps == warp], return_counts=True)
            pairs = tuple((int(p), int(n) * step.detail.nbytes) for p, n in zip(found, counts, strict=True))
            self.streams.note_here(warp, step.first.position, ("stas", pairs))

    def bulk_load(self, machine: Any, operation: Any, lane: int, targets: list[Array], barriers: Array, nbytes: int,
                  source: Any) -> None:  # fmt: skip
        del targets
        bulk = source.box is None
        where = (source.address if bulk else source.box.address, *source.at)
        self._note(machine, operation, lane, ("bulk" if bulk else "tma", tuple(barriers.tolist()), nbytes, where))

    def bulk_store(self, machine: Any, operation: Any, lane: int, chunks: Array, nbytes: int, source: Any) -> None:
        del chunks, source
        self._note(machine, operation, lane, ("store", nbytes))

    def _note(self, machine: Any, operation: Any, lane: int, payload: tuple[Any, ...]) -> None:
        position = operation.position
        while position not in self.program.counted:
            position -= 1
        self.streams.note_here(int(machine.warp[lane]), position, payload)

    def arrives(self, machine: Any, step: Any, lanes: Any) -> None:
        if step.first.position not in self._numbered:
            return
        mine = machine.indices(lanes)
        warps, first = np.unique(machine.warp[mine], return_index=True)
        numbers = machine.spread(machine.fetch(step.sources[0], lanes), lanes)[first]
        for warp, number in zip(warps.tolist(), numbers.tolist(), strict=True):
            self.streams.note_here(warp, step.first.position, ("barrier", int(number)))

    def passes(self, machine: Any, step: Any, lanes: Any) -> None: ...
    def copies(self, machine: Any, operation: Any, lanes: Any, target: Array, source: Array, size: Array) -> None: ...
    def multiplies(self, machine: Any, step: Any, lanes: Any, of_a: Array | None, of_b: Array) -> None: ...
    def completes(self, machine: Any, place: int, phase: int) -> None: ...


def as_alone(streams: Sequence[Stream], ran: StreamRecorder) -> list[Stream]:
    """The streams of one cluster as if no other had run: places begin with those of its first block."""
    back = ran.windows[streams[0].block] * ran.window_bytes if streams else 0
    if not back:
        return [*streams]
    return [replace(s, payloads=tuple([_moved(payload, back) for payload in s.payloads])) for s in streams]


def _moved(payload: Any, back: int) -> Any:
    """A payload with its places so many bytes further in front."""
    what = payload[0] if payload.__class__ is tuple and payload else None
    if what == "init" or what == "wait":
        return what, payload[1] - back, *payload[2:]
    if what == "arrive" or what == "stas":
        return what, tuple([(place - back, count) for place, count in payload[1]]), *payload[2:]
    if what == "tma" or what == "bulk":
        return what, tuple([place - back for place in payload[1]]), *payload[2:]
    return payload


def _payload(i: MachineInstruction, index: Array, value: Array) -> tuple[Any, ...]:
    place = int(index[0])
    if "EXCH" in i.modifiers:
        return "init", place, int(value[0])
    if "PHASECHK" in i.modifiers:
        return "wait", place, int(value[0]) & 1
    if "ARRIVE" in i.modifiers:
        form = next((m for m in i.modifiers if m in ("A1T0", "ART0", "A0TR", "A0T1")), "A1TR")
        if form in ("A1TR", "A0TR"):
            each = 1 if form == "A1TR" else 0
            return "arrive", tuple((int(p), each) for p in index), int(value.sum())
        return "arrive", tuple((int(p), int(v)) for p, v in zip(index, value, strict=True)), 0
    return ("other",)
