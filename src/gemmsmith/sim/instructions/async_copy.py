"""cp.async: copies from global to shared memory that land some time before their group is waited for.

With ``late_copies`` a copy lands at the last moment that the program allows, which is when its thread waits for its
group; otherwise at once. A kernel that waits correctly cannot tell the difference.

cp.async.mbarrier.arrive makes the landing of its thread's copies an arrival at an mbarrier. It happens when no thread
can go on without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.faults import describe_fault
from gemmsmith.sim.instructions.mbarrier import places
from gemmsmith.sim.instructions.memory import WAVEFRONTS
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Operation, Slot, Source
from gemmsmith.sim.lowering.places import Lowering, Refused, literal, operands
from gemmsmith.sim.lowering.traits import Access, Bundling, Counted, Effect, Executed, Mix, Profiled, Quantity, Space
from gemmsmith.sim.memory.access_faults import AccessFault
from gemmsmith.sim.memory.global_memory import RAW, check_alignment
from gemmsmith.sim.ptx.syntax import Instruction, Negated, Operand
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import ProxyFences
from gemmsmith.sim.races.clocks import Moment
from gemmsmith.sim.races.shadow_records import Landing
from gemmsmith.sim.waits.mbarriers import MBarriers

# -- lowering -----------------------------------------------------------------------------------------


class Amount(Enum):
    """How many bytes of a copy come from memory; the rest is zeros."""

    ALL = "the width"
    SIZE = "the source"
    NONE_IF = "none if the source holds"
    NONE_UNLESS = "none unless the source holds"


@dataclass(frozen=True)
class Copy:
    """``bypass``: past L1 (.cg). ``amount``: what the source says, unless that is everything."""

    bypass: bool
    amount: Amount

    @property
    def zero_fill(self) -> bool:
        return self.amount is not Amount.ALL

    def size(self, values: Array, width: int) -> Array:
        """Bytes from memory, of the values of the source."""
        if self.amount in (Amount.ALL, Amount.SIZE):
            return values
        return np.where(values != (self.amount is Amount.NONE_UNLESS), 0, width).astype(np.uint32)


@dataclass(frozen=True)
class CopyForm:
    """``hinted``: the last operand is a cache policy."""

    bypass: bool
    hinted: bool


def _decode_copy(m: Modifiers) -> CopyForm:
    return CopyForm(m["cache"] == "cg", "hint" in m)


def _lower_copy(code: Lowering, i: Instruction, form: CopyForm) -> Draft[Copy]:
    given = operands(i, 4, 5)[:-1] if form.hinted else operands(i, 3, 4)
    to, start, length, *sized = given
    width = literal(length)
    if width not in ((16,) if form.bypass else (4, 8, 16)):
        raise Refused
    size, amount = _amount(code, sized[0], width) if sized else (np.uint32(width), Amount.ALL)
    return Draft(Copy(form.bypass, amount), (), (size,), (code.pointer(to), code.pointer(start)),
                 Access(Space.SHARED, Effect.COPY, width, width, width))  # fmt: skip


def _amount(code: Lowering, operand: Operand, width: int) -> tuple[Source, Amount]:
    """A size, or the predicate that ignores the source."""
    if isinstance(operand, Negated):
        return code.slot(operand.register, "pred"), Amount.NONE_UNLESS
    size = code.source(operand, "u32")
    if isinstance(size, Slot) and size.file == "p":
        return code.slot(operand, "pred"), Amount.NONE_IF
    if isinstance(size, Slot) and size.file != "w":
        raise Refused
    whole = not isinstance(size, Slot) and int(size) == width
    return size, Amount.ALL if whole else Amount.SIZE


_EVERYTHING = -1


def _lower_wait_group(code: Lowering, i: Instruction, _: None) -> Draft[int]:
    """The detail is how many of the latest groups may still be in flight."""
    del code
    return Draft(literal(*operands(i, 1)))


def _lower_wait_all(code: Lowering, i: Instruction, _: None) -> Draft[int]:
    del code, i
    return Draft(_EVERYTHING)


def _lower_commit(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    del code, i
    return Draft(None)


# -- execution ----------------------------------------------------------------------------------------


@dataclass
class Pending:
    """Copies in flight: for each, the lane, its commit group, and where from and to. ``number`` grows with time."""

    lanes: Array
    group: Array
    index: Array
    source: Array
    size: Array
    width: int
    landed: bool
    number: int

    def part(self, mask: Array) -> Pending:
        """The copies that ``mask`` selects."""
        if mask.all():
            return self
        return Pending(self.lanes[mask], self.group[mask], self.index[mask], self.source[mask], self.size[mask],
                       self.width, self.landed, self.number)  # fmt: skip


@dataclass(frozen=True)
class Flight:
    """Copies that one instruction issued: its lanes, their commit groups, and the step of the wave."""

    operation: Operation[Any]
    lanes: Array
    group: Array
    step: int


@dataclass(frozen=True, eq=False)
class _Arrival:
    """An arrival at an mbarrier by lanes whose copies number 0 to ``issued`` - 1 have landed."""

    lanes: Array
    landing: Landing | None
    issued: int


def _issued_before(own: Array, issued: int, copy: Pending) -> Array:
    return own[copy.lanes] & (copy.number < issued)


class AsyncCopies:
    """The copies in flight of one wave, and each lane's count of committed groups."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.committed = np.zeros(machine.wave.lanes, np.int64)
        self.pending: list[Pending] = []
        self.issued = 0
        self.arrivals: list[_Arrival] = []  # at mbarriers, which are still to happen
        self.flights: list[Flight] = []  # of copies that no thread has waited for yet, if somebody counts

    def add(self, copy: Pending) -> None:
        self.issued += 1
        if copy.landed:
            self._land(copy)
        if self.machine.shadow is not None or not copy.landed:
            self.pending.append(copy)

    def commit(self, lanes: Lanes) -> None:
        self.committed[lanes] += 1

    def wait(self, lanes: Lanes, allowed: int) -> None:
        """Land what these lanes committed, except their last ``allowed`` groups; −1 lands everything."""
        if not self.pending and not self.flights:
            return
        waits = self._among(lanes)
        self.flights = [left for flight in self.flights if (left := self._counted(flight, waits, allowed)) is not None]

        def done(copy: Pending) -> Array:
            waited = waits[copy.lanes]
            return waited if allowed == _EVERYTHING else waited & (copy.group < self.committed[copy.lanes] - allowed)

        for each in self.arrivals if self.pending else ():  # who waits for the mbarrier may read these as well
            covered = self._among(each.lanes)

            def arrives(copy: Pending, arrival: _Arrival = each, own: Array = covered) -> Array:
                return done(copy) & _issued_before(own, arrival.issued, copy)

            self._finish(arrives, each.landing)
        self._finish(done)

    def start_flight(self, operation: Operation[Any], lanes: Array) -> None:
        """An instruction issued copies for these lanes: somebody counts how long they are in flight."""
        self.flights.append(Flight(operation, lanes, self.committed[lanes], self.machine.steps_taken))

    def _counted(self, flight: Flight, waits: Array, allowed: int) -> Flight | None:
        """Count what these lanes wait for; what is still in flight afterwards."""
        done = waits[flight.lanes]
        if allowed != _EVERYTHING:
            done = done & (flight.group < self.committed[flight.lanes] - allowed)
        if not done.any():
            return flight
        warps = np.unique(self.machine.warp[flight.lanes[done]]).size
        assert self.machine.counters is not None
        self.machine.counters.flew(flight.operation, warps * (self.machine.steps_taken - flight.step))
        return None if done.all() else Flight(flight.operation, flight.lanes[~done], flight.group[~done], flight.step)

    def arrive(self, step: Bundle[Any], lanes: Array, index: Array) -> None:
        """When what these lanes have issued so far has landed, they arrive at the mbarriers ``index``."""
        shadow = self.machine.shadow
        landing = None if shadow is None else shadow.landing()
        moment = None if shadow is None else shadow.arrive(lanes)
        arrival = _Arrival(lanes, landing, self.issued)
        self.arrivals.append(arrival)
        self.machine.postponed.append(partial(self._landed, step, arrival, index, moment))

    def _landed(self, step: Bundle[Any], arrival: _Arrival, index: Array, moment: Moment | None) -> None:
        """Copies that an earlier arrival covers as well are that arrival's: who waits for it may read them."""
        for each in self.arrivals if self.pending else ():
            own = self._among(np.intersect1d(each.lanes, arrival.lanes))
            self._finish(partial(_issued_before, own, each.issued), each.landing)
            if each is arrival:
                break
        self.arrivals.remove(arrival)
        lanes = arrival.lanes
        try:
            self.machine.unit(MBarriers).arrive(lanes, index, np.ones(lanes.size, np.int64), moment)
        except AccessFault as fault:
            raise describe_fault(self.machine, step, lanes, fault) from None

    def _among(self, lanes: Lanes) -> Array:
        """Which lanes of the wave are among these."""
        found = np.zeros(self.committed.size, bool)
        found[lanes] = True
        return found

    def _finish(self, done: Callable[[Pending], Array], landing: Landing | None = None) -> None:
        """Land the copies that are ``done``; ``landing`` as the race detector's, if an mbarrier says when."""
        left = []
        for copy in self.pending:
            now = done(copy)
            if not now.any():
                left.append(copy)
                continue
            self._finish_some(copy.part(now), landing)
            if not now.all():
                left.append(copy.part(~now))
        self.pending = left

    def _finish_some(self, copy: Pending, landing: Landing | None) -> None:
        """The copies' own threads, or all that wait for these threads, have waited for them."""
        if not copy.landed:
            self._land(copy)
        if self.machine.shadow is not None:
            self.machine.shadow.copy_waited(copy.lanes, copy.index, copy.width, landing)

    def _land(self, copy: Pending) -> None:
        memory, width = self.machine.memory, copy.width
        if (copy.size == width).all():
            self.machine.shared.scatter(copy.index, width, memory.gather(copy.source, width))
            return
        rows = np.zeros((copy.lanes.size, width), np.uint8)
        for byte in range(width):
            take = copy.size > byte
            if take.any():
                rows[take, byte] = memory.gather(copy.source[take] + np.uint64(byte), 1)
        self.machine.shared.scatter(copy.index, width, rows.reshape(-1).view(RAW[width]))


