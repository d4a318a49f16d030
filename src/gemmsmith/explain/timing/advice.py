"""What to do about a kernel: findings from its counts, with gains from the cycle model run without that cost.

Counts say where something is to be done and what (``findings.py``); whether it pays is the model's to say. A finding
that no what-if stands for, idle lanes or a busy unit, is told without a gain.
"""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.explain.diagnosis import Diagnosis
from gemmsmith.explain.findings import Finding
from gemmsmith.explain.timing.timed import Timed
from gemmsmith.explain.timing.whatif import (
    BARRIERS,
    COALESCED,
    CONFLICTS,
    HALF_TRAFFIC,
    LATENCY,
    OVERHEAD,
    SPILLS,
    TAIL,
    WhatIf,
)

# The cost that the model takes away, for each kind of finding.
_COSTS = {
    "uncoalesced global loads": COALESCED, "uncoalesced global stores": COALESCED, "no reuse": HALF_TRAFFIC,
    "shared-memory traffic": HALF_TRAFFIC, "bank conflicts": CONFLICTS, "narrow loads": OVERHEAD,
    "instruction overhead": OVERHEAD, "exposed latency": LATENCY, "low occupancy": LATENCY,
    "frequent barriers": BARRIERS, "tail": TAIL, "too few blocks": TAIL, "register spills": SPILLS,
}  # fmt: skip
_OF_UNITS = {"near the fp32 peak": "FMA pipe", "busy tensor cores": "tensor cores"}
_BUSY = 0.85  # of the time: a unit that works more bounds the kernel


def with_model_gains(found: Diagnosis, time: Timed) -> Diagnosis:
    """The diagnosis with the gains of the cycle model; as it is where there is no prediction."""
    if time.predicted is None:
        return found
    what_ifs = {each.cost: each for each in time.what_ifs}
    made = [new for each in found.findings if (new := _finding(each, what_ifs, time)) is not None]
    return replace(found, findings=tuple(sorted(made, key=lambda each: -each.gain)))


def _finding(finding: Finding, what_ifs: dict[str, WhatIf], time: Timed) -> Finding | None:
    assert time.predicted is not None
    unit = _OF_UNITS.get(finding.kind)
    if unit is not None:
        busy = dict(time.predicted.busy).get(unit, 0.0)
        if busy < _BUSY:
            return None
        text = f"The {unit} {'are' if unit.endswith('s') else 'is'} busy {busy:.0%} of the time."
        return replace(finding, sentence=text, gain=1.0, numbers=(("busy", busy),))
    there = what_ifs.get(_COSTS.get(finding.kind, ""))
    if there is None:
        return replace(finding, gain=1.0)
    return replace(finding, gain=there.gain, without=there.cost, sentence=f"{finding.sentence} {_told(there)}")


def _told(there: WhatIf) -> str:
    return f"Without {there.cost}, the kernel is predicted {there.gain:.2f} times as fast, then bound by {there.bound}."
