"""The instructions of a program as the loop of the cycle model takes them apart."""

from __future__ import annotations

from gemmsmith.sim.timing.effects import FMA, SharedOp
from gemmsmith.sim.timing.memory_path import Memory
from gemmsmith.sim.timing.parameters import SmParameters
from gemmsmith.sim.timing.table import Kind, Row, Unit

# How the unit of an instruction says whether it can take one.
ALWAYS, ONE, EITHER, QUEUE, GROUP, BOTH = range(6)
Op = tuple[int, int, float, int, int, int, tuple[int, ...], bool, list[float], int, int, SharedOp | None, float]
"""(how, unit, busy, even, odd, stall, wait, plain, stalls so far, even alone, odd alone, shared, hold)

``plain``: it does nothing but take its unit, and the stall count says when the next may issue. ``shared``: it accesses
shared memory, and what it costs does not depend on anything else."""
NOTHING: Op = (ALWAYS, 0, 0.0, 0, 0, 0, (), False, [], 0, 0, None, 0.0)  # of a warp without instructions
_SHARED = (Kind.SHARED_LOAD, Kind.SHARED_STORE)


def op_of(row: Row, tally: list[float], model: SmParameters, memory: Memory, watched: bool) -> Op:
    """A row as the loop takes it apart; ``tally`` gets its stalls. ``watched``: every instruction is looked at."""
    unit, how = int(row.unit), ONE
    if unit == Unit.NONE:
        how = ALWAYS
    elif unit == Unit.FMA:
        how = ONE if model.fma_halves == 1 else EITHER
    elif unit == Unit.HALF:
        unit, how = FMA, ONE if model.fma_halves == 1 else BOTH
    elif unit == Unit.FMA_HEAVY:
        unit = FMA
    elif unit == Unit.MIO:
        how = QUEUE
    elif row.kind == Kind.GMMA:
        how = GROUP
    plain = not row.kind and row.write < 0 and not row.jumps and row.unit != Unit.HALF and not watched
    shared = None
    if how == QUEUE and row.kind in _SHARED and not row.jumps and not watched:
        most = 0 if memory.conflicts else max(1, (row.result_bytes or row.operand_bytes - 4) // 4)
        shared = (row.write, row.read, row.operand_bytes * 32 / model.operand_port,
                  row.result_bytes * 32 / model.shared_port_bytes, most)  # fmt: skip
    return (how, unit, row.busy, row.even, row.odd, row.stall, row.wait, plain, tally, row.even_alone, row.odd_alone,
            shared, row.hold)  # fmt: skip
