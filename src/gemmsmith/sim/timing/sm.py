"""The cycle model: the warps of the blocks that are resident on an SM, issued in order by four schedulers.

When an instruction issues, everything about it is known but what other warps still have to do (barriers, mbarriers). So
units are calendars, not queues that are stepped: each has the time from which it is free, and an instruction that
issues takes it from there. Time passes from one issue to the next; cycles in which nobody can issue are skipped.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gemmsmith.errors import SimulationError
from gemmsmith.sim.timing.memory_path import Memory, MemoryPath
from gemmsmith.sim.timing.outcome import (
    BUSY,
    DISPATCH,
    LG,
    LONG,
    MATH,
    MEMBAR,
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
from gemmsmith.sim.timing.waits import Waits

_UNIT_NAMES: dict[int, str] = {
    Unit.FMA: "FMA pipe", Unit.FMA_HEAVY: "FMA pipe", Unit.HALF: "FMA pipe", Unit.ALU: "ALU pipe",
    Unit.TENSOR: "tensor cores", Unit.XU: "special functions",
}  # fmt: skip
_FMA, _MIO, _TENSOR, _LITE = int(Unit.FMA), int(Unit.MIO), int(Unit.TENSOR), len(Unit)
# Kinds as plain numbers: comparing with a member of an enum costs several times as much, for every instruction.
_LOAD, _STORE, _GLOBAL_LOAD, _GLOBAL_STORE = 1, 2, 3, 4
_COPY, _COMMIT, _BARRIER, _SYNCS, _TMA, _GMMA = 5, 6, 8, 9, 10, 11
_CLUSTER_ARRIVE, _CLUSTER_WAIT, _SHUFFLE, _ATOMIC, _BARRIER_ARRIVE, _FENCE = 15, 16, 17, 18, 19, 20

# How the unit of an instruction says whether it can take one.
_ALWAYS, _ONE, _EITHER, _QUEUE, _GROUP = range(5)
Op = tuple[int, int, float, int, int, int, tuple[int, ...], bool, list[float], int, int]
"""(how, unit, busy, even, odd, stall, wait, plain, stalls so far): a row as the loop takes it apart.

