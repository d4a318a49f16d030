"""What a cost costs: the cycle model run again without it, and what bounds the kernel then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from gemmsmith.errors import SimulationError
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.prediction import Changes, Predicted, bound_of, bounding_unit
from gemmsmith.explain.timing.stalls import reasons_of
from gemmsmith.sim.sass.pipes import Pipe, pipe_of
from gemmsmith.sim.sass.syntax import MachineInstruction
from gemmsmith.sim.timing.outcome import Outcome
from gemmsmith.sim.timing.table import Kind, instruction_kind, rows_of

CONFLICTS = "shared-memory bank conflicts"
COALESCED = "uncoalesced global accesses"
LATENCY = "latency of L2 and DRAM"
BARRIERS = "the cost of barriers"
TAIL = "the tail"
HALF_TRAFFIC = "half of the traffic of shared memory and L1"
OVERHEAD = "instructions that only compute addresses and loops"
SPILLS = "register spills"
_FREE = 1e9
_LEAST = 1.01  # gains below are not shown
_SOME = 0.02  # of the waiting: a cost that nobody waits for is not tried
_MOST_ISSUED = 5_000_000  # instructions of all these runs: half a minute
_BUSY = 0.3  # of the time: a bandwidth that is used less limits nothing


@dataclass(frozen=True)
class _Cost:
    """``worth``: whether it may matter at all, from what the model said with it."""

    name: str
    changes: Changes
    worth: Callable[[Outcome, dict[str, float]], bool]


def _waits(*reasons: str) -> Callable[[Outcome, dict[str, float]], bool]:
    return lambda _, shares: sum(shares.get(reason, 0.0) for reason in reasons) > _SOME


def _always(outcome: Outcome, shares: dict[str, float]) -> bool:
    del outcome, shares
    return True


def _uses(unit: str) -> Callable[[Outcome, dict[str, float]], bool]:
    return lambda outcome, _: outcome.busy.get(unit, 0.0) > _BUSY


def _overhead(i: MachineInstruction) -> bool:
    """Whether an instruction neither multiplies nor accesses memory nor waits: addresses, loops, moves."""
    plain = instruction_kind(i) is Kind.PLAIN and i.control.write_barrier is None and not i.control.wait
    return plain and pipe_of(i) in _OTHERS and i.opcode not in (*_ARITHMETIC, *_CONTROL)


def _spills(i: MachineInstruction) -> bool:
    return i.opcode in ("LDL", "STL")


_ARITHMETIC = ("FFMA", "FADD", "FMUL", "HFMA2", "HADD2", "HMUL2", "DFMA", "DADD", "DMUL", "IDP")
_CONTROL = ("WARPGROUP", "WARPSYNC")
_OTHERS = (Pipe.FMA, Pipe.ALU, Pipe.UNIFORM, Pipe.NONE)
_L2 = {
    "l2_bytes_cycle": _FREE,
    "l2_tma_bytes_cycle": _FREE,
    "dram_sm_bytes_cycle": _FREE,
    "dram_line": 0.0,
    "tma_bytes_cycle": _FREE,
    "dram_tma_bytes_cycle": _FREE,
}
_LATENCIES = {"l2_latency": 0.0, "dram_latency": 0.0, "dram_spread": 0.0, "tma_latency": 0.0}
_BARRIERS = {"barrier": 0.0, "barrier_warp": 0.0, "mbarrier": 0.0, "cluster_barrier": 0.0}
COSTS = (
    _Cost(CONFLICTS, Changes(conflicts=False), _uses("shared memory and L1")),
    _Cost(COALESCED, Changes(coalesced=True), _uses("L1 tags")),
    _Cost("register-bank conflicts", Changes(sm={"register_banks": 0}), _uses("FMA pipe")),
    _Cost(LATENCY, Changes(sm=_LATENCIES, cold=False),
          _waits("long_scoreboard")),
    _Cost("the limit of L2 bandwidth", Changes(sm=_L2), _uses("L2 to SM")),
    _Cost("the limit of the queue of memory instructions", Changes(sm={"mio_depth": 10_000, "mio_issue": 1.0}),
          _waits("mio_throttle", "lg_throttle")),
    _Cost("latency of shared memory", Changes(sm={"shared_latency": 0.0}), _waits("short_scoreboard")),
    _Cost(HALF_TRAFFIC, Changes(sm={"wavefront": 0.5, "port_bytes": 128.0, "shared_port_bytes": 128.0}),
          _uses("shared memory and L1")),
    _Cost(OVERHEAD, Changes(dropped=_overhead), _uses("issue")),
    _Cost(SPILLS, Changes(dropped=_spills), lambda outcome, _: outcome.spills > 0),
    _Cost(BARRIERS, Changes(sm=_BARRIERS), _waits("barrier")),
)  # fmt: skip


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
    """All costs whose absence would make the kernel faster, the greatest gain first; at the same clock.

    The most frequent round is run again, with and without each cost; of a kernel that executes very much, without the
    first ones alone.
    """
    outcome = now.outcome
    waiting = [(name, value) for name, value in reasons_of(outcome) if name != "selected"]
    total = sum(value for _, value in waiting) or 1.0
    shares = {name: value / total for name, value in waiting}
    base = predictor.once(Changes(), accounts=False)
    found, left = [], _MOST_ISSUED
    for cost in COSTS:
        if cost.worth(outcome, shares) and _changes_some(cost.changes, predictor):
            left -= base.issued
            if left < 0:
                break
            with suppress(SimulationError):  # without this cost warps may wait for each other: nothing is told of it
                found.append(_without(cost, predictor, now, base))
    found.append(_gain(TAIL, now, predictor.filled, now.bound))
    return tuple(sorted((each for each in found if each.gain >= _LEAST), key=lambda each: -each.gain))


def _without(cost: _Cost, predictor: Predictor, now: Predicted, base: Outcome) -> WhatIf:
    """The gain without a cost. Stalls tell what bounds a kernel only where no unit does: they are asked for at once
    where none does with the cost, and else only if they are needed after all."""
    then = predictor.once(cost.changes, accounts=bounding_unit(now.outcome) is None)
    share = then.cycles / base.cycles
    unit = bounding_unit(then)
    if unit is not None or bounding_unit(now.outcome) is None:
        return _gain(cost.name, now, share, unit or bound_of(then))
    if _gain(cost.name, now, share, "").gain < _LEAST:  # not shown
        return _gain(cost.name, now, share, "")
    return _gain(cost.name, now, share, bound_of(predictor.once(cost.changes)))


def _changes_some(changes: Changes, predictor: Predictor) -> bool:
    """Whether some access takes fewer wavefronts, or fewer lines, without a cost of its own; of other costs always."""
    if changes.conflicts and not changes.coalesced:
        return True
    program, seen = predictor.program, set[tuple[int, int]]()
    rows = rows_of(program, predictor.model.sm)
    for stream in predictor.samples[-1].streams:
        for position, payload in zip(stream.positions, stream.payloads, strict=True):
            row = rows[position]
            if row is None or payload is None or (position, id(payload)) in seen:
                continue
            seen.add((position, id(payload)))
            if row.kind <= Kind.SHARED_STORE or row.kind == Kind.SHUFFLE:
                least = max(1, (row.result_bytes or row.operand_bytes - 4) // 4)
                if not changes.conflicts and isinstance(payload, int) and payload > least:
                    return True
            elif changes.coalesced and row.kind in (Kind.GLOBAL_LOAD, Kind.GLOBAL_STORE, Kind.ATOMIC):
                least = max(1, (row.result_bytes or row.operand_bytes - 8) // 4)
                if not isinstance(payload, tuple) or len(payload) > least:
                    return True
    return False


def _gain(cost: str, now: Predicted, share: float, bound: str) -> WhatIf:
    """The gain if the kernel's cycles are ``share`` of what they are; other launches and launching stay."""
    work = now.main.cycles / now.mhz
    us = now.us - work * (1 - min(1.0, share))
    return WhatIf(cost, now.us / us, bound, us)
