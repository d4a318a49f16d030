"""The one table of instructions, built from the families' files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from gemmsmith.sim.instructions import (
    approx,
    async_copy,
    async_store,
    atomic,
    barrier,
    bits,
    bulk_copy,
    bulk_groups,
    call,
    carry,
    clock,
    cluster,
    compare,
    control,
    convert,
    f16,
    f32,
    f64,
    heap,
    integer,
    matrix,
    mbarrier,
    memory,
    mma,
    move,
    parameter,
    shuffle,
    surface,
    tensormap,
    texture,
    vote,
    wgmma,
    wgmma_groups,
    wmma,
)
from gemmsmith.sim.instructions.pattern import Modifiers, Pattern
from gemmsmith.sim.instructions.record import AnyRecord, Composite
from gemmsmith.sim.lowering.places import Refused

FAMILIES = (f32, f64, f16, approx, integer, carry, bits, compare, convert, clock, move, memory, parameter, atomic,
            async_copy, async_store, bulk_copy, bulk_groups, tensormap, barrier, cluster, mbarrier, shuffle, vote,
            matrix, mma, wgmma, wgmma_groups, control, heap, call, texture, surface)  # fmt: skip


@dataclass(frozen=True)
class Decoded:
    """A record that takes an instruction of some name, with the form it decoded from that name."""

    record: AnyRecord
    form: Any


class Table:
    """Records by opcode. Lookups are kept: a kernel has thousands of instructions, but few different names."""

    def __init__(self, records: Iterable[AnyRecord], composites: Iterable[Composite] = ()) -> None:
        self.records, self.composites = tuple(records), tuple(composites)
        self._by_opcode: dict[str, list[tuple[Pattern, AnyRecord]]] = {}
        for record in self.records:
            self._by_opcode.setdefault(record.matcher.opcode, []).append((record.matcher, record))
        self._decoded: dict[str, tuple[Decoded, ...]] = {}

    def find(self, name: str) -> tuple[Decoded, ...]:
        """The records that take instructions of this name, in the order they are asked; none if it is unknown."""
        found = self._decoded.get(name)
        if found is None:
            found = self._decoded[name] = tuple(self._decode(name))
        return found

    def _decode(self, name: str) -> Iterable[Decoded]:
        for matcher, record in self._by_opcode.get(name.partition(".")[0], ()):
            if (modifiers := matcher.match(name)) is not None:
                try:
                    yield Decoded(record, record.decode(modifiers))
                except Refused:
                    continue

    def composite(self, name: str) -> tuple[Composite, Modifiers] | None:
        """The instruction that ptxas builds from others, if this name is one."""
        for composite in self.composites:
            matcher = composite.matcher
            if matcher.opcode == name.partition(".")[0] and (modifiers := matcher.match(name)) is not None:
                return composite, modifiers
        return None


@cache
def table() -> Table:
    """All instructions that the simulator knows."""
    return Table((record for family in FAMILIES for record in family.RECORDS), wmma.COMPOSITES)
