"""What warps wait for: stall counts, scoreboards, copies, products, and each other at barriers.

State of each warp and of each barrier, and when a warp may go on. ``sm.py`` issues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gemmsmith.sim.timing.outcome import BARRIER, GMMA, LONG, NEVER, PARTS, SHORT, WAIT
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Kind, Row

# As plain numbers: comparing with a member of an enum costs several times as much, for every instruction.
_COPY_WAIT, _GMMA_WAIT = int(Kind.COPY_WAIT), int(Kind.GMMA_WAIT)


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


class Waits:
    """The warps of the blocks of one SM, or of the SMs of a cluster; ``sm_of`` gives the SM of each block."""

    def __init__(self, rows: Sequence[Row | None], streams: Sequence[Stream], model: SmParameters,
                 sm_of: dict[int, int]) -> None:  # fmt: skip
        self.rows, self.streams, self.model = rows, streams, model
        self.sms = max(sm_of.values()) + 1
        sizes: dict[int, int] = {}
        for s in streams:
            sizes[s.block] = sizes.get(s.block, 0) + 1
        blocks = {b: _Block(sm_of[b], warps) for b, warps in sizes.items()}
        self.block_of = [blocks[s.block] for s in streams]
        self.part_of: list[int] = []
        counts = [0] * self.sms
        for stream in streams:
            sm = sm_of[stream.block]
            self.part_of.append(PARTS * sm + counts[sm] % PARTS)
            counts[sm] += 1
        n = len(streams)
        distinct = dict.fromkeys(s.positions for s in streams)  # most warps execute the same
        codes = {positions: [row for p in positions if (row := rows[p]) is not None] for positions in distinct}
        self.code = [codes[s.positions] for s in streams]
        self.at = [0] * n
        self.ready = [0.0] * n
        self.blocked = [False] * n
        self.fixed = [0.0] * n  # until when the stall count holds a warp
        self.reason = [WAIT] * n
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
        self.mbarriers: dict[int, list[Any]] = {}
        self.cluster_arrived = self.cluster_phase = 0
        self.cluster_of: dict[int, int] = {}
        self.cluster_waiting: list[int] = []
        self.cluster_live = n
        self._woken: list[int] = []

    def _prepare(self, w: int, earliest: float, kind: int = 0, row: Row | None = None) -> None:
        """When a warp's next instruction may issue as far as the warp itself is concerned."""
        ready, reason = earliest, WAIT
        if kind == _COPY_WAIT and row is not None:
            groups = self.copies[w]
            if len(groups) > row.number:
                until = max(groups[: len(groups) - row.number])
                if until > ready:
                    ready, reason = until, LONG
        elif kind == _GMMA_WAIT and row is not None:
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
        self._wait_for(w, ready, self.code[w][self.at[w]].wait, reason)

    def _wait_for(self, w: int, ready: float, wait: Sequence[int], reason: int = WAIT) -> None:
        """The same once all is known but the scoreboards that the next instruction waits for."""
        boards = self.boards[w]
        for board in wait:
            if boards[board] > ready:
                ready, reason = boards[board], self.board_reason[w][board]
        self.ready[w], self.reason[w] = ready, reason

    def _wake(self, w: int, when: float, reason: int) -> None:
        """What a warp waited for has happened, and reaches it at ``when``."""
        self.blocked[w] = False
        self._prepare(w, self.fixed[w])
        if when > self.ready[w]:
            self.ready[w], self.reason[w] = when, reason

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

    def _arrive(self, w: int, row: Row, payload: Any, now: float) -> Sequence[int]:
        block, model = self.block_of[w], self.model
        number = payload[1] if payload else row.number  # a register's value, or what the instruction says
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
            if not self.blocked[w] and self.at[w] < len(self.code[w]):  # else it has ended meanwhile
                self._prepare(w, self.fixed[w])
        return [w for w, _ in waiters]
