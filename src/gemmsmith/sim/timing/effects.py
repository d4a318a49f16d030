"""What an instruction does when it issues: its unit, what it reserves of memory, and when its result is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gemmsmith.sim.timing.memory_path import Memory, MemoryPath
from gemmsmith.sim.timing.outcome import NEVER, PARTS, SHORT, Outcome
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Row, Unit
from gemmsmith.sim.timing.waits import Waits

# The units of a sub-core that are named here; LITE is the other half of the FMA pipe.
FMA, MIO, TENSOR, LITE = int(Unit.FMA), int(Unit.MIO), int(Unit.TENSOR), len(Unit)
# Kinds as plain numbers: comparing with a member of an enum costs several times as much, for every instruction.
_STORE, GLOBAL_LOAD, GLOBAL_STORE, COPY, _COMMIT, BARRIER, SYNCS, _TMA, GMMA = 2, 3, 4, 5, 6, 8, 9, 10, 11
CLUSTER_ARRIVE, CLUSTER_WAIT, _SHUFFLE, ATOMIC, BARRIER_ARRIVE, FENCE = 15, 16, 17, 18, 19, 20
SharedOp = tuple[int, int, float, float, int]
"""An access of shared memory: (scoreboards it writes and reads, cycles of its operands and of its result at the ports
of the sub-core, most wavefronts or 0)"""


class Effects(Waits):
    """The units and the memory of one SM, or of the SMs of a cluster."""

    def __init__(self, rows: Sequence[Row | None], streams: Sequence[Stream], model: SmParameters, memory: Memory,
                 sm_of: dict[int, int]) -> None:  # fmt: skip
        super().__init__(rows, streams, model, sm_of)
        self.memory = memory
        self.parts = PARTS * self.sms
        self.units = [[0.0] * (LITE + 1) for _ in range(self.parts)]  # one calendar for each sub-core
        self.stored = [0.0] * len(streams)  # when a warp's stores have come to L2
        self.out = Outcome()
        self.path = MemoryPath(self.sms, model, memory, self.out)
        self._shared = 32 / model.lsu_lanes, model.wavefront, model.shared_latency

    def _take(self, part: int, row: Row, now: float) -> None:
        """Take the unit of an instruction."""
        unit, units = row.unit, self.units[part]
        if unit == Unit.FMA:
            half = FMA if self.model.fma_halves == 1 or units[FMA] <= units[LITE] else LITE
            units[half] = now + row.busy
        elif unit == Unit.FMA_HEAVY:
            units[FMA] = now + row.busy
        elif unit == Unit.HALF:
            units[FMA] = units[LITE] = now + row.busy
        elif unit:
            units[unit] = max(units[unit], now) + row.busy

    def _effect(self, w: int, part: int, row: Row, payload: Any, now: float) -> float:
        """Reserve what an instruction needs; when its result is there."""
        kind, model = row.kind, self.model
        if kind <= _STORE or kind == _SHUFFLE:
            waves = payload if isinstance(payload, int) else 1
            if not self.memory.conflicts:
                waves = min(waves, max(1, (row.result_bytes or row.operand_bytes - 4) // 4))
            return self.path.shared_access(part, row, waves, now)
        if kind in (GLOBAL_LOAD, GLOBAL_STORE, ATOMIC):
            if payload.__class__ is int:
                return self.path.generic_access(part, row, payload, now)
            done = self.path.global_access(part, row, payload, now)
            if kind != GLOBAL_LOAD:
                self.stored[w] = done
            return done
        if kind == COPY:
            self.copying[w] = max(self.copying[w], self.path.copy(part, row, payload, now))
            return self.copying[w]
        if kind == _COMMIT:
            self.copies[w].append(self.copying[w])
            return now + 4
        if kind == GMMA:
            units = self.units[part]
            end = units[TENSOR]
            self.multiplying[w] = max(self.multiplying[w], end + model.gmma_latency)
            if model.gmma_fma_halves == 1 and units[LITE] < end:
                units[LITE] = end
            if row.number:
                self._woken = self._committed(w)
            return self.multiplying[w]
        if kind == SYNCS:
            return self._syncs(w, payload, now)
        if kind == _TMA:
            if payload and payload[0] == "store":
                self.copying[w] = max(self.copying[w], self.path.tma_store(part, payload[1], now))
            else:
                self.path.tma(part, payload, now)
            return now + 20
        if kind == FENCE:
            return max(now + model.fence, self.stored[w]) if row.number else now + 20
        return now + row.latency

    def _access_shared(self, w: int, part: int, op: SharedOp, payload: Any, busy: float, now: float) -> None:
        """All that a load or store of shared memory does, which in some kernels is every other instruction."""
        write, read, operand_cycles, result_cycles, most = op
        path, units, sm = self.path, self.units[part], part // PARTS
        least, wavefront, latency = self._shared
        free = units[MIO]
        units[MIO] = (free if free > now else now) + busy
        waves: float = payload if payload.__class__ is int else 1
        if most and waves > most:
            waves = most
        # As ``MemoryPath.shared_access``, up to the sub-core's port.
        waves = (waves if waves > least else least) * wavefront
        free, data = path.operand_free[part], path.lsu_free[sm]
        start = (free if free > now else now) + operand_cycles
        path.operand_free[part] = start
        if waves and data > start:
            start = data
        path.lsu_free[sm] = (data if data > now else now) + waves
        self.out.data_cycles += waves
        path.queue[part].append(start)
        done = start + waves + latency
        if result_cycles:
            free = path.port_free[part]
            path.port_free[part] = (free if free > now else now) + result_cycles
            done = (done if done > free else free) + result_cycles
        boards = self.boards[w]
        if write >= 0 and (done > boards[write] or boards[write] >= NEVER):
            boards[write] = done
            self.board_reason[w][write] = SHORT
        if read >= 0:
            boards[read] = max(boards[read], path.operand_free[part] + 2, now + 4)
            self.board_reason[w][read] = SHORT
