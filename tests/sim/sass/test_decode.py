"""Every instruction prints as nvdisasm printed it, and the control bits say what its text and its neighbours say."""

from __future__ import annotations

import re

import pytest

from gemmsmith.call.binding import aligned_code
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import listing
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, Problem
from gemmsmith.sim.sass.control import Control
from gemmsmith.sim.sass.reader import Routine, read_instruction, read_listing
from gemmsmith.sim.sass.syntax import Register

# A kernel and an architecture each: before and after the architectures that are executed, too.
CODES = [("shared_tile", "sm_75"), ("async_copy", "sm_80"), ("vectorized", "sm_89"), ("mma_swizzled", "sm_90"),
         ("wgmma_tma", "sm_90a"), ("shared_tile", "sm_100"), ("register_block", "sm_120")]  # fmt: skip


def printed(name: str, arch: str) -> str:
    spec = rung_named(name)
    problem = Problem(256, 256, 256, spec.dtypes[0], FP32)
    config, seen = aligned_code(spec, spec.config(), problem)
    return listing(compile_for(spec, config, seen, arch).cubin, "--print-code", "--print-line-info", "-hex")


@pytest.mark.parametrize(("name", "arch"), CODES)
def test_instructions_print_as_they_were_printed(name: str, arch: str) -> None:
    text = printed(name, arch)
    (routine,) = read_listing(text).values()
    rows = re.findall(r"^\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;?\s*/\* 0x", text, re.MULTILINE)
    assert len(rows) == len(routine.instructions) > 20
    for row, instruction in zip(rows, routine.instructions, strict=True):
        assert str(instruction) == re.sub(r"\s+", " ", row.strip("{} ")).replace(" ,", ",")
    assert [i.offset for i in routine.instructions] == list(range(0, 16 * len(rows), 16))
    assert all(i.encoding >> 64 and i.encoding % (1 << 64) for i in routine.instructions)
    assert any(i.line for i in routine.instructions)


@pytest.mark.parametrize(("name", "arch"), CODES[:4])
def test_control_bits_agree_with_the_code(name: str, arch: str) -> None:
    (routine,) = read_listing(printed(name, arch)).values()
    for i in routine.instructions:
        marked = sum("reuse" in o.suffixes for o in i.operands if isinstance(o, Register))
        assert marked == len(i.control.reuse), str(i)
    loads = _loads_and_first_use(routine)
    assert len(loads) > 2
    for barrier, waited in loads:
        assert barrier is not None
        assert barrier in waited


def _loads_and_first_use(routine: Routine) -> list[tuple[int | None, set[int]]]:
    """For each global load without a branch before its first use: its scoreboard, and those waited for until then."""
    found = []
    for n, load in enumerate(routine.instructions):
        target = load.operands[0] if load.operands else None
        if load.opcode != "LDG" or not isinstance(target, Register):
            continue
        waited: set[int] = set()
        for later in routine.instructions[n + 1 :]:
            waited |= set(later.control.wait)
            if later.opcode in ("BRA", "EXIT", "BSYNC", "BSSY"):
                break
            uses = [o for o in later.operands[1:] if isinstance(o, Register)]
            if any((o.file, o.number) == ("R", target.number) for o in uses):
                found.append((load.control.write_barrier, waited))
                break
    return found


def test_the_fields_of_the_control_bits() -> None:
    bits = 5 | 1 << 4 | 2 << 5 | 3 << 8 | 0b000110 << 11 | 0b0101 << 17
    assert Control.of(bits << 105) == Control(5, True, 2, 3, (1, 2), (0, 2))
    assert Control.of((7 << 5 | 7 << 8) << 105) == Control(0, False, None, None, (), ())


def test_operands() -> None:
    i = read_instruction('@!UP2 LDGSTS.E.BYPASS.128 [R3+UR4+0x4000], desc[UR8][R8.64+-0x10], !P6', 0, 0)  # fmt: skip
    assert str(i) == "@!UP2 LDGSTS.E.BYPASS.128 [R3+UR4+0x4000], desc[UR8][R8.64+-0x10], !P6"
    assert i.guard == Register("UP", 2, "!")
    assert i.modifiers == ("E", "BYPASS", "128")
    assert read_instruction("FSETP.GEU.AND P1, PT, |R3|.reuse, +INF , PT", 0, 0).operands[2] == Register(
        "R", 3, "", True, ("reuse",)
    )
    spilled = read_instruction('STL [R1+0xc], R2, (*"SpillRefill"*)', 0, 0)
    assert len(spilled.operands) == 2
    assert str(spilled) == 'STL [R1+0xc], R2, (*"SpillRefill"*)'
    half = "HMUL2 R0, R0.H0_H0, c[0x0] [0x174].H1_H1"
    assert len(read_instruction(half, 0, 0).operands) == 3
    assert str(read_instruction(half, 0, 0)) == half
