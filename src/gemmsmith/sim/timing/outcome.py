"""What a run of the cycle model gives: cycles, stalls by reason, traffic, and how busy units were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.table import Row, Unit

NEVER = 1e18
PARTS = 4  # sub-cores of an SM

# Stall reasons, as ncu names them.
REASONS = ("selected", "wait", "short_scoreboard", "long_scoreboard", "barrier", "math_pipe_throttle", "mio_throttle",
           "lg_throttle", "not_selected", "dispatch_stall", "gmma", "membar", "sleeping")  # fmt: skip
(SELECTED, WAIT, SHORT, LONG, BARRIER, MATH, MIO_THROTTLE, LG, NOT_SELECTED, DISPATCH, GMMA, MEMBAR,
 SLEEPING) = range(13)  # fmt: skip

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

_UNIT_NAMES: dict[int, str] = {
    Unit.FMA: "FMA pipe", Unit.FMA_HEAVY: "FMA pipe", Unit.HALF: "FMA pipe", Unit.ALU: "ALU pipe",
    Unit.TENSOR: "tensor cores", Unit.XU: "special functions",
}  # fmt: skip


@dataclass
class Outcome:
    """``cycles`` until the last warp ended; ``stalls`` by position in the program, one number per reason.

    Of stalls that are not ``accounted`` only the first number is there: how often an instruction issued.
    """

    cycles: float = 0.0
    issued: int = 0
    stalls: dict[int, list[float]] = field(default_factory=dict)
    accounted: bool = True
    l2_bytes: float = 0.0
    l2_cycles: float = 0.0  # that these bytes take the way from L2
    stored_bytes: float = 0.0
    data_cycles: float = 0.0  # of the data stage: shared memory and L1
    tag_cycles: float = 0.0
    left_at: float = 0.0  # when the last store to what other blocks read has come to L2
    spills: int = 0  # accesses to local memory
    busy: dict[str, float] = field(default_factory=dict)  # share of the time that each unit works
    ends: dict[int, float] = field(default_factory=dict)  # of each block


def busy_of(out: Outcome, rows: Sequence[Row | None], parts: int, model: SmParameters) -> dict[str, float]:
    """The share of the time that each unit of the SMs, which have ``parts`` sub-cores, works."""
    cycles = out.cycles or 1.0
    found = dict.fromkeys(BUSY, 0.0)
    found["issue"] = out.issued / cycles / parts
    for position, tally in out.stalls.items():
        row = rows[position]
        assert row is not None
        name = _UNIT_NAMES.get(row.unit)
        if name:
            share = model.fma_halves if row.unit in (Unit.FMA, Unit.FMA_HEAVY) else 1
            found[name] += tally[SELECTED] * row.busy / share / cycles / parts
    sms = parts // PARTS
    found["shared memory and L1"] = out.data_cycles / cycles / sms
    found["L1 tags"] = out.tag_cycles / cycles / sms
    found["L2 to SM"] = out.l2_cycles / cycles / sms
    return found
