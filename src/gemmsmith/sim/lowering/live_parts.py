"""Which parts of a vector load are used: a float4 load over padding may have a register that nothing reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.lowering.operation import Lowered, Operation
from gemmsmith.sim.lowering.traits import Effect
from gemmsmith.sim.ptx.types import Array


def unused_parts(lowered: Lowered) -> dict[int, tuple[bool, ...]]:
    """Of each vector load that has used and unused registers, by position, which of them are used."""
    used = {cell for operation in lowered.operations for cell in operation.reads()}
    found: dict[int, tuple[bool, ...]] = {}
    for operation in lowered.operations:
        access = operation.access
        if access is None or access.effect is not Effect.READ or len(operation.targets) < 2:
            continue
        live = tuple([target.cell in used for target in operation.targets])
        if access.lane_bytes == access.width and any(live) and not all(live):
            found[operation.position] = live
    return found


def live_parts(lowered: Lowered, operation: Operation[Any], unit: int) -> Array | None:
    """The units of ``unit`` bytes, counted from the address, whose values are used; None if all are."""
    live = lowered.fact(unused_parts).get(operation.position)
    if live is None:
        return None
    assert operation.access is not None
    each = operation.access.width // len(live)
    if each < unit:
        return None
    parts: Array = np.flatnonzero(np.repeat(live, each // unit))
    return parts


def live_bytes(lowered: Lowered, operations: tuple[Operation[Any], ...]) -> Array | None:
    """For each operation of a bundle, which bytes of its access are used; None if all of all are."""
    unused = lowered.fact(unused_parts)
    if not any(operation.position in unused for operation in operations):
        return None
    rows = []
    for operation in operations:
        assert operation.access is not None
        live = unused.get(operation.position, (True,) * max(1, len(operation.targets)))
        rows.append(np.repeat(live, operation.access.width // len(live)))
    return np.array(rows)
