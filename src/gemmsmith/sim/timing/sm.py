"""The cycle model: the warps of the blocks that are resident on an SM, issued in order by four schedulers.

When an instruction issues, everything about it is known but what other warps still have to do (barriers, mbarriers). So
units are calendars, not queues that are stepped: each has the time from which it is free, and an instruction that
issues takes it from there. Time passes from one issue to the next; cycles in which nobody can issue are skipped.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from gemmsmith.errors import SimulationError
from gemmsmith.sim.timing.effects import (
    ATOMIC,
    BARRIER,
    BARRIER_ARRIVE,
    CLUSTER_ARRIVE,
    CLUSTER_WAIT,
    FENCE,
    FMA,
    GLOBAL_LOAD,
    GLOBAL_STORE,
    GMMA,
    LITE,
    MIO,
    SYNCS,
    TENSOR,
    SharedOp,
)
from gemmsmith.sim.timing.memory_path import AllSent, Memory
from gemmsmith.sim.timing.ops import ALWAYS, BOTH, EITHER, GROUP, NOTHING, ONE, QUEUE, Op, op_of
from gemmsmith.sim.timing.outcome import (
    LONG,
    MEMBAR,
    NEVER,
    REASONS,
    SELECTED,
    SHORT,
    WAIT,
    Outcome,
    busy_of,
)  # fmt: skip
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.plain_issue import PlainIssue
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Row

_FAR = (GLOBAL_LOAD, ATOMIC, SYNCS)  # kinds that warps wait long for


class Sm(PlainIssue):
    """One SM, or the SMs of a cluster, until all warps have ended."""

    watched = False  # every instruction goes through ``_issue``, where a log can be kept

    def __init__(
        self, rows: Sequence[Row | None], streams: Sequence[Stream], model: SmParameters, memory: Memory,
        sm_of: dict[int, int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(rows, streams, model, memory, sm_of or dict.fromkeys([s.block for s in streams], 0))
        self.members: list[list[int]] = [[w for w, p in enumerate(self.part_of) if p == s] for s in range(self.parts)]
        self.tallies, self.ops = self._ops()
        self.banks = [[0.0, 0.0] for _ in range(self.parts)]
        self.issue_free = [0.0] * self.parts
        self.following = [0.0] * self.parts  # when to look at each sub-core again
        self.greedy = [-1] * self.parts  # the warp that issued last
        self.nexts: list[Op] = []  # the next instruction of each warp
        self.live = sum(1 for s in streams if s.positions)

    def _ops(self) -> tuple[dict[int, list[float]], list[list[Op]]]:
        """The stalls of each position, to be filled, and the instructions of each warp."""
        issues: Counter[int] = Counter()
        distinct = {id(code): code for code in self.code}
        for warps, code in zip(Counter(map(id, self.code)).values(), distinct.values(), strict=True):
            for position, times in Counter([row.position for row in code]).items():
                issues[position] += warps * times
        tallies = {p: [0.0] * len(REASONS) for p in issues}
        for p, times in issues.items():
            tallies[p][SELECTED] = float(times)
        known = {p: op_of(row, tallies[p], self.model, self.memory, self.watched)
                 for p in issues if (row := self.rows[p]) is not None}  # fmt: skip
        made = {number: [known[row.position] for row in code] for number, code in distinct.items()}
        ops = [made[id(code)].copy() for code in self.code]
        for mine in ops:
            if mine:
                mine[-1] = (*mine[-1][:7], False, *mine[-1][8:11], None, 0.0)  # the last one ends the warp
        return tallies, ops

    # -- the loop ---------------------------------------------------------------------------------

    def run(self) -> Outcome:
        self.advance()
        return self._finished()

    def left_at(self) -> float:
        """When what these blocks leave for others is in L2; what they do after their last store to it is not run."""
        first, last = self.memory.near
        self.path.unsent = sum(
            row.kind in (ATOMIC, GLOBAL_STORE) and payload.__class__ is tuple and first <= payload[0][0] <= last
            for code, stream in zip(self.code, self.streams, strict=True)
            for row, payload in zip(code, stream.payloads, strict=False)
            if payload
        )
        with suppress(AllSent):
            self.advance()
        return self.out.left_at

    def advance(self, stops: Sequence[int] = ()) -> None:
        """Run until all warps have ended, or until one would issue its instruction number ``stops[warp]``."""
        nexts = self.nexts = self._next_instructions(stops)
        following, greedy, choose = self.following, self.greedy, self._choose
        events, ready, at, accounts = self.path.events, self.ready, self.at, self.accounts
        all_units, issue_free = self.units, self.issue_free
        queues, depth = self.path.queue, self.model.mio_depth
        while self.live:
            now = min(following)
            if events and events[0][0] <= now:
                self._take_event()
                continue
            if now >= NEVER:
                raise SimulationError(f"the time model found no warp that can go on: {self._stuck()}")
            part = following.index(now)
            w = greedy[part]
            # The warp that issued last goes on if it can: most instructions issue here.
            if w >= 0 and ready[w] <= now:
                op = nexts[w]
                how, units = op[0], all_units[part]
                if how == ONE:
                    free = units[op[1]] <= now
                elif how == EITHER:
                    free = units[FMA] <= now or units[LITE] <= now
                elif how == QUEUE:  # as ``_free``, which in some kernels is asked for every other instruction
                    queue = queues[part]
                    while queue and queue[0] <= now:
                        queue.popleft()
                    count = len(queue)
                    free = (queue[count - depth] if count >= depth else units[MIO]) <= now
                else:
                    free = how == ALWAYS or self._free(part, op, now) <= now
                if not free:
                    w = -1
            else:
                w = -1
            if w < 0:
                w, later = choose(part, now)
                if w < 0:
                    following[part] = later
                    continue
                op = nexts[w]
            even, odd, plain = op[3], op[4], op[7]
            if stops and not plain and at[w] == stops[w]:
                return
            if w != greedy[part]:  # another warp's operands are in the reuse cache
                greedy[part], even, odd = w, op[9], op[10]
            next_issue = self._after_operands(part, even, odd, now, op[12]) if even or odd else now + 1
            issue_free[part] = following[part] = next_issue
            if accounts:
                self._account(w, part, op, now, next_issue)
            if plain:
                self._issue_plain(w, part, op, now, next_issue)
            elif (shared := op[11]) is not None:
                self._issue_shared(w, part, shared, op, now)
            else:
                self._issue_other(w, part, now)

    def _next_instructions(self, stops: Sequence[int]) -> list[Op]:
        """The next instruction of each warp; those at ``stops`` are never plain."""
        for mine, stop in zip(self.ops, stops, strict=False):
            mine[stop] = (*mine[stop][:7], False, *mine[stop][8:])
        return [mine[min(at, len(mine) - 1)] if mine else NOTHING for mine, at in zip(self.ops, self.at, strict=True)]

    def _take_event(self) -> None:
        """Let the first event happen: bytes that leave a data stage, or land where warps wait for them."""
        now, _, place, nbytes = heapq.heappop(self.path.events)
        if place < 0:
            self.path.take_data_stage(-1 - place, now, nbytes)
            return
        for w in self._landed(place, nbytes, now):
            part = self.part_of[w]
            self.following[part] = min(self.following[part], max(now, self.ready[w], self.issue_free[part]))

    def _issue_shared(self, w: int, part: int, shared: SharedOp, op: Op, now: float) -> None:
        """Issue an access to shared memory."""
        place = self.at[w]
        self._access_shared(w, part, shared, self.streams[w].payloads[place], op[2], now)
        self.at[w], self.last[w] = place + 1, now
        self.fixed[w] = self.ready[w] = until = now + op[5]
        op = self.nexts[w] = self.ops[w][place + 1]
        if op[6]:
            self._wait_for(w, until, op[6])
        else:
            self.reason[w] = WAIT

    def _issue_other(self, w: int, part: int, now: float) -> None:
        """Issue any other instruction, which may wake warps of other sub-cores or end its own."""
        touched, ended = self._issue(w, part, now)
        if ended:
            self.live -= 1
            self.greedy[part] = -1
            self.members[part].remove(w)
        for other in touched:
            self.following[other] = min(self.following[other], max(now + 1, self.issue_free[other]))

    def _finished(self) -> Outcome:
        out = self.out
        out.cycles = max(out.cycles, *self.path.store_free)
        out.stalls, out.accounted = self.tallies, self.accounts
        out.issued = int(sum(t[SELECTED] for t in self.tallies.values()))
        out.busy = busy_of(out, self.rows, self.parts, self.model)
        return out

    def _choose(self, part: int, now: float) -> tuple[int, float]:
        """The oldest warp that can issue, or −1 and when to look again."""
        ready, nexts, units = self.ready, self.nexts, self.units[part]
        later, queue = NEVER, -1.0  # when to look again, and when the queue can take one
        for w in self.members[part]:
            when = ready[w]
            if when <= now:
                op = nexts[w]
                how = op[0]
                if how == ONE:
                    when = units[op[1]]
                elif how == QUEUE:  # the same for all warps
                    if queue < 0:
                        queue = self._free(part, op, now)
                    when = queue
                elif how == ALWAYS:
                    return w, now
                elif how == EITHER:
                    when = units[FMA] if units[FMA] < units[LITE] else units[LITE]
                else:
                    when = self._free(part, op, now)
                if when <= now:
                    return w, now
            elif when < queue and nexts[w][0] == QUEUE:  # it will be ready, and wait for the queue as well
                when = queue
            if when < later:
                later = when
        return -1, later

    def _free(self, part: int, op: Op, now: float) -> float:
        """When the unit of an instruction can take it."""
        how, units = op[0], self.units[part]
        if how == QUEUE:
            queue, depth = self.path.queue[part], self.model.mio_depth
            while queue and queue[0] <= now:
                queue.popleft()
            return queue[len(queue) - depth] if len(queue) >= depth else units[MIO]
        if how == ONE:
            return units[op[1]]
        if how == EITHER:
            return min(units[FMA], units[LITE])
        if how == BOTH:
            return max(units[FMA], units[LITE])
        return units[TENSOR] - op[2] if how == GROUP else now

    # -- one instruction --------------------------------------------------------------------------

    def _issue(self, w: int, part: int, now: float) -> tuple[Sequence[int], bool]:
        """Issue an instruction that is not plain: the sub-cores of warps that it wakes, and whether the warp ended."""
        at, code = self.at[w], self.code[w]
        row = code[at]
        unit, kind, write, read = row.unit, row.kind, row.write, row.read
        if unit == MIO:
            units = self.units[part]
            units[MIO] = (units[MIO] if units[MIO] > now else now) + row.busy
        else:
            self._take(part, row, now)
        self.at[w] = at + 1
        self.last[w] = now
        touched: Sequence[int] = ()
        boards = self.boards[w]
        if kind:
            done = self._effect(w, part, row, self.streams[w].payloads[at], now)
            if write >= 0 and (done > boards[write] or boards[write] >= NEVER):
                boards[write] = done
                self.board_reason[w][write] = LONG if kind in _FAR else SHORT
            if read >= 0:
                boards[read] = max(boards[read], self.path.operand_free[part] + 2, now + 4)
                self.board_reason[w][read] = SHORT
            if unit != MIO:
                if kind in (BARRIER, BARRIER_ARRIVE):
                    touched = self._arrive(w, row, self.streams[w].payloads[at], now)
                elif kind in (CLUSTER_ARRIVE, CLUSTER_WAIT):
                    touched = self._cluster(w, kind, now)
                elif kind in (SYNCS, GMMA):
                    touched = self._woken
                    self._woken = []
        elif write >= 0:
            boards[write] = max(boards[write], now + row.latency + 4)
        if at + 1 >= len(code):
            self.out.cycles = max(self.out.cycles, now + 1)
            block = self.streams[w].block
            self.out.ends[block] = max(self.out.ends.get(block, 0.0), now + 1)
            return [*touched, *self._leave(w, now)], True
        self.nexts[w] = self.ops[w][at + 1]
        stall: float = row.stall
        if row.jumps and code[at + 1].position != row.following:
            stall = max(stall, self.model.branch)
        self.fixed[w] = until = now + stall
        if not self.blocked[w]:
            self._prepare(w, until, kind, row)
            if kind == FENCE and done > self.ready[w]:
                self.ready[w], self.reason[w] = done, MEMBAR
        return touched, False

    def _stuck(self) -> str:
        waiting = [(w, code[self.at[w]].name) for w, code in enumerate(self.code) if self.at[w] < len(code)]
        return str(waiting[:8])
