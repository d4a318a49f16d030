"""Bundling changes how many NumPy calls a program takes, never what it computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ptx_launch import Array, kernel

from gemmsmith.sim.bundle import Program
from gemmsmith.sim.lowering.lower import lower
from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.lowering.traits import Bundling, Effect
from gemmsmith.sim.machine import Machine
from gemmsmith.sim.memory.global_memory import GlobalMemory
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.sim.wave import Wave

LANES = 64
MANY = 1 << 10  # operations of a bundle
WORDS = 8  # registers, words of each thread's global and shared memory
ROOM = ".shared .align 16 .b8 room[2048];"
PROLOGUE = """mul.wide.u32 %d1, %t, 32; add.s64 %d2, %d1, %b1; add.s64 %d1, %d1, %b0; shl.b32 %r20, %t, 5;
ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d1]; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d1+16];
st.shared.v4.u32 [%r20], {%r3, %r2, %r1, %r0}; st.shared.v4.u32 [%r20+16], {%r7, %r6, %r5, %r4};
setp.lt.u32 %p0, %r0, %r1; setp.lt.u32 %p1, %r2, %r3;
"""
EPILOGUE = """
st.global.v4.u32 [%d2], {%r0, %r1, %r2, %r3}; st.global.v4.u32 [%d2+16], {%r4, %r5, %r6, %r7};
"""

register = st.integers(0, WORDS - 1).map(lambda i: f"%r{i}")
operand = register | st.integers(-9, 9).map(str)
place = st.integers(0, 3).map(lambda i: 4 * i)
guard = st.sampled_from(["", "", "", "@%p0 ", "@!%p0 ", "@%p1 "])
wide = st.sampled_from([0, 16])


def _statement(draw: st.DrawFn) -> str:
    a, b, c, d = draw(register), draw(operand), draw(operand), draw(register)
    at = draw(place)
    shape = draw(st.integers(0, 7) | st.integers(8, 13))  # as much memory as arithmetic
    if shape <= 4:
        name = ("add.u32", "sub.u32", "xor.b32", "min.s32", "mul.lo.u32")[shape]
        return f"{name} {a}, {d}, {b};"
    quad = ", ".join(f"%r{i}" for i in ((0, 1, 2, 3), (4, 5, 6, 7), (6, 1, 3, 4))[draw(st.integers(0, 2))])
    return {
        5: f"mad.lo.u32 {a}, {d}, {b}, {c};",
        6: f"setp.{draw(st.sampled_from(['lt', 'eq', 'ge']))}.u32 %p{draw(st.integers(0, 1))}, {d}, {b};",
        7: f"selp.b32 {a}, {b}, {c}, %p0;",
        8: f"ld.global.u32 {a}, [%d1+{at}];",
        9: f"st.global.u32 [%d1+{at}], {b};",
        10: f"ld.shared.u32 {a}, [%r20+{at}];",
        11: f"st.shared.u32 [%r20+{at}], {b};",
        12: f"ld.shared.v4.u32 {{{quad}}}, [%r20+{draw(wide)}];",
        13: f"cp.async.ca.shared.global [%r20+{at}], [%d1+{draw(place)}], 4;",
    }[shape]  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Straight-line code over eight registers, two predicates and a thread's own memory."""
    return "\n".join(draw(guard) + _statement(draw) for _ in range(draw(st.integers(1, 40))))


def lowered(body: str) -> Lowered:
    return lower(parse(kernel(PROLOGUE + body + EPILOGUE, 2, ROOM)).entry("k"), {})


def one_at_a_time(code: Lowered) -> Program:
    """The reference: every operation a bundle of its own, in the order written."""
    program = Program(code, 1)
    for n, operation in enumerate(code.operations):
        alone = replace(operation, traits=replace(operation.traits, bundling=Bundling.BOUNDARY))
        program.bundles[n] = Program(replace(code, operations=(*code.operations[:n], alone)), 1).step(n)
    return program


