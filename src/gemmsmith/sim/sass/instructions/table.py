"""The one table of machine opcodes, built from the families' files."""

from __future__ import annotations

from functools import cache

from gemmsmith.sim.sass.instructions import (
    bits,
    control,
    floating,
    hopper,
    integer,
    matrix,
    memory,
    once,
    tma,
    warp,
    warpgroup,
)
from gemmsmith.sim.sass.record import Opcode

FAMILIES = (integer, bits, floating, memory, control, warp, matrix, once, hopper, tma, warpgroup)


@cache
def table() -> dict[str, Opcode]:
    """Records by opcode."""
    return {name: record for family in FAMILIES for record in family.RECORDS for name in record.opcodes}