``plain``: it does nothing but take its unit, and the stall count says when the next may issue."""


class Sm(Waits):
    """One SM, or the SMs of a cluster, until all warps have ended."""

    watched = False  # every instruction goes through ``_issue``, where a log can be kept

    def __init__(
        self, rows: Sequence[Row | None], streams: Sequence[Stream], model: SmParameters, memory: Memory,
        sm_of: dict[int, int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(rows, streams, model, sm_of or dict.fromkeys([s.block for s in streams], 0))
        self.memory = memory
        self.parts = PARTS * self.sms
        self.members: list[list[int]] = [[w for w, p in enumerate(self.part_of) if p == s] for s in range(self.parts)]
        self.last = [0.0] * len(streams)
        self.stored = [0.0] * len(streams)  # when a warp's stores have come to L2
        self.tallies, self.ops = self._ops()
        # units, one calendar for each sub-core; the last is the other half of the FMA pipe
        self.units = [[0.0] * (_LITE + 1) for _ in range(self.parts)]
        self.banks = [[0.0, 0.0] for _ in range(self.parts)]
        self.issue_free = [0.0] * self.parts
        self.issues: list[list[float]] = [[] for _ in range(self.parts)]  # when each sub-core issued
        self.held = [[0.0] for _ in range(self.parts)]  # cycles that banks stopped issue, up to each of these
        self.out = Outcome()
        self.path = MemoryPath(self.sms, model, memory, self.out)

    def _ops(self) -> tuple[dict[int, list[float]], list[list[Op]]]:
        """The stalls of each position, to be filled, and the instructions of each warp."""
        issues: Counter[int] = Counter()
        for code in self.code:
            issues.update([row.position for row in code])
        tallies = {p: [0.0] * len(REASONS) for p in issues}
        for p, times in issues.items():
            tallies[p][SELECTED] = float(times)
        known = {p: self._op(row, tallies[p]) for p in issues if (row := self.rows[p]) is not None}
        ops = [[known[row.position] for row in code] for code in self.code]
        for mine in ops:
            if mine:
                mine[-1] = (*mine[-1][:7], False, *mine[-1][8:])  # the last one ends the warp
        return tallies, ops

    def _op(self, row: Row, tally: list[float]) -> Op:
        unit, how = int(row.unit), _ONE
        if unit == Unit.NONE:
            how = _ALWAYS
        elif unit == Unit.FMA:
            how = _ONE if self.model.fma_halves == 1 else _EITHER
        elif unit == Unit.FMA_HEAVY or unit == Unit.HALF:
            unit = _FMA
        elif unit == Unit.MIO:
            how = _QUEUE
        elif row.kind == Kind.GMMA:
            how = _GROUP
        plain = not row.kind and row.write < 0 and not row.jumps and row.unit != Unit.HALF and not self.watched
        return how, unit, row.busy, row.even, row.odd, row.stall, row.wait, plain, tally, row.even_alone, row.odd_alone

    # -- the loop ---------------------------------------------------------------------------------

    def run(self) -> Outcome:
        following = [0.0] * self.parts
        greedy = [-1] * self.parts
        live = sum(1 for s in self.streams if s.positions)
        events, ready, at, ops = self.path.events, self.ready, self.at, self.ops
        fixed, last, reason, slack = self.fixed, self.last, self.reason, self.model.bank_slack
        all_units, all_banks, issue_free = self.units, self.banks, self.issue_free
        issues, held = self.issues, self.held
        while live:
            now = min(following)
            if events and events[0][0] <= now:
                now, _, place, nbytes = heapq.heappop(events)
                if place < 0:
                    self.path.take_data_stage(-1 - place, now, nbytes)
                    continue
                for w in self._landed(place, nbytes, now):
                    part = self.part_of[w]
                    following[part] = min(following[part], max(now, ready[w]))
                continue
            if now >= NEVER:
                raise SimulationError(f"the time model found no warp that can go on: {self._stuck()}")
            part = following.index(now)
            units = all_units[part]
            w = greedy[part]
            # The warp that issued last goes on if it can: most instructions issue here.
            if w >= 0 and ready[w] <= now:
                op = ops[w][at[w]]
                how = op[0]
                if how == _ONE:
                    free = units[op[1]] <= now
                elif how == _EITHER:
                    free = units[_FMA] <= now or units[_LITE] <= now
                else:
                    free = how == _ALWAYS or self._free(part, op, now) <= now
                if not free:
                    w = -1
            else:
                w = -1
            if w < 0:
                w, later = self._choose(part, now)
                if w < 0:
                    following[part] = later
                    continue
                op = ops[w][at[w]]
            how, unit, busy, even, odd, stall, _, plain, tally, even_alone, odd_alone = op
            if w != greedy[part]:  # another warp's operands are in the reuse cache
                greedy[part], even, odd = w, even_alone, odd_alone
            if now > last[w] + 1:
                since = last[w] + 1
                if ready[w] == now == fixed[w]:
                    tally[WAIT] += now - since
                else:
                    self._account(w, part, op, now)
            if even or odd:
                banks = all_banks[part]
                free_even = banks[0] = (banks[0] if banks[0] > now else now) + even
                free_odd = banks[1] = (banks[1] if banks[1] > now else now) + odd
                next_issue = (free_even if free_even > free_odd else free_odd) - slack
                if next_issue < now + 1:
                    next_issue = now + 1
            else:
                next_issue = now + 1
            issue_free[part] = following[part] = next_issue
            issues[part].append(now)
            held[part].append(held[part][-1] + next_issue - now - 1)
            if plain:
                if how == _ONE:
                    units[unit] = now + busy
                elif how:
                    units[_FMA if units[_FMA] <= units[_LITE] else _LITE] = now + busy
                place = at[w] = at[w] + 1
                last[w] = now
                fixed[w] = until = now + stall
                if ops[w][place][6]:
                    self._prepare(w, until)
                else:
                    ready[w], reason[w] = until, WAIT
                continue
            touched, ended = self._issue(w, part, now)
            if ended:
                live -= 1
                greedy[part] = -1
                self.members[part].remove(w)
            for other in touched:
                following[other] = min(following[other], max(now + 1, issue_free[other]))
        return self._finished()

    def _finished(self) -> Outcome:
        out = self.out
        out.cycles = max(out.cycles, *self.path.store_free)
        out.stalls = self.tallies
        out.issued = int(sum(t[SELECTED] for t in self.tallies.values()))
        self._busy()
        return out

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
        found["L2 to SM"] = out.l2_cycles / cycles / sms
        out.busy = found

    def _choose(self, part: int, now: float) -> tuple[int, float]:
        """The oldest warp that can issue, or −1 and when to look again."""
        ready, at, ops, units = self.ready, self.at, self.ops, self.units[part]
        later, queue = NEVER, -1.0
        for w in self.members[part]:
            when = ready[w]
            if when <= now:
                op = ops[w][at[w]]
                how = op[0]
                if how == _ONE:
                    when = units[op[1]]
                elif how == _QUEUE:  # the same for all warps
                    if queue < 0:
                        queue = self._free(part, op, now)
                    when = queue
                elif how == _ALWAYS:
                    return w, now
                else:
                    when = self._free(part, op, now)
                if when <= now:
                    return w, now
            if when < later:
                later = when
        return -1, later

    def _free(self, part: int, op: Op, now: float) -> float:
        """When the unit of an instruction can take it."""
        how, units = op[0], self.units[part]
        if how == _QUEUE:
            queue, depth = self.path.queue[part], self.model.mio_depth
            while queue and queue[0] <= now:
                queue.popleft()
            return queue[len(queue) - depth] if len(queue) >= depth else units[_MIO]
        if how == _ONE:
            return units[op[1]]
        if how == _EITHER:
            return min(units[_FMA], units[_LITE])
        return units[_TENSOR] - op[2] if how == _GROUP else now

    # -- one instruction --------------------------------------------------------------------------

    def _issue(self, w: int, part: int, now: float) -> tuple[Sequence[int], bool]:
        """Issue an instruction that is not plain: the sub-cores of warps that it wakes, and whether the warp ended."""
        at, code = self.at[w], self.code[w]
        row = code[at]
        unit, kind = row.unit, row.kind
        self._take(part, row, now)
        self.at[w] = at + 1
        self.last[w] = now
        touched: Sequence[int] = ()
        boards = self.boards[w]
        if kind:
            done = self._effect(w, part, row, self.streams[w].payloads[at], now)
            if row.write >= 0 and (done > boards[row.write] or boards[row.write] >= NEVER):
                boards[row.write] = done
                far = kind in (_GLOBAL_LOAD, _ATOMIC, _SYNCS)
                self.board_reason[w][row.write] = LONG if far else SHORT
            if row.read >= 0:
                boards[row.read] = max(boards[row.read], self.path.operand_free[part] + 2, now + 4)
                self.board_reason[w][row.read] = SHORT
            if unit != _MIO:
                if kind in (_BARRIER, _BARRIER_ARRIVE):
                    touched = self._arrive(w, row, self.streams[w].payloads[at], now)
                elif kind in (_CLUSTER_ARRIVE, _CLUSTER_WAIT):
                    touched = self._cluster(w, kind, now)
                elif kind in (_SYNCS, _GMMA):
                    touched = self._woken
                    self._woken = []
        elif row.write >= 0:
            boards[row.write] = max(boards[row.write], now + row.latency + 4)
        if at + 1 >= len(code):
            self.out.cycles = max(self.out.cycles, now + 1)
            block = self.streams[w].block
            self.out.ends[block] = max(self.out.ends.get(block, 0.0), now + 1)
            return [*touched, *self._leave(w, now)], True
        stall: float = row.stall
        if row.jumps and code[at + 1].position != row.following:
            stall = max(stall, self.model.branch)
        self.fixed[w] = now + stall
        if not self.blocked[w]:
            self._prepare(w, now + stall, kind, row)
            if kind == _FENCE and done > self.ready[w]:
                self.ready[w], self.reason[w] = done, MEMBAR
        return touched, False

    def _take(self, part: int, row: Row, now: float) -> None:
        """Take the unit of an instruction."""
        unit, units = row.unit, self.units[part]
        if unit == Unit.FMA:
            half = _FMA if self.model.fma_halves == 1 or units[_FMA] <= units[_LITE] else _LITE
            units[half] = now + row.busy
        elif unit == Unit.FMA_HEAVY:
            units[_FMA] = now + row.busy
        elif unit == Unit.HALF:
            units[_FMA] = units[_LITE] = now + row.busy
        elif unit:
            units[unit] = max(units[unit], now) + row.busy

    def _account(self, w: int, part: int, op: Op, now: float) -> None:
        """Say for what a warp has waited since its last instruction: under the name of the one that issues now."""
        stalls, since = op[8], self.last[w] + 1
        fixed = min(max(self.fixed[w], since), now)
        stalls[WAIT] += fixed - since
        ready = min(max(self.ready[w], fixed), now)
        stalls[self.reason[w]] += ready - fixed
        if now > ready:
            issues, held = self.issues[part], self.held[part]
            first = bisect_left(issues, ready)
            others = len(issues) - first  # that issued while this warp was ready
            banks = held[-1] - held[first]
            if first:  # the instruction before stopped issue for a while as well
                banks += max(0.0, issues[first - 1] + 1 + held[first] - held[first - 1] - ready)
            banks = min(banks, now - ready - others)
            stalls[NOT_SELECTED] += others
            stalls[DISPATCH] += banks
            kind = self.code[w][self.at[w]].kind
            if kind in (_GLOBAL_LOAD, _GLOBAL_STORE, _COPY):
                throttle = LG
            else:
                throttle = MIO if op[0] == _QUEUE else MATH
            stalls[throttle] += now - ready - others - banks

    # -- what instructions do ---------------------------------------------------------------------

    def _effect(self, w: int, part: int, row: Row, payload: Any, now: float) -> float:
        """Reserve what an instruction needs; when its result is there."""
        kind, model = row.kind, self.model
        if kind in (_LOAD, _STORE, _SHUFFLE):
            waves = payload if isinstance(payload, int) else 1
            if not self.memory.conflicts:
                waves = min(waves, max(1, (row.result_bytes or row.operand_bytes - 4) // 4))
            return self.path.shared_access(part, row, waves, now)
        if kind in (_GLOBAL_LOAD, _GLOBAL_STORE, _ATOMIC):
            done = self.path.global_access(part, row, payload, now)
            if kind != _GLOBAL_LOAD:
                self.stored[w] = done
            return done
        if kind == _COPY:
            self.copying[w] = max(self.copying[w], self.path.copy(part, row, payload, now))
            return self.copying[w]
        if kind == _COMMIT:
            self.copies[w].append(self.copying[w])
            return now + 4
        if kind == _GMMA:
            start = self.units[part][_TENSOR]
            self.multiplying[w] = max(self.multiplying[w], start + model.gmma_latency)
            if row.number:
                self._woken = self._committed(w)
            return self.multiplying[w]
        if kind == _SYNCS:
            return self._syncs(w, payload, now)
        if kind == _TMA:
            if payload and payload[0] == "store":
                self.copying[w] = max(self.copying[w], self.path.tma_store(part, payload[1], now))
            else:
                self.path.tma(part, payload, now)
            return now + 20
        if kind == _FENCE:
            return max(now + model.fence, self.stored[w]) if row.number else now + 20
        return now + row.latency

    def _stuck(self) -> str:
        waiting = [(w, code[self.at[w]].name) for w, code in enumerate(self.code) if self.at[w] < len(code)]
        return str(waiting[:8])
