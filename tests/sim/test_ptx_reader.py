"""The PTX reader: declarations, scopes, literals, source positions, several entries."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import launch, words

from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.sim.ptx.syntax import Address, Entry, Immediate, Negated, Register, Sampled, Symbol, Vector


def entry(body: str, before: str = "") -> Entry:
    text = (
        f'.version 8.7\n.target sm_90a, debug\n.address_size 64\n.file 1 "/a/b/k.cu"\n{before}\n.entry k()\n{{{body}}}'
    )
    return parse(text).entry("k")


def test_version_and_target() -> None:
    module = parse(
        ".version 8.7\n.target sm_90a, debug\n.entry a() { ret; }\n.visible .entry b(.param .u32 x) { ret; }"
    )
    assert (module.version, module.target) == ("8.7", "sm_90a")
    assert [e.name for e in module.entries] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("7", Immediate(7, "int")),
        ("-7", Immediate(-7, "int")),
        ("0x1F", Immediate(31, "int")),
        ("017", Immediate(15, "int")),
        ("0", Immediate(0, "int")),
        ("4294967295U", Immediate(4294967295, "int")),
        ("0f3F800000", Immediate(0x3F800000, "f32")),
        ("0dBFF0000000000000", Immediate(0xBFF0000000000000, "f64")),
        ("%tid.x", Symbol("%tid.x")),
        ("%r1", Register("%r1")),
        ("{%r1, %r2}", Vector((Register("%r1"), Register("%r2")))),
        ("[%r1]", Address(Register("%r1"), 0)),
        ("[%r1+8]", Address(Register("%r1"), 8)),
        ("[%r1+-8]", Address(Register("%r1"), -8)),
        ("[%r1-8]", Address(Register("%r1"), -8)),
        ("[room+0x10]", Address(Symbol("room"), 16)),
        ("[64]", Address(None, 64)),
        ("!%p1", Negated(Register("%p1"))),
        ("[map, {%r1, %r2}]", Sampled(Symbol("map"), Vector((Register("%r1"), Register("%r2"))))),
    ],
)
def test_operands(text: str, wanted: object) -> None:
    (instruction,) = entry(f".reg .b32 %r<4>; .reg .pred %p<2>; anything.b32 {text};").instructions
    assert instruction.operands == (wanted,)


@pytest.mark.parametrize(
    ("text", "space", "align", "size"),
    [
        (".shared .align 16 .b8 x[48];", "shared", 16, 48),
        (".shared .f32 x[4];", "shared", 4, 16),
        (".local .align 8 .b8 x[24];", "local", 8, 24),
        (".shared .u64 x;", "shared", 8, 8),
    ],
)
def test_variables(text: str, space: str, align: int, size: int) -> None:
    (variable,) = entry(f"{text}\nret;").variables
    assert (variable.space, variable.align, variable.size, variable.name) == (space, align, size, "x")


def test_initial_values() -> None:
    (variable,) = entry("ret;", ".global .align 4 .u32 x[4] = {1, -1, 0xFF};").variables
    assert np.frombuffer(variable.initial, np.uint32).tolist() == [1, 0xFFFFFFFF, 255, 0]


def test_comments_functions_and_pragmas_are_skipped() -> None:
    before = "// .entry fake() {\n.func (.param .b32 r) helper(.param .b32 a) { ret; }\n/* .entry also() { */"
    read = entry('.pragma "nounroll";\n// mov.u32 %r1, 1;\nret;', before)
    assert [i.opcode for i in read.instructions] == ["ret"]


def test_source_positions() -> None:
    read = entry("ret;\n.loc 1 12 3\nret;\n.loc 1 0 0\nret;\n.loc 1 14 1, function_name $L, inlined_at 1 9 2\nret;")
    assert [(i.file, i.line) for i in read.instructions] == [("", 0), ("k.cu", 12), ("k.cu", 12), ("k.cu", 14)]
    assert [i.where for i in read.instructions][:2] == ["an unknown line", "k.cu:12"]


def test_registers_of_a_scope_hide_those_outside() -> None:
    """Inline assembly declares its own, by name or by number; the outer ones keep their values."""
    body = """
    mov.u32 %r1, 5; mov.u32 %r2, 6;
    { .reg .b32 %r<3>; mov.u32 %r1, 100; mov.u32 %r2, 200; }
    { .reg .b32 %r1, q; mov.u32 %r1, 300; mov.u32 q, %r1; }
    { .reg .b64 q; mov.u64 q, 7; st.global.u64 [%b0+8], q; }
    st.global.v2.u32 [%b0], {%r1, %r2};
    """
    assert launch(body, words(4))[0].tolist() == [5, 6, 7, 0]


def test_entries_do_not_share_registers_or_labels() -> None:
    text = ".entry a() { .reg .b32 x; L: mov.u32 x, 1; ret; } .entry b() { .reg .b64 x; L: mov.u64 x, 1; ret; }"
    module = parse(text)
    assert module.entry("a").registers == (("x", "b32"),)
    assert module.entry("b").registers == (("x", "b64"),)
    for name in "ab":
        SimDevice().load_ptx(text, name)


def test_a_line_of_a_header_names_the_call_in_the_kernels_own_file() -> None:
    body = (
        ".loc 1 30 3, function_name $L__s0, inlined_at 1 50 3\n"
        ".loc 2 7 1, function_name $L__s1, inlined_at 1 30 3\n"
        ".loc 3 9 1, function_name $L__s2, inlined_at 2 7 1\n"
        "ret;\n"
    )
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n" + body + "}\n"
        '.file 1 "mine.cu"\n.file 2 "outer.h"\n.file 3 "inner.h"\n'
    )
    (instruction,) = parse(text).entry("k").instructions
    assert instruction.where == "inner.h:9 (called at mine.cu:30)"


def test_a_load_without_a_line_belongs_to_what_uses_it() -> None:
    """The compiler gives line 0 to a load that several statements share; the line before it is another statement's."""
    read = entry(
        ".reg .f32 %f<9>;\n.loc 1 5 3\nst.shared.f32 [4], %f1;\n.loc 1 0 3\nld.shared.f32 %f2, [8];\n"
        "ld.shared.v2.f32 {%f3, %f4}, [16];\nld.shared.f32 %f5, [32];\n.loc 1 9 7\nfma.rn.f32 %f6, %f2, %f4, %f6;\n"
        ".loc 1 12 1\nst.global.f32 [%f2], %f6;"
    )
    lines = [(i.opcode, i.line, i.column) for i in read.instructions]
    assert lines[:4] == [("st", 5, 3), ("ld", 9, 7), ("ld", 9, 7), ("ld", 5, 3)]  # the last is used nowhere
