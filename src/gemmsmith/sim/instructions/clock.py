"""Clocks: special registers that are read when the instruction runs.

The simulator has no time. A clock counts the bundles that the wave has executed, four cycles each, so that it advances
and two reads differ; a nanosecond is two cycles.
"""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, Refused, operands
from gemmsmith.sim.lowering.traits import Bundling
from gemmsmith.sim.ptx.syntax import Instruction, Symbol
from gemmsmith.sim.special import CLOCKS

_CYCLES_PER_STEP = 4


class _Clock:
    """Reads of a wave's clock; each is later than the one before."""

    def __init__(self, machine: Execution) -> None:
        self.machine, self.reads = machine, 0

    def cycles(self) -> int:
        self.reads += 1
        return _CYCLES_PER_STEP * (self.machine.steps_taken + self.reads)


def _lower(code: Lowering, i: Instruction, kind: str) -> Draft[str]:
    target, source = operands(i, 2)
    if not isinstance(source, Symbol) or source.name not in CLOCKS:
        raise Refused
    return Draft(source.name, (code.slot(target, kind),))


def _read(machine: Execution, step: Bundle[str], lanes: Lanes) -> None:
    value = machine.unit(_Clock).cycles()
    if "timer" in step.detail:
        value //= 2
    value = value >> 32 if step.detail.endswith("_hi") else value
    kind = step.targets[0].dtype
    machine.put(step.targets[0], lanes, np.asarray(value % (1 << (8 * kind.itemsize))).astype(kind))


def _type(m: Modifiers) -> str:
    return m["type"]


RECORDS = (
    Record("mov.type", where={"type": "u32 b32 s32 u64 b64 s64"}, decode=_type, lower=_lower, execute=_read,
           bundling=Bundling.BOUNDARY),
)  # fmt: skip
