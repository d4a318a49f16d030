"""shfl.sync: lanes of a warp read each other's registers."""

from __future__ import annotations

from enum import Enum

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, operands
from gemmsmith.sim.lowering.traits import Bundling, Wait
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.wave import WARP


class Mode(Enum):
    """Which lane is read."""

    INDEX = "idx"
    UP = "up"
    DOWN = "down"
    BUTTERFLY = "bfly"


def _decode(m: Modifiers) -> Mode:
    return Mode(m["mode"])


def _lower(code: Lowering, i: Instruction, mode: Mode) -> Draft[Mode]:
    """Sources: value, lane, clamp and segment, member mask. A second target is the predicate."""
    target, *rest = operands(i, 5, 6)
    predicate, sources = rest[:-4], rest[-4:]
    targets = (code.slot(target, "b32"), *[code.slot(p, "pred") for p in predicate])
    return Draft(mode, targets, tuple([code.source(o, "u32") for o in sources]))


def _execute(machine: Execution, step: Bundle[Mode], lanes: Lanes) -> None:
    """Each lane reads another lane of its warp, by PTX's segment and clamp rules."""
    mine = machine.indices(lanes)
    value, b, c = (machine.spread(machine.fetch(s, lanes), lanes).astype(np.int64) for s in step.sources[:3])
    lane = machine.thread[mine] % WARP
    clamp, segment = c & 31, (c >> 8) & 31
    most = (lane & segment) | (clamp & ~segment & 31)
    least = lane & segment
    mode = step.detail
    wanted = {
        Mode.UP: lane - (b & 31), Mode.DOWN: lane + (b & 31), Mode.BUTTERFLY: lane ^ (b & 31),
        Mode.INDEX: least | (b & 31 & ~segment),
    }[mode]  # fmt: skip
    valid = wanted >= most if mode is Mode.UP else wanted <= most
    source = np.where(valid, wanted, lane) + (mine - lane)
    table = np.zeros(machine.wave.lanes, np.uint32)
    table[mine] = value.astype(np.uint32)
    present = np.zeros(machine.wave.lanes, bool)
    present[mine] = True
    inside = (source - mine + machine.thread[mine]) < machine.wave.threads  # the last warp of a block may be short
    absent = ~(inside & present[np.where(inside, source, mine)])
    if absent.any():
        first = int(np.flatnonzero(absent)[0])
        raise LaneFault(first, f"shfl.sync of lane {lane[first]} reads lane {(source - mine + lane)[first]}, "
                        "a lane that does not take part")  # fmt: skip
    machine.put(step.targets[0], lanes, table[source])
    if len(step.targets) == 2:
        machine.put(step.targets[1], lanes, valid)


RECORDS = (
    Record("shfl.sync.mode.b32", where={"mode": " ".join(mode.value for mode in Mode)}, decode=_decode, lower=_lower,
           execute=_execute, called="shfl.sync", waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY),
)  # fmt: skip
