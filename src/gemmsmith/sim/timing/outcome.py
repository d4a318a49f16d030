"""What a run of the cycle model gives: cycles, stalls by reason, traffic, and how busy units were."""

from __future__ import annotations

from dataclasses import dataclass, field

NEVER = 1e18
PARTS = 4  # sub-cores of an SM

# Stall reasons, as ncu names them.
REASONS = ("selected", "wait", "short_scoreboard", "long_scoreboard", "barrier", "math_pipe_throttle", "mio_throttle",
           "lg_throttle", "not_selected", "dispatch_stall", "gmma", "membar", "sleeping")  # fmt: skip
(SELECTED, WAIT, SHORT, LONG, BARRIER, MATH, MIO, LG, NOT_SELECTED, DISPATCH, GMMA, MEMBAR, SLEEPING) = range(13)


# What can be busy, under the names that explanations use.
BUSY = (
    "issue",
    "FMA pipe",
    "ALU pipe",
    "tensor cores",
    "special functions",
    "shared memory and L1",
    "L1 tags",
    "L2 to SM",
)


@dataclass
class Outcome:
    """``cycles`` until the last warp ended; ``stalls`` by position in the program, one number per reason."""

    cycles: float = 0.0
    issued: int = 0
    stalls: dict[int, list[float]] = field(default_factory=dict)
    l2_bytes: float = 0.0
    l2_cycles: float = 0.0  # that these bytes take the way from L2
    stored_bytes: float = 0.0
    data_cycles: float = 0.0  # of the data stage: shared memory and L1
    tag_cycles: float = 0.0
    left_at: float = 0.0  # when the last store to what other blocks read has come to L2
    spills: int = 0  # accesses to local memory
    busy: dict[str, float] = field(default_factory=dict)  # share of the time that each unit works
    ends: dict[int, float] = field(default_factory=dict)  # of each block
