"""The instruction table: what patterns match, and that a new instruction is one record and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import SCHEDULES, kernel, scheduled

from gemmsmith.errors import SimulationError, UnknownInstructionError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.device import LoadedPtx, SimDevice
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.lanewise import lanewise
from gemmsmith.sim.instructions.pattern import Modifiers, Pattern
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.instructions.table import Table, table
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.lower import lower
from gemmsmith.sim.lowering.places import Lowering, Refused
from gemmsmith.sim.lowering.traits import Access, Bundling, Counted, Effect, Mix, Profiled, Quantity, Space, Wait
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.races.hazards import HazardError
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.sim.wave import WARP

# -- patterns -----------------------------------------------------------------------------------------

CHOICES = {"order": "weak volatile", "space": "global shared::cta", "hint": "nc L2::*", "vec": "v2 v4",
           "type": "u32 f32"}  # fmt: skip
LOAD = Pattern("ld.order?.space?.hint*.vec?.type", CHOICES)
CONVERT = Pattern("cvt.sat?.to.from", {"to": "u32 f32", "from": "u32 f32"})


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (LOAD, "ld.f32", {"type": "f32"}),
        (LOAD, "ld.shared::cta.v4.u32", {"space": "shared::cta", "vec": "v4", "type": "u32"}),
        (LOAD, "ld.volatile.global.nc.L2::128B.f32", {"order": "volatile", "space": "global", "type": "f32"}),
        (LOAD, "ld.v2.nc.global.f32", {"vec": "v2", "space": "global", "type": "f32"}),  # optional: in any order
        (LOAD, "ld.global", None),
        (LOAD, "ld.global.global.f32", None),
        (LOAD, "ld.acquire.global.f32", None),
        (LOAD, "ld.f32.u32", None),
        (CONVERT, "cvt.u32.f32", {"to": "u32", "from": "f32"}),
        (CONVERT, "cvt.sat.f32.u32", {"sat": "sat", "to": "f32", "from": "u32"}),
        (CONVERT, "cvt.u32", None),
        (CONVERT, "cvt.u32.f32.f32", None),
        (CONVERT, "cvt.sat.sat.u32.f32", None),
    ],
)
def test_a_pattern_matches_modifiers(pattern: Pattern, name: str, found: Modifiers | None) -> None:
    assert pattern.match(name) == found


def test_required_words_stand_in_order() -> None:
    pattern = Pattern("cp.async.cache.shared.global", {"cache": "ca cg"})
    assert pattern.match("cp.async.ca.shared.global") is not None
    assert pattern.match("cp.async.ca.global.shared") is None


def test_a_choice_for_a_word_that_the_pattern_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no word mode"):
        Pattern("shf.side.b32", {"side": "l r", "mode": "wrap"}).match("shf.l.b32")


def test_the_patterns_of_the_table_are_sound() -> None:
    for entry in (*table().records, *table().composites):
        assert entry.matcher.match("nothing.at.all") is None


# -- a new instruction --------------------------------------------------------------------------------

METRIC = "smsp__inst_executed_op_ballot.sum"


def _lower_ballot(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    if len(i.operands) != 3:
        raise Refused
    target, value, members = i.operands
    return Draft(None, (code.slot(target, "b32"),), (code.source(value, "pred"), code.source(members, "u32")))


def _ballot(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    mine = machine.indices(lanes)
    votes = np.zeros(int(machine.warp[-1]) + 1, np.uint32)
    bits = machine.spread(machine.fetch(step.sources[0], lanes), lanes).astype(np.uint32)
    np.bitwise_or.at(votes, machine.warp[mine], bits << (machine.thread[mine] % WARP).astype(np.uint32))
    machine.put(step.targets[0], lanes, votes[machine.warp[mine]])


BALLOT = Record("new_ballot.sync.b32", decode=no_form, lower=_lower_ballot, execute=_ballot, called="new_ballot.sync",
                waits_on=Wait.MEMBERS, bundling=Bundling.BOUNDARY,
                counts=Counted(Profiled(Mix.COMPARE, metrics=((METRIC, Quantity.EXECUTED),))))  # fmt: skip


def _lower_clear(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    return Draft(None, pointers=(code.pointer(i.operands[0]),), access=Access(Space.SHARED, Effect.WRITE, 8, 8, 8))


def _clear(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    _, addresses = machine.place_of(step, lanes)
    index = machine.shared.index(addresses, machine.shared_base[lanes], 8)
    zeros = np.zeros(index.shape, np.uint64)
    machine.shared.scatter(index, 8, zeros)
    if machine.shadow is not None:
        for operation, row, values in zip(
            step.operations, index.reshape(step.count, -1), zeros.reshape(step.count, -1), strict=True
        ):
            machine.shadow.write(operation, machine.indices(lanes), row, values)


CLEAR = Record("new_clear.shared.b64", decode=no_form, lower=_lower_clear, execute=_clear, verb="clearing")
HALVE = lanewise("new_halve.type", "type -> type", lambda a: a // 2, where={"type": "u32 s32"})
EXTENDED = Table((*table().records, BALLOT, CLEAR, HALVE))
ROOM = ".shared .align 16 .b8 room[2048];"
BALLOTS = """setp.lt.u32 %p1, %t, 5; setp.lt.u32 %p2, %t, 16; mul.wide.u32 %d1, %t, 4; add.s64 %d1, %d1, %b0;
@%p2 bra LOW;
bra NEXT;
LOW: add.u32 %r2, %r2, 1;
NEXT: new_ballot.sync.b32 %r1, %p1, -1; new_halve.u32 %r1, %r1; st.global.u32 [%d1], %r1;"""


def run(device: SimDevice, body: str, threads: int = 64) -> list[int]:
    """Run a body with the extended table; buffer 0 afterwards."""
    entry = parse(kernel(body, 1, ROOM)).entry("k")
    loaded = LoadedPtx(entry, lower(entry, {}, known=EXTENDED))
    address = device.allocate(4 * threads)
    device.launch(loaded, Launch(Geometry((1, 1, 1), (threads, 1, 1)), (address.to_bytes(8, "little"),)))
    device.synchronize()
    values: list[int] = device.read(address, 4 * threads).view(np.uint32).tolist()
    return values


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_it_waits_executes_and_is_counted(schedule: tuple[str, int]) -> None:
    device = SimDevice(schedule=scheduled(schedule), count=True)
    assert run(device, BALLOTS) == [0b11111 // 2] * 32 + [0] * 32
    assert device.counters is not None
    found = [(o.profiled.mix, device.counters.metrics(o, c)) for o, c in device.counters.items() if o.traits is BALLOT]
    assert found == [(Mix.COMPARE, {METRIC: 2})]


def test_a_fault_calls_it_by_its_name() -> None:
    with pytest.raises(SimulationError) as caught:
        run(SimDevice(), "@%p1 bra END; new_ballot.sync.b32 %r1, %p1, 0xFFFE;\nEND: ret;")
    assert caught.value.message == "new_ballot.sync by a lane that its own member mask leaves out"
    with pytest.raises(SimulationError, match="misaligned shared clearing of 8 bytes at address 0x4"):
        run(SimDevice(), "mov.u32 %r1, 4; new_clear.shared.b64 [%r1];")


def test_a_race_calls_it_by_its_verb() -> None:
    body = "shl.b32 %r1, %t, 3; new_clear.shared.b64 [%r1];\nxor.b32 %r1, %r1, 8; ld.shared.u64 %d2, [%r1];"
    with pytest.raises(HazardError) as caught:
        run(SimDevice(hazards=True, schedule=schedule_named("lockstep")), body)
    (hazard,) = caught.value.hazards
    assert (hazard.first.verb, hazard.second.verb) == ("clearing", "read")


def test_the_usual_table_does_not_know_it() -> None:
    with pytest.raises(UnknownInstructionError, match=r"'new_halve\.u32'"):
        SimDevice().load_ptx(kernel("new_halve.u32 %r1, %t;", 0), "k")
