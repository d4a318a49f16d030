"""The time of a round of blocks at the real K, from what two short K take."""

from __future__ import annotations

from gemmsmith.sim.timing.outcome import Outcome


def cycles_at(k: int, runs: list[tuple[int, Outcome]], several: bool) -> float:
    """Cycles at depth ``k``: along the line through the shorter and the longer run, each with its K.

    ``several``: blocks share the SM. The one that is served first ends before the others, which then have the SM to
    themselves; in a launch the next block starts in its place. So only the time counts in which all of them run.
    """
    (low_k, low), (high_k, high) = runs[0], runs[-1]
    if low_k == high_k:
        return high.first_end * high.issued / high.issued_by_then if several else high.cycles
    cycles, step = high.cycles, high.cycles - low.cycles
    if several:
        each = (high.first_end - low.first_end) / (high.issued_by_then - low.issued_by_then)
        cycles = high.first_end + each * (high.issued - high.issued_by_then)
        step = each * (high.issued - low.issued)
    # Short K may hide behind starts and epilogues; a deep one takes at least what its busiest unit needs.
    busiest = max(high.busy[unit] * high.cycles - low.busy[unit] * low.cycles for unit in high.busy)
    return cycles + max(step, busiest) / (high_k - low_k) * (k - high_k)
