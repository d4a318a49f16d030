"""mbarrier: barriers in shared memory, at whose phases threads arrive and for which they wait.

A wait for a phase that is not complete returns false the first time, so that a kernel that does not ask again is found
out. When it asks again, its lanes block until the phase is complete; if nothing else can run, they get false again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.lowering.places import Lowering, Refused, operands
from gemmsmith.sim.lowering.traits import Access, Bundling, Counted, Effect, Mix, Profiled, Space, Wait
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.memory.global_memory import RAW, resolve_generic
from gemmsmith.sim.ptx.syntax import SINK, Address, Immediate, Instruction
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.memory_order import memory_order
from gemmsmith.sim.waits.mbarriers import BYTES, MOST, MBarriers, expected_count, pending_count, phase_number, state

_ACCESS = Access(Space.SHARED, Effect.UPDATE, BYTES, BYTES, BYTES)


def places(machine: Execution, step: Bundle[Any], lanes: Lanes, generic: bool) -> tuple[Array, Array]:
    """(lane numbers, byte positions of their objects). A step asks several times: the last answer is kept."""
    barriers = machine.unit(MBarriers)
    known = barriers.located
    if known is not None and known[0] is step and known[1] is lanes and known[2] == machine.steps_taken:
        machine.reached = known[3]
        return known[4], known[5]
    addresses = machine.addresses(step.pointers[0], lanes, step.count)
    if generic:
        space, addresses = resolve_generic(addresses)
        if space is not Space.SHARED:
            raise LaneFault(0, f"{step.traits.called} in {space} memory: an mbarrier must be in shared memory")
    machine.reached = (Space.SHARED, addresses)
    mine, index = machine.indices(lanes), machine.shared.index(addresses, machine.shared_base[lanes], BYTES)
    barriers.located = step, lanes, machine.steps_taken, machine.reached, mine, index
    return mine, index


# -- init and inval -----------------------------------------------------------------------------------


def _decode_place(m: Modifiers) -> bool:
    """Whether the address is generic."""
    return "space" not in m


def _lower_init(code: Lowering, i: Instruction, generic: bool) -> Draft[bool]:
    at, count = operands(i, 2)
    return Draft(generic, (), (code.source(count, "u32"),), (code.pointer(at),), _ACCESS)


def _init(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    mine, index = places(machine, step, lanes, step.detail)
    counts = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    wrong = (counts == 0) | (counts > MOST)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise LaneFault(at, f"mbarrier.init with a count of {int(counts[at])}: it must be from 1 to {MOST}")
    if machine.shadow is not None:
        machine.shadow.write(step.first, mine, index, state(counts, counts, 0).view(RAW[BYTES]))
    machine.unit(MBarriers).initialise(index, counts)
    machine.unit(MBarriers).initialised(step.first, mine, index)


def _lower_inval(code: Lowering, i: Instruction, generic: bool) -> Draft[bool]:
    (at,) = operands(i, 1)
    return Draft(generic, pointers=(code.pointer(at),), access=_ACCESS)


def _inval(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    """An atomic access, as waits and arrivals are: cuda::pipeline ends with it, after no barrier."""
    mine, index = places(machine, step, lanes, step.detail)
    barriers = machine.unit(MBarriers)
    barriers.load(index)
    barriers.note(step.first, mine, index)
    barriers.initialise(index, np.zeros(mine.size, np.uint32))


# -- arrive -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrival:
    """``drop``: later phases expect one arrival less. ``completes``: whether it may be the last of its phase.

    ``expects``: the source is not a number of arrivals, but of bytes that the phase is to expect besides.
    """

    generic: bool
    drop: bool
    completes: bool
    expects: bool = False
    relaxed: bool = False


def _decode_arrive(m: Modifiers) -> Arrival:
    return Arrival("space" not in m, m["op"] == "arrive_drop", "noComplete" not in m, "expect_tx" in m, _is_relaxed(m))


def _is_relaxed(m: Modifiers) -> bool:
    return "order" in m and m["order"] == "relaxed"


def has_fences(lowered: Lowered) -> bool:
    """Whether a fence may order what a relaxed arrival or wait does not."""
    return any(memory_order(operation).fence and "mbarrier_init" not in operation.instruction.name
               for operation in lowered.operations)  # fmt: skip


def _lower_arrive(code: Lowering, i: Instruction, form: Arrival) -> Draft[Arrival]:
    given = i.operands if len(i.operands) > 1 and not isinstance(i.operands[0], Address) else (SINK, *i.operands)
    found, at, *count = given
    if len(count) > 1 or ((form.expects or not form.completes) and not count):
        raise Refused
    targets = () if found == SINK else (code.slot(found, "b64"),)
    return Draft(form, targets, (code.source(count[0] if count else Immediate(1, "int"), "u32"),), (code.pointer(at),),
                 _ACCESS)  # fmt: skip


def _arrive(machine: Execution, step: Bundle[Arrival], lanes: Lanes) -> None:
    form, barriers = step.detail, machine.unit(MBarriers)
    mine, index = places(machine, step, lanes, form.generic)
    counts = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
    barriers.note(step.first, mine, index)
    if form.expects:
        barriers.expect(index, counts)
        counts = np.ones_like(counts)
    releases = not form.relaxed or machine.lowered.fact(has_fences)
    moment = None if machine.shadow is None or not releases else machine.shadow.arrive(mine)
    found = barriers.arrive(mine, index, counts, moment, form.drop, form.completes)
    if step.targets:
        machine.put(step.targets[0], lanes, found)


# -- bytes --------------------------------------------------------------------------------------------


def _lower_bytes(code: Lowering, i: Instruction, generic: bool) -> Draft[bool]:
    at, count = operands(i, 2)
    return Draft(generic, (), (code.source(count, "u32"),), (code.pointer(at),), _ACCESS)


def _expect(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    mine, index = places(machine, step, lanes, step.detail)
    barriers = machine.unit(MBarriers)
    barriers.note(step.first, mine, index)
    barriers.expect(index, machine.spread(machine.fetch(step.sources[0], lanes), lanes))


def _complete(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    mine, index = places(machine, step, lanes, step.detail)
    barriers = machine.unit(MBarriers)
    barriers.note(step.first, mine, index)
    barriers.landed(index, machine.spread(machine.fetch(step.sources[0], lanes), lanes))


# -- waits --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PhaseWait:
    """A wait for the phase that an arrival found, or for the one of a given parity."""

    generic: bool
    parity: bool
    polls: bool = True
    relaxed: bool = False

    def arrive(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
        """Waiting changes nothing."""

    def ready(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
        """Lanes that ask for the first time, or whose phase is complete."""
        barriers = machine.unit(MBarriers)
        refused = barriers.refused_before(step, lanes)
        if refused is not None:
            return refused
        new: Array = barriers.repeated[lanes] != step.first.position
        found = new if new.all() else new | self.complete(machine, step, lanes)
        if not found.any():
            barriers.refuse(step, lanes, found)
        return found

    def complete(self, machine: Execution, step: Bundle[Any], lanes: Lanes, index: Array | None = None) -> Array:
        """Which of the phases are complete; ``index``: of the objects, if it is at hand."""
        if index is None:
            _, index = places(machine, step, lanes, self.generic)
        current = phase_number(machine.unit(MBarriers).load(index))
        given = machine.spread(machine.fetch(step.sources[0], lanes), lanes)
        if self.parity:
            result: Array = current & 1 != given & 1
        else:
            result = current != phase_number(given.astype(np.uint64))
        return result

    def waited(self, machine: Execution, step: Bundle[Any], lanes: Lanes, index: Array) -> Array:
        """The numbers of the phases whose end is waited for: by parity, the last one that ended."""
        if self.parity:
            return phase_number(machine.unit(MBarriers).load(index)) - 1
        return phase_number(machine.spread(machine.fetch(step.sources[0], lanes), lanes).astype(np.uint64))

    def lacks_bytes(self, machine: Execution, step: Bundle[Any], lane: int) -> bool:
        """Whether all threads have arrived, and only bytes of copies are lacking, or too many came."""
        _, index = places(machine, step, np.array([lane]), self.generic)
        barriers = machine.unit(MBarriers)
        return int(pending_count(barriers.load(index)[0])) == 0 and barriers.expected_bytes(int(index[0])) != 0

    def describe(self, machine: Execution, step: Bundle[Any], lane: int) -> str:
        _, index = places(machine, step, np.array([lane]), self.generic)
        bits, nbytes = machine.unit(MBarriers).load(index)[0], machine.unit(MBarriers).expected_bytes(int(index[0]))
        expected = int(expected_count(bits))
        many = "; its copies brought more bytes than it expects: expect_tx must count the bytes of all its copies"
        return (f"{step.traits.called} never completes: phase {int(phase_number(bits))} of the mbarrier lacks "
                f"{int(pending_count(bits))} arrivals{f' and {nbytes:,} bytes' if nbytes else ''} (of {expected} "
                f"arrivals, at shared address {int(index[0]) % machine.shared.stride:#x}){many if nbytes < 0 else ''}"
                f"{machine.unit(MBarriers).passed_over(int(index[0]), lane)}")  # fmt: skip


def _decode_wait(m: Modifiers) -> PhaseWait:
    return PhaseWait("space" not in m, "parity" in m, relaxed=_is_relaxed(m))


def _lower_wait(code: Lowering, i: Instruction, form: PhaseWait) -> Draft[PhaseWait]:
    done, at, phase, *_ = operands(i, 3, 4)  # a fourth is the longest time to wait
    return Draft(form, (code.slot(done, "pred"),), (code.source(phase, "u32" if form.parity else "b64"),),
                 (code.pointer(at),), _ACCESS)  # fmt: skip


def _wait(machine: Execution, step: Bundle[PhaseWait], lanes: Lanes) -> None:
    mine, index = places(machine, step, lanes, step.detail.generic)
    done = step.detail.complete(machine, step, lanes, index)
    barriers = machine.unit(MBarriers)
    barriers.asked_again(lanes)
    barriers.repeated[mine] = np.where(done, -1, step.first.position)
    barriers.note(step.first, mine, index)
    if not step.detail.relaxed or machine.lowered.fact(has_fences):
        barriers.acquire(mine[done], index[done], step.detail.waited(machine, step, lanes, index)[done])
    machine.put(step.targets[0], lanes, done)


# -- pending_count ------------------------------------------------------------------------------------


def _lower_pending(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    count, found = operands(i, 2)
    return Draft(None, (code.slot(count, "u32"),), (code.source(found, "b64"),))


def _pending(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    machine.put(step.targets[0], lanes, pending_count(np.asarray(machine.fetch(step.sources[0], lanes), np.uint64)))


# -- records ------------------------------------------------------------------------------------------

_WHERE = {"space": "shared shared::cta"}
_CLUSTER = {"space": "shared shared::cta shared::cluster"}
_ORDER = {"order": "release acquire relaxed", "scope": "cta cluster"}
_COMMON: dict[str, Any] = {
    "bundling": Bundling.BOUNDARY,
    "counts": Counted(Profiled(Mix.BARRIER)),
    "partial_order": True,
}

RECORDS = (
    Record("mbarrier.init.space?.b64", where=_WHERE, decode=_decode_place, lower=_lower_init, execute=_init,
           called="mbarrier.init", verb="initialisation", **_COMMON),
    Record("mbarrier.inval.space?.b64", where=_WHERE, decode=_decode_place, lower=_lower_inval, execute=_inval,
           called="mbarrier.inval", verb="invalidation", **_COMMON),
    Record("mbarrier.op.expect_tx?.noComplete?.order?.scope?.space?.b64",
           where={**_CLUSTER, **_ORDER, "op": "arrive arrive_drop"},
           decode=_decode_arrive, lower=_lower_arrive, execute=_arrive, called="mbarrier.arrive", verb="arrival",
           **_COMMON),
    Record("mbarrier.expect_tx.order?.scope?.space?.b64", where={**_CLUSTER, **_ORDER}, decode=_decode_place,
           lower=_lower_bytes, execute=_expect, called="mbarrier.expect_tx", verb="arrival", **_COMMON),
    Record("mbarrier.complete_tx.order?.scope?.space?.b64", where={**_CLUSTER, **_ORDER}, decode=_decode_place,
           lower=_lower_bytes, execute=_complete, called="mbarrier.complete_tx", verb="arrival", **_COMMON),
    Record("mbarrier.op.parity?.order?.scope?.space?.b64",
           where={**_WHERE, **_ORDER, "op": "test_wait try_wait"},
           decode=_decode_wait, lower=_lower_wait, execute=_wait, called="mbarrier wait", verb="wait",
           waits_on=Wait.EVENT, **_COMMON),
    Record("mbarrier.pending_count.b64", decode=no_form, lower=_lower_pending, execute=_pending),
)  # fmt: skip
