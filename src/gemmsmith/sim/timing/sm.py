"""The cycle model: the warps of the blocks that are resident on an SM, issued in order by four schedulers.

When an instruction issues, everything about it is known but what other warps still have to do (barriers, mbarriers). So
units are calendars, not queues that are stepped: each has the time from which it is free, and an instruction that
issues takes it from there. Time passes from one issue to the next; cycles in which nobody can issue are skipped.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from gemmsmith.sim.timing.memory_path import Memory, MemoryPath
from gemmsmith.sim.timing.outcome import (
    BARRIER,
    BUSY,
    GMMA,
    LG,
    LONG,
    MATH,
    MIO,
    NEVER,
    NOT_SELECTED,
    PARTS,
    REASONS,
    SELECTED,
    SHORT,
    WAIT,
    Outcome,
)  # fmt: skip
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Kind, Row, Unit

_UNIT_NAMES: dict[int, str] = {
    Unit.FMA: "FMA pipe", Unit.FMA_HEAVY: "FMA pipe", Unit.HALF: "FMA pipe", Unit.ALU: "ALU pipe",
    Unit.TENSOR: "tensor cores", Unit.XU: "special functions",
}  # fmt: skip


class _Block:
    def __init__(self, sm: int, warps: int) -> None:
        self.sm, self.live, self.warps = sm, warps, warps
        self.arrived: dict[int, int] = {}
        self.waiting: dict[int, list[int]] = {}
        self.needed: dict[int, int] = {}
        self.unit_free = 0.0


class _Team:
    """A warpgroup: for each group of products, when those of each warp end, and who waits for the others."""

    def __init__(self) -> None:
        self.warps = 0
        self.ends: list[list[float]] = []
        self.waiting: dict[int, list[int]] = {}


class Sm:
    """One SM, or the SMs of a cluster, until all warps have ended."""

    def __init__(
        self, rows: Sequence[Row | None], streams: Sequence[Stream], model: SmParameters, memory: Memory,
        sm_of: dict[int, int] | None = None,
    ) -> None:  # fmt: skip
        self.rows, self.streams, self.model, self.memory = rows, streams, model, memory
        order = list(dict.fromkeys(s.block for s in streams))
        sm_of = sm_of or dict.fromkeys(order, 0)
        sms = max(sm_of.values()) + 1
        self.blocks = {b: _Block(sm_of[b], sum(s.block == b for s in streams)) for b in order}
        self.block_of = [self.blocks[s.block] for s in streams]
        self.part_of: list[int] = []
        counts = [0] * sms
        for stream in streams:
            sm = sm_of[stream.block]
            self.part_of.append(PARTS * sm + counts[sm] % PARTS)
            counts[sm] += 1
        self.parts = PARTS * sms
        self.members: list[list[int]] = [[w for w, p in enumerate(self.part_of) if p == s] for s in range(self.parts)]
        n = len(streams)
        # The instructions of each warp; the row after the last is never issued.
        self.code = [[row for p in s.positions if (row := rows[p]) is not None] for s in streams]
        self.at = [0] * n
        self.ready = [0.0] * n
        self.blocked = [False] * n
        self.fixed = [0.0] * n  # until when the stall count holds a warp
        self.reason = [WAIT] * n
        self.last = [0.0] * n
        self.boards = [[0.0] * 6 for _ in range(n)]
        self.board_reason = [[SHORT] * 6 for _ in range(n)]
        self.copies: list[list[float]] = [[] for _ in range(n)]  # times of committed groups
        self.copying = [0.0] * n
        self.products = [0] * n  # groups of wgmma that a warp has committed
        teams: dict[tuple[int, int], _Team] = {}
        for stream in streams:
            teams.setdefault((stream.block, stream.warp // 4), _Team()).warps += 1
        self.teams = [teams[s.block, s.warp // 4] for s in streams]
        self.multiplying = [0.0] * n
        # units, one calendar for each sub-core
        self.units = [[0.0] * 10 for _ in range(self.parts)]
        self.lite = [0.0] * self.parts
        self.banks = [[0.0, 0.0] for _ in range(self.parts)]
        self.issue_free = [0.0] * self.parts
        self.mbarriers: dict[int, list[Any]] = {}
        self.cluster_arrived = self.cluster_phase = 0
        self.cluster_of: dict[int, int] = {}
        self.cluster_waiting: list[int] = []
        self.cluster_live = n
        self.tallies: dict[int, list[float]] = {}
        self._woken: list[int] = []
        self.out = Outcome()
        self.path = MemoryPath(sms, model, memory, self.out)

    # -- the loop ---------------------------------------------------------------------------------

    def run(self) -> Outcome:
        following = [0.0] * self.parts
        greedy = [-1] * self.parts
        live = sum(1 for s in self.streams if s.positions)
        parts, events = range(self.parts), self.path.events
        while live:
            now = min(following)
            if events and events[0][0] <= now:
                now, _, place, nbytes = heapq.heappop(events)
                if place < 0:
                    self.path.take_data_stage(-1 - place, now, nbytes)
                    continue
                for w in self._landed(place, nbytes, now):
                    part = self.part_of[w]
                    following[part] = min(following[part], max(now, self.ready[w]))
                continue
            if now >= NEVER:
                raise RuntimeError("the time model found no warp that can go on: " + self._stuck())
            for part in parts:
                if following[part] > now:
                    continue
                chosen, later = self._choose(part, now, greedy[part])
                if chosen < 0:
                    following[part] = later
                    continue
                touched, ended = self._issue(chosen, part, now)
                greedy[part] = chosen
                live -= ended
                if ended:
                    greedy[part] = -1
                    self.members[part].remove(chosen)
                following[part] = max(now + 1, self.issue_free[part])
                for other in touched:
                    following[other] = min(following[other], max(now + 1, self.issue_free[other]))
        self.out.cycles = max(self.out.cycles, *self.path.store_free)
        self.out.stalls = self.tallies
        self.out.issued = int(sum(t[SELECTED] for t in self.tallies.values()))
        self._busy()
        return self.out

    def _busy(self) -> None:
        """The share of the time that each unit of the SMs works."""
        out, parts, model = self.out, self.parts, self.model
        cycles = out.cycles or 1.0
        found = dict.fromkeys(BUSY, 0.0)
        found["issue"] = out.issued / cycles / parts
        for position, tally in out.stalls.items():
            row = self.rows[position]
            assert row is not None
            name = _UNIT_NAMES.get(row.unit)
            if name:
                share = model.fma_halves if row.unit in (Unit.FMA, Unit.FMA_HEAVY) else 1
                found[name] += tally[SELECTED] * row.busy / share / cycles / parts
        sms = parts // PARTS
        found["shared memory and L1"] = out.data_cycles / cycles / sms
        found["L1 tags"] = out.tag_cycles / cycles / sms
        found["L2 to SM"] = out.l2_bytes / model.l2_bytes_cycle / cycles / sms
        out.busy = found

    def _choose(self, part: int, now: float, greedy: int) -> tuple[int, float]:
        """The warp that issues, or −1 and when to look again: the one that issued last, else the oldest that can."""
        ready, at, code, free_at = self.ready, self.at, self.code, self._free
        later = NEVER
        if greedy >= 0 and ready[greedy] <= now:
            free = free_at(part, code[greedy][at[greedy]], now)
            if free <= now:
                return greedy, now
            later = free
        for w in self.members[part]:
            when = ready[w]
            if when <= now:
                if w == greedy:
                    continue
                when = free_at(part, code[w][at[w]], now)
                if when <= now:
                    return w, now
            if when < later:
                later = when
        return -1, later

    def _free(self, part: int, row: Row, now: float) -> float:
        """When the unit of an instruction can take it."""
        unit = row.unit
        if unit == Unit.NONE:
            return now
        units = self.units[part]
        if unit == Unit.FMA:
            if self.model.fma_halves == 1:
                return units[Unit.FMA]
            heavy, lite = units[Unit.FMA], self.lite[part]
            return heavy if heavy < lite else lite
        if unit == Unit.FMA_HEAVY or unit == Unit.HALF:
            return units[Unit.FMA]
        if unit == Unit.MIO:
            queue = self.path.queue[part]
            while queue and queue[0] <= now:
                queue.popleft()
            if len(queue) >= self.model.mio_depth:
                return queue[len(queue) - self.model.mio_depth]
            return units[Unit.MIO]
        if unit == Unit.TENSOR and row.kind == Kind.GMMA:
            return units[Unit.TENSOR] - row.busy
        return units[unit]

    # -- one instruction --------------------------------------------------------------------------

    def _issue(self, w: int, part: int, now: float) -> tuple[Sequence[int], bool]:
        at = self.at[w]
        row = self.code[w][at]
        self._account(w, row, part, now)
        unit, units, model = row.unit, self.units[part], self.model
        if row.even or row.odd:
            banks = self.banks[part]
            even = banks[0] = max(banks[0], now) + row.even
            odd = banks[1] = max(banks[1], now) + row.odd
            self.issue_free[part] = max(now + 1, (even if even > odd else odd) - model.bank_slack)
        else:
            self.issue_free[part] = now + 1
        if unit == Unit.FMA:
            if model.fma_halves == 1 or units[Unit.FMA] <= self.lite[part]:
                units[Unit.FMA] = now + row.busy
            else:
                self.lite[part] = now + row.busy
        elif unit == Unit.FMA_HEAVY:
            units[Unit.FMA] = now + row.busy
        elif unit == Unit.HALF:
            units[Unit.FMA] = self.lite[part] = now + row.busy
        elif unit:
            units[unit] = max(units[unit], now) + row.busy
        self.at[w] = at + 1
        self.last[w] = now
        kind = row.kind
        if not kind and row.write < 0 and not row.jumps and at + 1 < len(self.code[w]):
            self.fixed[w] = ready = now + row.stall
            nxt = self.code[w][at + 1]
            if nxt.wait:
                self._prepare(w, ready)
            else:
                self.ready[w], self.reason[w] = ready, WAIT
            return (), False
        stream = self.streams[w]
        touched: Sequence[int] = ()
        ended = False
        boards = self.boards[w]
        if kind:
            done = self._effect(w, part, row, stream.payloads[at], now)
            if row.write >= 0 and (done > boards[row.write] or boards[row.write] >= NEVER):
                boards[row.write] = done
                far = kind in (Kind.GLOBAL_LOAD, Kind.ATOMIC, Kind.SYNCS)
                self.board_reason[w][row.write] = LONG if far else SHORT
            if row.read >= 0:
                boards[row.read] = max(boards[row.read], self.path.operand_free[part] + 2, now + 4)
                self.board_reason[w][row.read] = SHORT
            if kind == Kind.BARRIER or kind == Kind.BARRIER_ARRIVE:
                touched = self._arrive(w, row, now)
            elif kind in (Kind.CLUSTER_ARRIVE, Kind.CLUSTER_WAIT):
                touched = self._cluster(w, kind, now)
            elif kind == Kind.SYNCS or kind == Kind.GMMA:
                touched = self._woken
                self._woken = []
        elif row.write >= 0:
            boards[row.write] = max(boards[row.write], now + row.latency + 4)
        if self.at[w] >= len(self.code[w]):
            ended = True
        if ended:
            self.out.cycles = max(self.out.cycles, now + 1)
            self.out.ends[stream.block] = max(self.out.ends.get(stream.block, 0.0), now + 1)
            return [*touched, *self._leave(w, now)], True
        stall: float = row.stall
        if row.jumps and self.code[w][at + 1].position != row.following:
            stall = max(stall, model.branch)
        self.fixed[w] = now + stall
        if not self.blocked[w]:
            self._prepare(w, now + stall, kind, row)
        return touched, False

    def _prepare(self, w: int, earliest: float, kind: int = 0, row: Row | None = None) -> None:
        """When a warp's next instruction may issue as far as the warp itself is concerned."""
        ready, reason = earliest, WAIT
        if kind == Kind.COPY_WAIT and row is not None:
            groups = self.copies[w]
            if len(groups) > row.number:
                until = max(groups[: len(groups) - row.number])
                if until > ready:
                    ready, reason = until, LONG
        elif kind == Kind.GMMA_WAIT and row is not None:
            group = self.products[w] - row.number - 1
            if group >= 0:
                team = self.teams[w]
                if len(team.ends[group]) < team.warps:  # the other warps of the warpgroup have not come so far
                    team.waiting.setdefault(group, []).append(w)
                    self.blocked[w], self.ready[w] = True, NEVER
                    return
                until = max(team.ends[group])
                if until > ready:
                    ready, reason = until, GMMA
        nxt = self.code[w][self.at[w]]
        if nxt.wait:
            boards = self.boards[w]
            for board in nxt.wait:
                if boards[board] > ready:
                    ready, reason = boards[board], self.board_reason[w][board]
        self.ready[w], self.reason[w] = ready, reason

    def _wake(self, w: int, when: float, reason: int) -> None:
        """What a warp waited for has happened, and reaches it at ``when``."""
        self.blocked[w] = False
        self._prepare(w, self.fixed[w])
        if when > self.ready[w]:
            self.ready[w], self.reason[w] = when, reason

    def _account(self, w: int, row: Row, part: int, now: float) -> None:
        """Say for what a warp has waited since its last instruction: under the name of the one that issues now."""
        stalls = self.tallies.get(row.position)
        if stalls is None:
            stalls = self.tallies[row.position] = [0.0] * len(REASONS)
        stalls[SELECTED] += 1
        since = self.last[w] + 1
        if now <= since:
            return
        ready = self.ready[w]
        fixed = min(max(self.fixed[w], since), now)
        stalls[WAIT] += fixed - since
        ready = min(max(ready, fixed), now)
        stalls[self.reason[w]] += ready - fixed
        if now > ready:
            free = min(max(self._free(part, row, ready), ready), now)
            if free > ready:
                throttle = MIO if row.unit == Unit.MIO else MATH
                if row.kind in (Kind.GLOBAL_LOAD, Kind.GLOBAL_STORE, Kind.COPY):
                    throttle = LG
                stalls[throttle] += free - ready
            stalls[NOT_SELECTED] += now - free

    # -- what instructions do ---------------------------------------------------------------------

    def _effect(self, w: int, part: int, row: Row, payload: Any, now: float) -> float:
        """Reserve what an instruction needs; when its result is there."""
        kind, model = row.kind, self.model
        if kind == Kind.SHARED_LOAD or kind == Kind.SHARED_STORE or kind == Kind.SHUFFLE:
            waves = payload if isinstance(payload, int) else 1
            if not self.memory.conflicts:
                waves = min(waves, max(1, (row.result_bytes or row.operand_bytes - 4) // 4))
            return self.path.shared_access(part, row, waves, now)
        if kind == Kind.GLOBAL_LOAD or kind == Kind.GLOBAL_STORE or kind == Kind.ATOMIC:
            return self.path.global_access(part, row, payload, now)
        if kind == Kind.COPY:
            self.copying[w] = max(self.copying[w], self.path.copy(part, row, payload, now))
            return self.copying[w]
        if kind == Kind.COMMIT:
            self.copies[w].append(self.copying[w])
            return now + 4
        if kind == Kind.GMMA:
            start = self.units[part][Unit.TENSOR]
            self.multiplying[w] = max(self.multiplying[w], start + model.gmma_latency)
            if row.number:
                self._woken = self._committed(w)
            return self.multiplying[w]
        if kind == Kind.SYNCS:
            return self._syncs(w, payload, now)
        if kind == Kind.TMA:
            self.path.tma(part, payload, now)
            return now + 20
        if kind == Kind.FENCE:
            return now + 20
        return now + row.latency

    def _committed(self, w: int) -> list[int]:
        """A warp has issued all products of a group; if it is the last of its warpgroup, wake those that wait."""
        team, group = self.teams[w], self.products[w]
        self.products[w] += 1
        if len(team.ends) <= group:
            team.ends.append([])
        team.ends[group].append(self.multiplying[w])
        if len(team.ends[group]) < team.warps:
            return []
        touched = []
        for other in team.waiting.pop(group, ()):
            self._wake(other, max(team.ends[group]), GMMA)
            touched.append(self.part_of[other])
        return touched

    # -- barriers ---------------------------------------------------------------------------------

    def _arrive(self, w: int, row: Row, now: float) -> Sequence[int]:
        block, model = self.block_of[w], self.model
        number = row.number
        block.unit_free = max(block.unit_free, now) + model.barrier_warp
        block.arrived[number] = block.arrived.get(number, 0) + 1
        if row.kind == Kind.BARRIER:
            block.waiting.setdefault(number, []).append(w)
            self.blocked[w] = True
            self.ready[w] = NEVER
        block.needed[number] = row.threads // 32
        return self._release(block, number)

    def _release(self, block: _Block, number: int) -> Sequence[int]:
        needed = block.needed.get(number) or block.live
        if block.arrived.get(number, 0) < needed:
            return ()
        block.arrived[number] = 0
        release = block.unit_free + self.model.barrier
        touched = []
        for other in block.waiting.pop(number, ()):
            self._wake(other, release, BARRIER)
            touched.append(self.part_of[other])
        return touched

    def _leave(self, w: int, now: float) -> Sequence[int]:
        block = self.block_of[w]
        block.live -= 1
        self.cluster_live -= 1
        touched = list(self._cluster_complete(now))
        if block.live:
            for number in list(block.waiting):
                touched += self._release(block, number)
        return touched

    def _cluster(self, w: int, kind: int, now: float) -> Sequence[int]:
        """Barriers of clusters: all warps of all blocks that still run must arrive."""
        if kind == Kind.CLUSTER_ARRIVE:
            self.cluster_of[w] = self.cluster_phase
            self.cluster_arrived += 1
            return self._cluster_complete(now)
        if self.cluster_of.get(w, -1) < self.cluster_phase:
            return ()
        self.cluster_waiting.append(w)
        self.blocked[w], self.ready[w] = True, NEVER
        return ()

    def _cluster_complete(self, now: float) -> Sequence[int]:
        if not self.cluster_arrived or self.cluster_arrived < self.cluster_live:
            return ()
        self.cluster_arrived = 0
        self.cluster_phase += 1
        waiting, self.cluster_waiting = self.cluster_waiting, []
        for other in waiting:
            self._wake(other, now + self.model.cluster_barrier, BARRIER)
        return [self.part_of[other] for other in waiting]

    # -- mbarriers --------------------------------------------------------------------------------

    def _syncs(self, w: int, payload: Any, now: float) -> float:
        model = self.model
        if payload is None or payload[0] == "other":
            return now + model.mbarrier
        what = payload[0]
        if what == "init":
            self.mbarriers[payload[1]] = [payload[2], payload[2], 0, 0, []]  # pending, expected, bytes, phase, waiters
        elif what == "arrive":
            for place, count in payload[1]:
                barrier = self.mbarriers[place]
                barrier[0] -= count
            self.mbarriers[payload[1][0][0]][2] += payload[2]
            woken: list[int] = []
            for place in dict.fromkeys(p for p, _ in payload[1]):
                woken += self._complete(place, now + model.mbarrier / 2)
            self._woken = [self.part_of[other] for other in woken]
        elif what == "wait":
            barrier = self.mbarriers[payload[1]]
            if barrier[3] % 2 == payload[2]:
                barrier[4].append((w, self.code[w][self.at[w] - 1].write))
                return NEVER
        return now + model.mbarrier

    def _landed(self, place: int, nbytes: float, now: float) -> list[int]:
        self.mbarriers[place][2] -= nbytes
        return self._complete(place, now)

    def _complete(self, place: int, now: float) -> list[int]:
        """End the phase of an mbarrier if it lacks nothing; the warps that waited for it."""
        barrier = self.mbarriers[place]
        if barrier[0] > 0 or barrier[2] != 0:
            return []
        barrier[0] = barrier[1]
        barrier[3] += 1
        waiters, barrier[4] = barrier[4], []
        for w, board in waiters:
            if board >= 0:
                self.boards[w][board] = now + self.model.mbarrier
            if not self.blocked[w]:
                self._prepare(w, self.fixed[w])
        return [w for w, _ in waiters]

    def _stuck(self) -> str:
        waiting = [(w, code[self.at[w]].name) for w, code in enumerate(self.code) if self.at[w] < len(code)]
        return str(waiting[:8])
