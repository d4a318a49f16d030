"""Products and sums become fma exactly where ptxas makes them so.

The expectations are what ptxas 13.0 made of these programs for sm_90a: its FFMA, FMUL and FADD.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from ptx_launch import launch

from gemmsmith.sim.lowering.contraction import contract
from gemmsmith.sim.lowering.linking import link
from gemmsmith.sim.ptx.reader import parse

HEAD = """.version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {
.reg .f32 %f<60>; .reg .b64 %rd<10>; .reg .pred %p<8>; .reg .b32 %r<20>; .reg .f64 %d<10>; .reg .b16 %h<20>;
ld.param.u64 %rd1,[p]; ld.param.u32 %r1,[n]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2,%r2,64; add.s64 %rd3,%rd1,%rd2;
ld.volatile.global.f32 %f1,[%rd3]; ld.volatile.global.f32 %f2,[%rd3+4]; ld.volatile.global.f32 %f3,[%rd3+8];
ld.volatile.global.f32 %f4,[%rd3+12]; ld.volatile.global.f32 %f5,[%rd3+16]; setp.lt.u32 %p1,%r2,%r1;
"""
M, N = "mul.f32 %f10,%f1,%f2; ", "mul.f32 %f11,%f3,%f4; "
S = "st.volatile.global.f32 [%rd3],"
# The program, and which instructions stay: f for fma, m for mul, a for add and sub, d for a division.
PROGRAMS: dict[str, tuple[str, str]] = {
    "one use": (M + f"add.f32 %f12,%f10,%f3; {S}%f12;", "f"),
    "subtracted": (M + f"sub.f32 %f12,%f3,%f10; {S}%f12;", "f"),
    "two sums": (M + f"add.f32 %f12,%f10,%f3; sub.f32 %f13,%f4,%f10; {S}%f12; {S}%f13;", "ff"),
    "another use": (M + f"add.f32 %f12,%f10,%f3; {S}%f12; {S}%f10;", "ma"),
    "two products": (M + N + f"add.f32 %f12,%f10,%f11; {S}%f12;", "mf"),
    "a product with one use comes first": (
        M + N + f"add.f32 %f12,%f10,%f11; add.f32 %f13,%f10,%f5; {S}%f12; {S}%f13;", "mfa"),
    "one use comes first, also later": (
        M + N + f"add.f32 %f13,%f11,%f5; add.f32 %f12,%f10,%f11; {S}%f12; {S}%f13;", "maf"),
    "both have two uses": (M + N + f"add.f32 %f12,%f10,%f11; sub.f32 %f13,%f11,%f10; {S}%f12; {S}%f13;", "mff"),
    "twice the product": (M + f"add.f32 %f12,%f10,%f10; {S}%f12;", "ma"),
    "a rounding mode of the product": (f"mul.rn.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; {S}%f12;", "ma"),
    "a rounding mode of the sum": (M + f"add.rn.f32 %f12,%f10,%f3; {S}%f12;", "ma"),
    "ftz of both": (f"mul.ftz.f32 %f10,%f1,%f2; add.ftz.f32 %f12,%f10,%f3; {S}%f12;", "f"),
    "ftz of one": (f"mul.ftz.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; {S}%f12;", "ma"),
    "a saturated sum": (M + f"add.sat.f32 %f12,%f10,%f3; {S}%f12;", "f"),
    "a guarded sum": (M + f"mov.f32 %f12,%f3; @%p1 add.f32 %f12,%f10,%f4; {S}%f12;", "f"),
    "a guarded product": (f"mov.f32 %f10,%f5; @%p1 mul.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f4; {S}%f12;", "ma"),
    "a barrier between": (M + f"bar.sync 0; add.f32 %f12,%f10,%f3; {S}%f12;", "f"),
    "a jump between": (M + f"@%p1 exit; add.f32 %f12,%f10,%f3; {S}%f12;", "ma"),
    "a label that is jumped to": (M + f"@%p1 bra L; {S}%f4; L: add.f32 %f12,%f10,%f3; {S}%f12;", "ma"),
    "a label that is not": (M + f"L: add.f32 %f12,%f10,%f3; {S}%f12;", "f"),
    "an operand is overwritten": (M + f"add.f32 %f1,%f1,%f5; add.f32 %f12,%f10,%f3; {S}%f12; {S}%f1;", "af"),
    "a division": (f"div.full.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; {S}%f12;", "d"),
    "a division with another use": (f"div.full.f32 %f10,%f1,%f2; add.f32 %f12,%f10,%f3; {S}%f12; {S}%f10;", "da"),
    "fp64": ("cvt.f64.f32 %d1,%f1; cvt.f64.f32 %d2,%f2; mul.f64 %d3,%d1,%d2; sub.f64 %d4,%d1,%d3; "
             "st.global.f64 [%rd3],%d4;", "f"),
    "fp16": ("cvt.rn.f16.f32 %h1,%f1; cvt.rn.f16.f32 %h2,%f2; mul.f16 %h3,%h1,%h2; sub.f16 %h4,%h1,%h3; "
             "st.global.b16 [%rd3],%h4;", "f"),
    "bf16x2": ("mov.b32 %r4,%f1; mov.b32 %r5,%f2; mul.bf16x2 %r6,%r4,%r5; add.bf16x2 %r7,%r6,%r4; "
               "st.global.b32 [%rd3],%r7;", "f"),
}  # fmt: skip
LETTERS = {"fma": "f", "mul": "m", "add": "a", "sub": "a", "div": "d"}
FLOATS = ("f32", "f64", "f16", "bf16x2")


def kept(body: str) -> str:
    """The letters of what stays, in order."""
    entry = contract(link(parse(HEAD + body + " ret; }").entry("k")))
    return "".join(LETTERS[i.opcode] for i in entry.instructions
                   if i.opcode in LETTERS and i.name.endswith(FLOATS))  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_contracted(name: str) -> None:
    body, expected = PROGRAMS[name]
    assert kept(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mul.f32 %f10,%f1,%f2; sub.f32 %f12,%f10,%f3;", 2.0**-24),
        ("mul.f32 %f10,%f1,%f2; sub.f32 %f12,%f3,%f10;", -(2.0**-24)),
        ("mul.rn.f32 %f10,%f1,%f2; sub.f32 %f12,%f10,%f3;", 0.0),
        ("mul.f32 %f10,%f1,%f2; mov.f32 %f1,%f3; sub.f32 %f12,%f10,%f1;", 2.0**-24),
    ],
)
def test_a_contracted_product_is_rounded_once(body: str, expected: float) -> None:
    """(1 + 2⁻¹²)² − (1 + 2⁻¹¹) is 2⁻²⁴; the product alone rounds to 1 + 2⁻¹¹."""
    data = np.array([1 + 2.0**-12, 1 + 2.0**-11], np.float32)
    loads = "ld.global.f32 %f1,[%b0]; mov.f32 %f2,%f1; ld.global.f32 %f3,[%b0+4];"
    (found,) = launch(f"{loads} {body} st.global.f32 [%b0],%f12;", data, block=(1, 1, 1))
    assert found[0] == expected


def test_a_contracted_division_is_rounded_once() -> None:
    """x/3 + c by fma of the reciprocal, as ptxas has it."""
    data = np.array([7.0, 3.0, -2.0], np.float32)
    (found,) = launch("""ld.global.f32 %f1,[%b0]; ld.global.f32 %f2,[%b0+4]; ld.global.f32 %f3,[%b0+8];
rcp.approx.f32 %f4,%f2; fma.rn.f32 %f5,%f4,%f1,%f3; div.full.f32 %f6,%f1,%f2; add.f32 %f7,%f6,%f3;
mul.rn.f32 %f8,%f4,%f1; add.f32 %f9,%f8,%f3;
st.global.f32 [%b0],%f5; st.global.f32 [%b0+4],%f7; st.global.f32 [%b0+8],%f9;""", data, block=(1, 1, 1))  # fmt: skip
    assert found[1] == found[0] != found[2]


def random_program(seed: int) -> str:
    """Up to three blocks of products, sums and other uses; every value is used."""
    choose, lines, values = random.Random(seed), [], [f"%f{i}" for i in range(1, 6)]
    unused: list[str] = []
    for block in range(choose.choice((1, 1, 2, 3))):
        for _ in range(choose.randint(4, 12)):
            name = choose.choice(("mul", "mul", "mul", "add", "add", "sub", "sub", "max", "mul.ftz", "add.ftz"))
            a = choose.choice(unused[-3:] or values[-6:])
            b = choose.choice(values[-6:] if choose.random() < 0.4 else values[:5])
            values.append(f"%f{len(values) + 5}")
            lines.append(f"{name}.f32 {values[-1]},{a},{b};")
            unused = [value for value in unused if value not in (a, b)] + [values[-1]]
        lines.append(f"@%p1 bra L{block}; {S}{choose.choice(values)}; L{block}:")
    return "\n".join(lines + [S + value + ";" for value in unused])


# How many FFMA ptxas made of the random programs, by seed.
RECORDED = (1, 0, 2, 1, 1, 1, 2, 3, 1, 5, 1, 1, 2, 3, 1, 1, 2, 2, 0, 0, 0, 2, 2, 2)


@pytest.mark.parametrize("seed", range(len(RECORDED)))
def test_random_programs_are_contracted_as_by_ptxas(seed: int) -> None:
    assert kept(random_program(seed)).count("f") == RECORDED[seed]
