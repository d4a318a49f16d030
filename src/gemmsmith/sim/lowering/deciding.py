"""Which operations decide nothing: no address, no branch, no guard and no wait depends on their results.

Who counts a launch or times it needs what each warp executes and what it accesses, not the numbers that a kernel
computes. Where data do not move (``SimDevice.moves_data``), such operations are counted and not computed.

A register is *wanted* at a place in the program if something there or later needs its value. This is the liveness of
compilers, found backwards, with other uses: an operation that only computes wants its operands if its result is
wanted. A store wants its values if something that is wanted may be loaded from that memory. Products have no value
without data, and neither has what is computed from them; so their stores want nothing. A load that reads such a value
and decides something by it is told so when it happens (``read_back.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gemmsmith.sim.instructions.lanewise import compute, compute_several
from gemmsmith.sim.lowering.operation import Cell, Lowered, Operation, Slot
from gemmsmith.sim.lowering.read_back import ReadBack
from gemmsmith.sim.lowering.traits import Effect, Flow, Mix, Space, Wait

_STORES = ("st", "STG", "STS", "ST", "STL", "stmatrix", "STSM")
_CONSTANT = ("LDC", "ULDC", "ld.const", "ld.param")
_EVERYWHERE = frozenset((Space.GLOBAL, Space.SHARED, Space.LOCAL))


def undecided(lowered: Lowered) -> frozenset[int]:
    """The positions of operations whose results nobody wants: those that compute, and products."""
    return lowered.fact(_decided).idle


def read_back(lowered: Lowered) -> ReadBack | None:
    """Stores of products, and loads that may read what these stored and decide something by it, if there are any."""
    found = lowered.fact(_decided)
    if not found.stores or not found.loads:
        return None
    # Of the loads that are wanted some only pass a value on to other stores.
    deciding = _Wanted(lowered, stores_want=False)
    deciding.unwanted()
    loads = found.loads & deciding.loads
    return ReadBack(found.stores, loads) if loads else None


@dataclass(frozen=True)
class _Decided:
    """``idle``: operations whose results nobody wants. ``stores`` of products, and ``loads`` that are wanted from the
    memories where these are."""

    idle: frozenset[int]
    stores: frozenset[int]
    loads: frozenset[int]


def _decided(lowered: Lowered) -> _Decided:
    if any(o.instruction.name.startswith("tensormap") for o in lowered.operations):
        # TMA reads the maps that these make, and whatever stores wrote to them
        return _Decided(frozenset(), frozenset(), frozenset())
    wanted = _Wanted(lowered)
    idle, operations = wanted.unwanted(), lowered.operations
    to = {space for position in wanted.without_value for space in _spaces(operations[position])}
    loads = frozenset(position for position in wanted.loads if to & _spaces(operations[position]))
    return _Decided(idle, wanted.without_value, loads)


@dataclass(frozen=True, slots=True)
class _Use:
    """One operation as both passes look at it; sets of registers are bits.

    ``values`` are what a store stores, or the elements of a product. ``leads_to``: where a branch goes.
    """

    position: int
    kind: int
    reads: int
    writes: int
    replaces: int
    values: int
    addresses: int
    guard: int
    under: tuple[Cell, bool] | None
    leads_to: int | None
    goes_on: bool
    jumps: bool
    is_target: bool


_COMPUTES, _MULTIPLIES, _STORES_VALUES, _OTHER = range(4)


class _Wanted:
    """``stores_want``: whether a store wants its values where something is loaded from that memory."""

    def __init__(self, lowered: Lowered, stores_want: bool = True) -> None:
        self.stores_want = stores_want
        self.loads: set[int] = set()  # positions of loads whose results are wanted
        self.operations, self.labels = lowered.operations, lowered.labels
        self.targets = frozenset(lowered.labels.values())
        self.bits: dict[Cell, int] = {}
        self.uses = [self._use(operation) for operation in self.operations]
        self.everything = (1 << len(self.bits)) - 1
        self.memory: set[Space] = set()  # from which something is loaded that is wanted
        self.without_value = self._without_value()

    def _use(self, operation: Operation[Any]) -> _Use:
        guard, traits = operation.guard, operation.traits
        kind, values = _OTHER, 0
        if _computes(operation):
            kind = _COMPUTES
        elif _multiplies(operation):
            kind, values = _MULTIPLIES, self._mask(_words(operation))
        elif _stores(operation):
            kind, values = _STORES_VALUES, self._mask(_values(operation))
        writes = self._mask(operation.writes())
        leads_to = self.labels[operation.detail.label] if traits.flow is Flow.BRANCH else None
        return _Use(
            operation.position, kind, self._mask(operation.reads()), writes, writes if _replaces(operation) else 0,
            values, self._mask([p.base.cell for p in operation.pointers if isinstance(p.base, Slot)]),
            0 if guard is None else self._mask([guard.cell]),
            None if guard is None else (guard.cell, operation.negated), leads_to,
            traits.flow is Flow.NEXT or guard is not None, traits.flow is Flow.JUMP,
            operation.position in self.targets,
        )  # fmt: skip

    def _mask(self, cells: Iterable[Cell]) -> int:
        mask = 0
        for cell in cells:
            mask |= 1 << self.bits.setdefault(cell, len(self.bits))
        return mask

    def unwanted(self) -> frozenset[int]:
        at: dict[int, int] = {}  # wanted where branches lead to
        while True:
            before = dict(at), set(self.memory)
            self.loads.clear()
            found = self._pass(at)
            if before == (at, self.memory):
                return frozenset(found)

    def _pass(self, at: dict[int, int]) -> list[int]:
        """Once backwards through the program; the positions of operations whose results are not wanted."""
        wanted, found = 0, []
        under: dict[tuple[Cell, bool], int] = {}  # wanted where a predicate holds, or does not
        for use in reversed(self.uses):
            writes = use.writes
            if under and writes:
                for key in [key for key in under if writes >> self.bits[key[0]] & 1]:
                    wanted |= under.pop(key)  # above, the predicate is another
            if use.leads_to is not None:
                wanted |= at.get(use.leads_to, 0)
            elif use.jumps:
                wanted = self.everything
            where = [key for key, some in under.items() if some & writes]
            used = bool(wanted & writes or where)
            needs = self._needs(use, used)
            if use.under is None:
                only = where[0] if len(where) == 1 and use.kind == _COMPUTES and not wanted & writes else None
                if use.replaces:
                    wanted &= ~use.replaces
                    under = {key: some & ~use.replaces for key, some in under.items()}
                if only is None:
                    wanted |= needs
                else:  # the address of a guarded access, for example
                    under[only] |= needs
            else:
                under[use.under] = under.get(use.under, 0) & ~use.replaces | needs
                wanted |= use.guard
            if not used and use.kind <= _MULTIPLIES:
                found.append(use.position)
            if use.is_target:
                for some in under.values():
                    wanted |= some
                under.clear()
                at[use.position] = at.get(use.position, 0) | wanted
        return found

    def _needs(self, use: _Use, used: bool) -> int:
        """The registers that an operation wants."""
        if use.kind == _COMPUTES:
            return use.reads if used else use.guard
        if use.kind == _MULTIPLIES:
            return use.reads if used else use.reads & ~use.values
        access = self.operations[use.position].access
        if access is None:
            return use.reads
        spaces = _spaces(self.operations[use.position])
        if use.kind == _STORES_VALUES:
            if not self.stores_want or use.position in self.without_value or not self.memory & spaces:
                return use.reads & ~use.values | use.addresses | use.guard
        elif used and _loads(self.operations[use.position]):
            self.memory |= spaces
            self.loads.add(use.position)
            if access.effect is Effect.COPY or Space.SHARED in spaces:
                self.memory.add(Space.GLOBAL)  # asynchronous copies bring it
        return use.reads

    # -- values that products made ----------------------------------------------------------------

    def _without_value(self) -> frozenset[int]:
        """The positions of stores whose values may come from products."""
        at: dict[int, int] = {}
        while True:
            before = dict(at)
            found = self._forwards(at)
            if before == at:
                return frozenset(found)

    def _forwards(self, at: dict[int, int]) -> list[int]:
        made, found = 0, []  # registers that may hold a product, or what was computed from one
        for use in self.uses:
            if use.is_target:
                made = at[use.position] = at.get(use.position, 0) | made
            if use.kind == _STORES_VALUES and made & use.values:
                found.append(use.position)
            if use.kind == _MULTIPLIES or (use.kind == _COMPUTES and made & use.reads):
                made |= use.writes
            elif use.replaces and not use.guard:
                made &= ~use.replaces
            if use.leads_to is not None:
                at[use.leads_to] = at.get(use.leads_to, 0) | made
            if not use.goes_on:
                made = 0  # nobody goes on here; who branches here says what holds
        return found


def _spaces(operation: Operation[Any]) -> frozenset[Space]:
    """The memories that an access may reach."""
    access = operation.access
    if access is None:
        return frozenset()
    return _EVERYWHERE if access.space is Space.GENERIC else frozenset((access.space,))


def _computes(operation: Operation[Any]) -> bool:
    """Whether an operation only computes lane by lane."""
    traits = operation.traits
    plain = operation.access is None and traits.waits_on is Wait.NOTHING and traits.flow is Flow.NEXT
    return plain and operation.execute in (compute, compute_several)


def _replaces(operation: Operation[Any]) -> bool:
    """Whether it surely writes all of its targets, and does not read them, as wgmma does: it adds to them."""
    if _computes(operation):
        return True
    access = operation.access
    if access is None or access.effect is not Effect.READ or _multiplies(operation):
        return False
    return operation.traits.waits_on is Wait.NOTHING


def _multiplies(operation: Operation[Any]) -> bool:
    """Whether it is a product of a warp or warpgroup, which makes nothing where data do not move."""
    return operation.traits.counts.profiled.mix is Mix.TENSOR


def _loads(operation: Operation[Any]) -> bool:
    """Whether it reads what stores may have written: neither constants nor mbarriers, which others change."""
    access = operation.access
    if access is None or access.effect is Effect.WRITE or operation.traits.partial_order:
        return False
    return not operation.instruction.name.startswith(_CONSTANT)


def _stores(operation: Operation[Any]) -> bool:
    access = operation.access
    return access is not None and access.effect is Effect.WRITE and not operation.targets and (
        operation.instruction.name.partition(".")[0] in _STORES
    )  # fmt: skip


def _words(operation: Operation[Any]) -> list[Cell]:
    """Registers of 32 bits among the sources: elements, not descriptors or predicates."""
    return [source.cell for source in operation.sources if isinstance(source, Slot) and source.file == "w"]


def _values(operation: Operation[Any]) -> list[Cell]:
    return [source.cell for source in operation.sources if isinstance(source, Slot)]
