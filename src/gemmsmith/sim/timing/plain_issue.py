"""Plain instructions: those that take one unit and the register banks for some cycles, and touch nothing else."""

from __future__ import annotations

from gemmsmith.sim.timing.accounts import Accounts
from gemmsmith.sim.timing.effects import FMA, LITE
from gemmsmith.sim.timing.ops import ONE, Op
from gemmsmith.sim.timing.outcome import DISPATCH, WAIT


class PlainIssue(Accounts):
    """Issues plain instructions of a warp, as many in a row as it can."""

    ops: list[list[Op]]
    nexts: list[Op]  # the next instruction of each warp
    banks: list[list[float]]  # of each sub-core: when its even and odd registers are free
    issue_free: list[float]
    following: list[float]  # when to look at each sub-core again

    def _after_operands(self, part: int, even: float, odd: float, now: float, hold: float) -> float:
        """When the sub-core may issue again after an instruction whose operands take the register banks so long."""
        banks = self.banks[part]
        free_even = banks[0] = (banks[0] if banks[0] > now else now) + even
        free_odd = banks[1] = (banks[1] if banks[1] > now else now) + odd
        after = (free_even if free_even > free_odd else free_odd) - self.model.bank_slack
        if after < now + 1:
            after = now + 1
        return after if after > now + hold else now + hold

    def _issue_plain(self, w: int, part: int, op: Op, now: float, next_issue: float) -> None:
        """Issue an instruction that takes one unit for some cycles, and what follows it at once."""
        how, unit, busy, units = op[0], op[1], op[2], self.units[part]
        if how == ONE:
            units[unit] = now + busy
        elif how:
            units[FMA if units[FMA] <= units[LITE] else LITE] = now + busy
        place = self.at[w] = self.at[w] + 1
        self.last[w] = now
        self.fixed[w] = until = now + op[5]
        op = self.nexts[w] = self.ops[w][place]
        if op[6]:
            self._wait_for(w, until, op[6])
        else:
            self.ready[w], self.reason[w] = until, WAIT
            if until <= next_issue and op[7]:
                after = self._run_ahead(w, part, now, next_issue, until)
                self.issue_free[part] = self.following[part] = after

    def _run_ahead(self, w: int, part: int, now: float, after: float, until: float) -> float:
        """Issue the next plain instructions of the warp that issued last, as long as it can; when the next may issue.

        No other sub-core can change any of this: units and banks are the sub-core's own, and the warp that issued last
        goes first. A warp that is woken meanwhile finds the sub-core free from ``issue_free`` on.
        """
        units, banks, slack = self.units[part], self.banks[part], self.model.bank_slack
        ops, place, issues, held = self.ops[w], self.at[w], self.issues[part], self.held[part]
        accounts = self.accounts
        free_even, free_odd = banks
        stopped = held[-1]
        while True:
            how, unit, busy, even, odd, stall, wait, plain, tally, _, _, _, hold = ops[place]
            if wait or not plain or until > after:
                break
            if how == ONE:
                if units[unit] > after:
                    break
                units[unit] = after + busy
            elif how:
                unit = FMA if units[FMA] <= units[LITE] else LITE
                if units[unit] > after:
                    break
                units[unit] = after + busy
            if accounts and after > now + 1:
                tally[WAIT] += until - now - 1
                tally[DISPATCH] += after - until
            now = after
            after = now + 1
            if even or odd:
                free_even = (free_even if free_even > now else now) + even
                free_odd = (free_odd if free_odd > now else now) + odd
                held_until = (free_even if free_even > free_odd else free_odd) - slack
                if held_until < now + hold:
                    held_until = now + hold
                if held_until > after:
                    stopped += held_until - after
                    after = held_until
            if accounts:
                issues.append(now)
                held.append(stopped)
            place += 1
            until = now + stall
        banks[0], banks[1] = free_even, free_odd
        self.at[w], self.last[w], self.fixed[w], self.ready[w], self.nexts[w] = place, now, until, until, ops[place]
        if wait:
            self._wait_for(w, until, wait)
        return after
