"""Where requests of warps to memory go: a sub-core's queue, the data stage and tags of L1, L2, DRAM, TMA.

Units are calendars: each has the time from which it is free. What arrives later, bytes at an mbarrier or lines at the
data stage, is an event, which the loop of ``sm.py`` takes in order of time.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Any

from gemmsmith.sim.timing.l1_lines import L1Lines, Lines
from gemmsmith.sim.timing.outcome import PARTS, Outcome
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.table import Kind, Row

_GLOBAL_LOAD, _GLOBAL_STORE = int(Kind.GLOBAL_LOAD), int(Kind.GLOBAL_STORE)
_UNKNOWN = ((0, 15),) * 4  # an access whose lines were not recorded: four whole lines


class AllSent(Exception):  # noqa: N818
    """The last store to what other blocks read has issued, and who runs the model wants to know no more."""


@dataclass(frozen=True)
class Memory:
    """Where data come from in this part of the launch. ``cold``: what L1 does not have comes from DRAM, not from L2.

    ``l1_lines``: lines that L1 has room for, beside shared memory. ``near``: first and last line of what other
    blocks leave in L2, from cycle ``near_from`` on. The others are for what-ifs: shared memory without bank conflicts,
    and global accesses that touch as few lines as their bytes need.
    """

    cold: bool = False
    l1_lines: int = 1024
    conflicts: bool = True
    coalesced: bool = False
    near: tuple[int, int] = (0, -1)
    near_from: float = 0.0


class MemoryPath:
    """The memory units of one SM, or of the SMs of a cluster; ``part`` is a sub-core's number in all of them.

    events  (when, number, place, amount): bytes for the mbarrier at ``place``, or, where it is negative, wavefronts for
            the data stage of SM ``-1 - place``
    """

    def __init__(self, sms: int, model: SmParameters, memory: Memory, out: Outcome) -> None:
        self.model, self.memory, self.out = model, memory, out
        # one for each sub-core
        self.queue: list[deque[float]] = [deque() for _ in range(PARTS * sms)]
        self.operand_free = [0.0] * (PARTS * sms)
        self.port_free = [0.0] * (PARTS * sms)
        # one for each SM
        self.lsu_free = [0.0] * sms  # the data stage: shared memory and L1, a wavefront a cycle
        self.tag_free = [0.0] * sms  # the tag stage of L1: a line a cycle
        self.l2_free = [0.0] * sms
        self.dram_free = [0.0] * sms
        self.store_free = [0.0] * sms
        self.tma_free = [0.0] * sms
        self.l1 = [L1Lines(memory.l1_lines) for _ in range(sms)]
        self.pairs: dict[int, int] = {}  # of sectors that came from DRAM, by line: bits 0 and 2
        self.sectors: dict[int, int] = {}  # of accesses that were seen, by the identity of their payloads
        self.events: list[tuple[float, int, int, float]] = []
        self.unsent = 0  # stores to ``memory.near`` that have still to issue, if the run ends with the last of them
        self._sequence = 0

    def take_data_stage(self, sm: int, now: float, waves: float) -> None:
        """Copies have arrived at the data stage of an SM."""
        self.lsu_free[sm] = max(self.lsu_free[sm], now) + waves
        self.out.data_cycles += waves

    def _dispatched(self, part: int, row: Row, lines: float, waves: float, now: float) -> float:
        """Send a request through the sub-core's queue to the memory unit of the SM; when it is served.

        Units serve requests in order of arrival, and idle cycles before a late request are not lost to later ones.
        """
        model, sm, out = self.model, part // PARTS, self.out
        waves *= model.wavefront
        free, data = self.operand_free[part], self.lsu_free[sm]
        start = (free if free > now else now) + row.operand_bytes * 32 / model.operand_port
        self.operand_free[part] = start
        if waves and data > start:
            start = data
        self.lsu_free[sm] = (data if data > now else now) + waves
        out.data_cycles += waves
        served = start + waves
        if lines:
            out.tag_cycles += lines
            tags = self.tag_free[sm]
            start = start if start > tags else tags
            self.tag_free[sm] = (tags if tags > now else now) + lines
            tagged = start + lines
            served = served if served > tagged else tagged
        self.queue[part].append(start)
        return served

    def _returned(self, part: int, row: Row, data: float, now: float, width: float) -> float:
        """Write a result to registers through the sub-core's writeback port, first in, first out.

        ``width``: bytes a cycle.
        """
        cycles, free = row.result_bytes * 32 / width, self.port_free[part]
        self.port_free[part] = (free if free > now else now) + cycles
        return (data if data > free else free) + cycles

    def shared_access(self, part: int, row: Row, waves: int, now: float) -> float:
        least = 32 / self.model.lsu_lanes
        served = self._dispatched(part, row, 0, waves if waves > least else least, now) + self.model.shared_latency
        return self._returned(part, row, served, now, self.model.shared_port_bytes) if row.result_bytes else served

    def generic_access(self, part: int, row: Row, waves: int, now: float) -> float:
        """An access of shared memory by a generic address: it is known by the tags to be none of L1."""
        least = 32 / self.model.lsu_lanes
        served = self._dispatched(part, row, least, max(waves, least), now) + self.model.generic_latency
        return self._returned(part, row, served, now, self.model.shared_port_bytes) if row.result_bytes else served

    def global_access(self, part: int, row: Row, payload: Any, now: float) -> float:
        model, sm = self.model, part // PARTS
        if payload is None:  # no lane is active
            return self._dispatched(part, row, 1, 0, now) + model.shared_latency
        if isinstance(payload, tuple):
            lines = payload
        else:
            lines = _UNKNOWN
            self.out.spills += payload == "local"
        if self.memory.coalesced:
            lines = lines[: max(1, (row.result_bytes or row.operand_bytes - 8) // 4)]
        least = 32 / model.lsu_lanes
        sectors = self.sectors.get(id(lines))
        if sectors is None:
            sectors = sum([mask.bit_count() for _, mask in lines])
            if lines is payload:  # which lives as long as the streams do
                self.sectors[id(lines)] = sectors
        count, waves = len(lines), sectors / 4
        if row.kind == _GLOBAL_STORE and lines is payload:  # spills stay in L1
            waves = sectors * model.store_sector
        served = self._dispatched(part, row, count if count > least else least, waves if waves > least else least, now)
        if row.kind != _GLOBAL_LOAD:
            return self._stored(sm, lines, sectors, row.operand_bytes - 8, served)
        there = self._fetched(sm, lines, served, lines is payload) + model.l1_latency
        return self._returned(part, row, there, now, model.port_bytes)

    def _stored(self, sm: int, lines: Lines, sectors: int, lane: int, served: float) -> float:
        """When a store of ``lane`` bytes a lane is in L2: it leaves behind those before it.

        L2 takes so many bytes a cycle, and so many lines; of sectors that are written in part, one at a time.
        """
        model, nbytes = self.model, 32 * sectors
        requests = sectors if 0 < lane < sectors else len(lines)
        leaves = max(requests * model.store_line, nbytes / model.store_bytes_cycle)
        self.out.stored_bytes += nbytes
        self.store_free[sm] = max(self.store_free[sm], served) + leaves
        stored = self.store_free[sm] + model.l2_latency
        if self.memory.near[0] <= lines[0][0] <= self.memory.near[1]:
            self.out.left_at = max(self.out.left_at, stored)
            self.unsent -= 1
            if self.unsent == 0:
                raise AllSent
        return stored

    def _fetched(self, sm: int, lines: Lines, served: float, keep: bool) -> float:
        """When all lines are in L1; misses are fetched from L2, and from DRAM where the launch is cold.

        ``keep``: these lines are a payload.
        """
        ready = self.l1[sm].ready(lines)
        if ready >= 0:
            return ready if ready > served else served
        fill, (first, last) = self.model.fill, self.memory.near
        filled = 0.0

        def fetch(line: int, missing: int) -> float:
            nonlocal filled
            sectors = missing.bit_count()
            filled += max(1.0, sectors * fill)
            near = first <= line <= last or self._fetched_before(line, missing)
            return self._from_l2(sm, 32 * sectors, served, line, near)

        ready = self.l1[sm].access(lines, fetch, keep)
        data = ready if ready > served else served
        if filled:
            self._arrives_at(sm, data, filled)
        return data

    def _fetched_before(self, line: int, sectors: int) -> bool:
        """Whether DRAM has given these sectors of a line: it gives two at a time, also where one is asked for."""
        if not self.memory.cold:
            return False
        pairs = (sectors | sectors >> 1) & 0b0101
        known = self.pairs.get(line, 0)
        self.pairs[line] = known | pairs
        return not pairs & ~known

    def _arrives_at(self, sm: int, when: float, waves: float) -> None:
        """Data that arrive from L2 take the data stage."""
        self._later(when, -1 - sm, waves)

    def _later(self, when: float, place: int, amount: float) -> None:
        self._sequence += 1
        heapq.heappush(self.events, (when, self._sequence, place, amount))

    def _from_l2(self, sm: int, nbytes: float, asked: float, line: int = -1, near: bool = False) -> float:
        """When data of L2 arrive, of one line; without one, whole rows that TMA asks for, which DRAM gives faster.

        ``near``: they are in L2 in any case.
        """
        model, rows = self.model, line < 0
        self.out.l2_bytes += nbytes
        start = max(asked, self.l2_free[sm])
        taken = nbytes / (model.l2_tma_bytes_cycle if rows else model.l2_bytes_cycle)
        self.out.l2_cycles += taken
        self.l2_free[sm] = start + taken
        arrival = self.l2_free[sm] + model.l2_latency
        if near:
            return max(arrival, self.memory.near_from + model.l2_latency)
        if self.memory.cold:
            if rows:
                taken, late = nbytes / model.dram_tma_bytes_cycle, 0.0
            else:  # lines take different times, each always the same
                taken = model.dram_line + nbytes / model.dram_sm_bytes_cycle
                late = model.dram_spread * ((line * 2654435761 >> 16 & 255) / 127.5 - 1)
            self.dram_free[sm] = max(start, self.dram_free[sm]) + taken
            arrival = max(arrival, self.dram_free[sm] + model.l2_latency) + model.dram_latency + late
        return arrival

    def copy(self, part: int, row: Row, payload: Any, now: float) -> float:
        """LDGSTS: the tags of its lines now; the data stage when the data arrive, wherever they are written to."""
        model, lines = self.model, payload[0] if payload is not None else ()
        past_l1, count, sectors = row.number, len(lines), 0
        data = served = self._dispatched(part, row, max(1.0, count * model.copy_tag if past_l1 else count), 0, now)
        for line, mask in lines:
            mine = mask.bit_count()
            sectors += mine
            near = self._fetched_before(line, mask)
            data = max(data, self._from_l2(part // PARTS, 32 * mine, served, line, near))
        if past_l1:
            waves = count * model.copy_line if sectors == count else sectors * model.copy_sector
        else:
            waves = count + model.copy_l1 if lines else 1.0
        self._arrives_at(part // PARTS, data, max(1.0, waves))
        return data + model.copy_latency

    def tma_store(self, part: int, nbytes: int, now: float) -> float:
        """When a store by TMA has read shared memory: as it goes out, behind stores before it."""
        sm, model = part // PARTS, self.model
        start = max(now, self.tma_free[sm])
        self.tma_free[sm] = start + model.tma_gap
        self.store_free[sm] = max(self.store_free[sm], start) + nbytes / model.tma_store_bytes_cycle
        self.out.stored_bytes += nbytes
        return self.store_free[sm] + model.tma_store_latency

    def tma(self, part: int, payload: Any, now: float) -> None:
        if payload is None:
            return
        if payload[0] == "stas":
            for place, nbytes in payload[1]:
                self._later(now + self.model.cluster_barrier, place, nbytes)
            return
        what, places, nbytes = payload[:3]
        sm, model = part // PARTS, self.model
        start = max(now, self.tma_free[sm])
        gap = model.bulk_gap if what == "bulk" else model.tma_gap
        self.tma_free[sm] = start + max(gap, nbytes / model.tma_bytes_cycle)
        arrival = self._from_l2(sm, nbytes, start) + model.tma_latency
        for place in places:
            self._later(arrival, place, nbytes)