def _copy(machine: Execution, step: Bundle[Copy], lanes: Lanes) -> None:
    assert step.access is not None
    width = step.access.width
    to, start = step.pointers
    target = machine.addresses(to, lanes, step.count)
    # Copied: addresses may be a view of registers, which change before a late copy lands.
    source = machine.addresses(start, lanes, step.count).copy()
    size = np.broadcast_to(step.detail.size(machine.fetch(step.sources[0], lanes), width), target.shape)
    index = machine.shared.index(target, machine.shared_base[lanes], width)
    check_alignment(source, width, Space.GLOBAL)
    used = size > 0
    if used.any():  # a fault belongs to the instruction that issues the copy, so look for it now
        machine.memory.gather(np.where(used, source, source[used][0]), width if (size[used] == width).all() else 1)
    copies = machine.unit(AsyncCopies)
    each = np.broadcast_to(machine.indices(lanes), target.shape)
    copies.add(Pending(each.reshape(-1), copies.committed[each].reshape(-1), index.reshape(-1), source.reshape(-1),
                       np.array(size).reshape(-1), width, landed=not machine.late_copies,
                       number=copies.issued))  # fmt: skip
    _watch(machine, step, lanes, target, source, size, index)


def _watch(machine: Execution, step: Bundle[Copy], lanes: Lanes, *arrays: Array) -> None:
    """Tell the counters and the race detector, operation by operation."""
    rows = (x.reshape(step.count, -1) for x in arrays)
    for operation, target, source, size, index in zip(step.operations, *rows, strict=True):
        if machine.counters is not None:
            machine.counters.copy(machine, operation, lanes, target, source, size, bypass=step.detail.bypass,
                                  zero_fill=step.detail.zero_fill)  # fmt: skip
            machine.unit(AsyncCopies).start_flight(operation, machine.indices(lanes))
        if machine.recorder is not None:
            machine.recorder.copies(machine, operation, lanes, target, source, size)
        if machine.shadow is not None:
            machine.shadow.copy_issued(operation, machine.indices(lanes), index)
            assert operation.access is not None
            fences = machine.unit(ProxyFences)
            fences.overwritten(operation, machine.indices(lanes), index, operation.access.width)
            fences.copied(index, operation.access.width)


