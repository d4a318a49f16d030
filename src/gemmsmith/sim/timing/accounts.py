"""For what a warp has waited: the cycles between two of its instructions, by stall reason."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from gemmsmith.sim.timing.effects import COPY, GLOBAL_LOAD, GLOBAL_STORE, Effects
from gemmsmith.sim.timing.memory_path import Memory
from gemmsmith.sim.timing.ops import QUEUE, Op
from gemmsmith.sim.timing.outcome import DISPATCH, LG, MATH, MIO_THROTTLE, NOT_SELECTED, WAIT
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.streams import Stream
from gemmsmith.sim.timing.table import Row


class Accounts(Effects):
    """When each warp and each sub-core issued."""

    accounts = True  # whether stalls are wanted, not only cycles and traffic

    def __init__(self, rows: Sequence[Row | None], streams: Sequence[Stream], model: SmParameters, memory: Memory,
                 sm_of: dict[int, int]) -> None:  # fmt: skip
        super().__init__(rows, streams, model, memory, sm_of)
        self.last = [0.0] * len(streams)
        self.issues: list[list[float]] = [[] for _ in range(self.parts)]  # when each sub-core issued
        self.held = [[0.0] for _ in range(self.parts)]  # cycles that banks stopped issue, up to each of these

    def _account(self, w: int, part: int, op: Op, now: float, next_issue: float) -> None:
        """A warp issues ``op``, and its sub-core may issue again at ``next_issue``."""
        idle = now - self.last[w] - 1
        if idle > 0:
            if self.ready[w] == now == self.fixed[w]:
                op[8][WAIT] += idle
            else:
                self._account_stalls(w, part, op, now)
        self.issues[part].append(now)
        held = self.held[part]
        held.append(held[-1] + next_issue - now - 1)

    def _account_stalls(self, w: int, part: int, op: Op, now: float) -> None:
        """Say for what a warp has waited since its last instruction: under the name of the one that issues now."""
        stalls, since, fixed, ready = op[8], self.last[w] + 1, self.fixed[w], self.ready[w]
        if fixed > since:
            fixed = fixed if fixed < now else now
            stalls[WAIT] += fixed - since
        else:
            fixed = since
        if ready > fixed:
            ready = ready if ready < now else now
            stalls[self.reason[w]] += ready - fixed
        else:
            ready = fixed
        if now > ready:
            issues, held = self.issues[part], self.held[part]
            count = len(issues)
            near = count - int(now - ready) - 2  # a sub-core issues at most once a cycle
            first = bisect_left(issues, ready, near if near > 0 else 0)
            others = count - first  # that issued while this warp was ready
            banks = held[-1] - held[first]
            if first:  # the instruction before stopped issue for a while as well
                before = issues[first - 1] + 1 + held[first] - held[first - 1] - ready
                banks += before if before > 0 else 0.0
            left = now - ready - others
            banks = banks if banks < left else left
            stalls[NOT_SELECTED] += others
            stalls[DISPATCH] += banks
            throttle = MATH
            if op[0] == QUEUE:
                throttle = LG if self.code[w][self.at[w]].kind in (GLOBAL_LOAD, GLOBAL_STORE, COPY) else MIO_THROTTLE
            stalls[throttle] += left - banks
