"""What a cost costs: the cycle model run again without it, and what bounds the kernel then."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.explain.timing.predict import Changes, Predicted, Predictor

_FREE = 1e9
_WHAT_IFS: tuple[tuple[str, Changes], ...] = (
    ("shared-memory bank conflicts", Changes(conflicts=False)),
    ("uncoalesced global accesses", Changes(coalesced=True)),
    ("register-bank conflicts", Changes(sm={"register_banks": 0})),
    ("latency of L2 and DRAM", Changes(sm={"l2_latency": 0.0, "dram_latency": 0.0, "tma_latency": 0.0}, cold=False)),
    ("the limit of L2 bandwidth", Changes(sm={"l2_bytes_cycle": _FREE, "dram_sm_bytes_cycle": _FREE, "tma_bytes_cycle": _FREE})),
    ("the queue of memory instructions", Changes(sm={"mio_depth": 10_000, "mio_issue": 1.0})),
    ("latency of shared memory", Changes(sm={"shared_latency": 0.0})),
    ("the cost of barriers", Changes(sm={"barrier": 0.0, "barrier_warp": 0.0, "mbarrier": 0.0, "cluster_barrier": 0.0})),
    ("the tail", Changes(tail=False)),
)  # fmt: skip
_LEAST = 1.01  # gains below are not shown


@dataclass(frozen=True)
class WhatIf:
    """``gain``: how many times as fast the kernel would be without ``cost``, predicted; ``bound``: by what, then."""

    cost: str
    gain: float
    bound: str
    us: float

    def __str__(self) -> str:
        return f"without {self.cost} {self.gain:.2f} times as fast; then bound by {self.bound}"


def what_ifs(predictor: Predictor, now: Predicted) -> tuple[WhatIf, ...]:
    """All costs whose absence would make the kernel faster, the greatest gain first; at the same clock."""
    found = []
    for cost, changes in _WHAT_IFS:
        then = predictor.predict(changes, now.mhz)
        gain = now.us / then.us
        if gain >= _LEAST:
            found.append(WhatIf(cost, gain, then.bound, then.us))
    return tuple(sorted(found, key=lambda each: -each.gain))