def _commit(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    del step
    machine.unit(AsyncCopies).commit(lanes)


def _wait(machine: Execution, step: Bundle[int], lanes: Lanes) -> None:
    machine.unit(AsyncCopies).wait(lanes, step.detail)


def _decode_arrive(m: Modifiers) -> Arrive:
    return Arrive("space" not in m, "noinc" in m)


@dataclass(frozen=True)
class Arrive:
    """``counted``: the phase expects this arrival; otherwise it is told to expect one more."""

    generic: bool
    counted: bool


def _lower_arrive(code: Lowering, i: Instruction, form: Arrive) -> Draft[Arrive]:
    (at,) = operands(i, 1)
    return Draft(form, pointers=(code.pointer(at),), access=Access(Space.SHARED, Effect.UPDATE, 8, 8, 8))


def _arrive(machine: Execution, step: Bundle[Arrive], lanes: Lanes) -> None:
    mine, index = places(machine, step, lanes, step.detail.generic)
    barriers = machine.unit(MBarriers)
    barriers.note(step.first, mine, index)
    barriers.load(index)
    if not step.detail.counted:
        barriers.add(index, 1)
    machine.unit(AsyncCopies).arrive(step, mine, index)


# -- records ------------------------------------------------------------------------------------------

_LDGSTS = Counted(Profiled(
    Mix.COPY, "LDGSTS",
    metrics=(("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", Quantity.REQUESTS),
             ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", Quantity.SECTORS)),
    copy_metrics=(("smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum", Quantity.SECTORS),
                  ("smsp__inst_executed_op_ldgsts.sum", Quantity.REQUESTS),
                  (WAVEFRONTS.format("ldgsts"), Quantity.WAVEFRONTS),
                  ("smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum", Quantity.CONFLICTS)),
))  # fmt: skip
_UNCOUNTED: dict[str, Any] = {"bundling": Bundling.BOUNDARY, "counts": Counted(executed=Executed.NEVER)}

RECORDS = (
    Record("cp.async.cache!.shared.global.prefetch?.hint?", decode=_decode_copy, lower=_lower_copy, execute=_copy,
           where={"cache": "ca cg", "shared": "shared shared::cta", "prefetch": "L2::64B L2::128B L2::256B",
                  "hint": "L2::cache_hint"},
           verb="asynchronous copy", counts=_LDGSTS),
    Record("cp.async.commit_group", decode=no_form, lower=_lower_commit, execute=_commit, **_UNCOUNTED),
    Record("cp.async.wait_group", decode=no_form, lower=_lower_wait_group, execute=_wait, verb="copy", **_UNCOUNTED),
    Record("cp.async.wait_all", decode=no_form, lower=_lower_wait_all, execute=_wait, verb="copy", **_UNCOUNTED),
    Record("cp.async.mbarrier.arrive.noinc?.space?.b64", where={"space": "shared shared::cta"}, decode=_decode_arrive,
           lower=_lower_arrive, execute=_arrive, called="cp.async.mbarrier.arrive", verb="arrival",
           bundling=Bundling.BOUNDARY, counts=Counted(Profiled(Mix.BARRIER)), partial_order=True),
)  # fmt: skip
