"""The memory order of an operation: weak or strong, what it releases and acquires, and for which threads.

The words are those of PTX's memory consistency model. A *strong* access (volatile, relaxed, acquire, release, atomic)
may meet another strong one; a weak access may not. A release makes what its thread did before visible to each thread
that acquires the same location: by the access itself, or by a fence before the write and a fence after the read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from gemmsmith.sim.lowering.first_guess import first_guesses
from gemmsmith.sim.lowering.operation import Cell, Lowered, Operation
from gemmsmith.sim.lowering.traits import Effect, Flow, Space, Wait

_RELEASES = {"release", "acq_rel", "sc"}
_ACQUIRES = {"acquire", "acq_rel", "sc"}
# Floats in global memory are data, not flags: volatile accesses of two threads may not meet there either, since a read
# and a write after it are two steps, and an addition of another thread is lost between them.
_FLOATING = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}
_STRONG = {"volatile", "relaxed", "mmio", "STRONG"} | _RELEASES | _ACQUIRES


class Scope(IntEnum):
    """The threads that an operation counts for: those of its block, of its cluster, or all."""

    BLOCK = 0
    CLUSTER = 1
    DEVICE = 2


@dataclass(frozen=True)
class MemoryOrder:
    """What one operation means to other threads."""

    strong: bool = False
    releases: bool = False
    acquires: bool = False
    fence: bool = False
    scope: Scope = Scope.DEVICE

    @property
    def block_only(self) -> bool:
        return self.scope is Scope.BLOCK


_WEAK = MemoryOrder()
_RELAXED = MemoryOrder(strong=True)


def memory_order(operation: Operation[Any]) -> MemoryOrder:
    """The order that PTX writes into the instruction's name."""
    opcode, *words = operation.instruction.name.split(".")
    found = set(words)
    scope = Scope.BLOCK if found & {"cta", "CTA", "SM"} else Scope.CLUSTER if "cluster" in found else Scope.DEVICE
    if opcode in ("fence", "membar", "MEMBAR"):
        proxy = any(word.startswith("proxy") for word in words)
        one_sided = found & {"acquire", "release"}
        return MemoryOrder(
            releases=not proxy and one_sided != {"acquire"},
            acquires=not proxy and one_sided != {"release"},
            fence=not proxy,
            scope=scope,
        )
    access = operation.access
    if access is None or operation.traits.partial_order:
        return _WEAK
    if "volatile" in found and found & _FLOATING and access.space is not Space.SHARED:
        return _WEAK
    if access.effect is Effect.UPDATE or found & _STRONG:
        return MemoryOrder(True, bool(found & _RELEASES), bool(found & _ACQUIRES), scope=scope)
    return _WEAK


@dataclass(frozen=True)
class SharedBetweenThreads:
    """What a program does to synchronise its threads through memory, found before it runs.

    ``orders`` has one entry for each operation. ``polling`` are the strong reads whose result decides whether their
    loop goes on; ``spins`` are the branches that close such a loop. ``used`` are all registers that something reads.
    ``synchronises``: the program has more than barriers to order its accesses with, be it only the result of an atomic.
    """

    orders: tuple[MemoryOrder, ...]
    polling: frozenset[int]
    spins: frozenset[int]
    used: frozenset[Cell]
    polls_global: bool
    synchronises: bool


def shared_between_threads(lowered: Lowered) -> SharedBetweenThreads:
    operations = lowered.operations
    orders = tuple([memory_order(operation) for operation in operations])
    if guesses := first_guesses(operations):
        orders = tuple(_RELAXED if i in guesses and not order.strong else order for i, order in enumerate(orders))
    used = frozenset(cell for operation in operations for cell in operation.reads())
    polling: set[int] = set()
    spins: set[int] = set()
    strong = [o.position for o in operations if (orders[o.position].strong or _waits(o)) and o.writes()]
    if strong:
        for start, stop in lowered.loops():
            found = [p for p in strong if start <= p <= stop]
            deciding = _deciding(operations[start : stop + 1], lowered, start, stop) if found else set()
            here = {p for p in found if any(cell in deciding for cell in operations[p].writes())}
            polling |= here
            if here:
                spins.add(stop)
    spaces = {operations[p].space for p in polling}
    return SharedBetweenThreads(orders, frozenset(polling), frozenset(spins), used, bool(spaces - {Space.SHARED}),
                                _synchronises(operations, orders, used))  # fmt: skip


def _synchronises(operations: Sequence[Operation[Any]], orders: Sequence[MemoryOrder], used: frozenset[Cell]) -> bool:
    strong = [operation for operation in operations if orders[operation.position].strong]
    if strong and any(order.fence or order.acquires or order.releases for order in orders):
        return True
    return any(o.access is not None and o.access.effect is Effect.UPDATE and any(cell in used for cell in o.writes())
               for o in strong)  # fmt: skip


def _waits(operation: Operation[Any]) -> bool:
    """Whether the result says if something has happened, as that of an mbarrier's wait does."""
    return operation.traits.waits_on is Wait.EVENT


def _deciding(body: Sequence[Operation[Any]], lowered: Lowered, start: int, stop: int) -> set[Cell]:
    """The registers of a loop that its branches in and out depend on."""
    wanted: set[Cell] = set()
    for operation in body:
        if operation.traits.flow is not Flow.NEXT and operation.guard is not None:
            target = stop + 1
            if operation.traits.flow is Flow.BRANCH:
                target = lowered.labels.get(operation.detail.label, stop + 1)
            if not start < target <= stop:
                wanted.add(operation.guard.cell)
    writers: dict[Cell, list[Operation[Any]]] = {}
    for operation in body:
        if operation.access is None:
            for cell in operation.writes():
                writers.setdefault(cell, []).append(operation)
    ahead = list(wanted)
    while ahead:
        for operation in writers.pop(ahead.pop(), ()):
            more = set(operation.reads()) - wanted
            wanted |= more
            ahead += more
    return wanted