def execute(code: Lowered, program: Program) -> tuple[Array, Array]:
    memory = GlobalMemory()
    inputs = np.random.default_rng(5).integers(0, 12, LANES * WORDS, dtype=np.uint32)
    addresses = [memory.allocate(inputs.nbytes) for _ in range(2)]
    memory.view(addresses[0], inputs.nbytes)[:] = inputs.view(np.uint8)
    parameters = b"".join(a.to_bytes(8, "little") for a in addresses)
    wave = Wave((1, 1, 1), (LANES, 1, 1), np.arange(1), 2048, parameters)
    machine = Machine(code, program, wave, memory, schedule_named("lockstep"))
    with np.errstate(all="ignore"):
        machine.run()
    return (
        np.concatenate([memory.view(a, inputs.nbytes) for a in addresses]).copy(),
        machine.shared.data.copy(),
    )


def each_has_the_same_bits(body: str, most: int) -> None:
    code = lowered(body)
    wanted, found = execute(code, one_at_a_time(code)), execute(code, Program(code, most))
    assert np.array_equal(wanted[0], found[0])
    assert np.array_equal(wanted[1], found[1])


def _programs(count: int) -> None:
    some = settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    some(given(programs(), st.sampled_from([1, 2, 3, 5, 8, 1 << 10]))(each_has_the_same_bits))()


def test_random_programs_give_the_same_bits() -> None:
    _programs(40)


def test_many_more_random_programs_give_the_same_bits() -> None:
    _programs(150)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs(), st.sampled_from([1, 4, 1 << 10]))
def test_every_operation_runs_exactly_once(body: str, most: int) -> None:
    code = lowered(body)
    program = Program(code, most)
    ran = [operation.position for step in program.steps() for operation in step.operations]
    assert sorted(ran) == list(range(len(code.operations)))
    assert max(step.count for step in program.steps()) <= most


def test_an_outer_product_becomes_one_bundle() -> None:
    body = "\n".join(f"fma.rn.f32 %f{4 * i + j}, %r{i}, %r{4 + j}, %f{4 * i + j};" for i in range(4) for j in range(4))
    program = Program(lowered(body), MANY)
    assert [step.count for step in program.steps() if step.first.instruction.opcode == "fma"] == [16]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mov.u32 %r1, 5;", "add.u32 %r2, %r1, 1;"),
        ("add.u32 %r2, %r1, 1;", "mov.u32 %r1, 5;"),
        ("mov.u32 %r1, 5;", "mov.u32 %r1, 6;"),
        ("setp.eq.u32 %p0, %r1, 0;", "@%p0 mov.u32 %r2, 6;"),
        ("@%p0 mov.u32 %r2, 6;", "setp.eq.u32 %p0, %r1, 0;"),
        ("st.shared.u32 [%r20], %r1;", "ld.shared.u32 %r2, [%r20];"),
        ("ld.shared.u32 %r2, [%r20];", "st.shared.u32 [%r20], %r1;"),
        ("st.global.u32 [%d1], %r1;", "st.global.u32 [%d1], %r2;"),
        ("ld.shared.u32 %r2, [%r20];", "cp.async.ca.shared.global [%r20], [%d1], 4;"),
        ("st.global.u32 [%d1], %r1;", "cp.async.ca.shared.global [%r20], [%d1], 4;"),
        ("cp.async.ca.shared.global [%r20], [%d1], 4;", "ld.shared.u32 %r2, [%r20];"),
        ("cp.async.ca.shared.global [%r20], [%d1], 4;", "st.global.u32 [%d1], %r1;"),
    ],
)
def test_a_dependency_is_kept(first: str, second: str) -> None:
    program = Program(lowered(f"{first}\n{second}"), MANY)
    step_of = {o.instruction.text: n for n, step in enumerate(program.steps()) for o in step.operations}
    assert step_of[first.rstrip(";")] < step_of[second.rstrip(";")]


def test_a_load_does_not_join_one_from_before_a_copy() -> None:
    copy, late = "cp.async.ca.shared.global [%r20], [%d1], 4", "ld.shared.u32 %r3, [%r20]"
    program = Program(lowered(f"ld.shared.u32 %r2, [%r20+4];\n{copy};\n{late};"), MANY)
    step_of = {o.instruction.text: n for n, step in enumerate(program.steps()) for o in step.operations}
    assert step_of[copy] < step_of[late]


def test_two_copies_in_a_row_may_run_together() -> None:
    copies = [f"cp.async.ca.shared.global [%r20+{4 * i}], [%d1+{4 * i}], 4;" for i in range(4)]
    program = Program(lowered("\n".join(copies)), MANY)
    assert [step.count for step in program.steps() if step.access and step.access.effect is Effect.COPY] == [4]
