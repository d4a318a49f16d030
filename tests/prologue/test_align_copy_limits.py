"""The copy to rows that start on 16 bytes: faults, machine code, sizes, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from test_align_copy import BLOCK, LIMIT, READY, Case, compile_align_copy, loaded

from gemmsmith.compile import CompileCache, disassemble
from gemmsmith.errors import ProblemError, SimulationError, UnsupportedError
from gemmsmith.problem import FP16, Problem
from gemmsmith.prologue.align_copy import (
    ALIGN_COPY,
    AT_ONCE,
    CHUNK,
    AlignCopyOperand,
    align_copy_launch,
    packed_bytes,
    packed_ld,
)
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice

# --- faults and code


def test_a_byte_past_the_source_is_a_fault() -> None:
    """The checks above can fail: a launch for one row more than there is runs over the allocation's end."""
    device = SimDevice()
    source, target = device.allocate(2 * 5 * 20), device.allocate(packed_bytes(6, 20))
    operand = Case(5, 20).stored(source)
    device.launch(loaded(), Launch(*align_copy_launch(operand, READY.stored(0), target, 0)))
    wrong = align_copy_launch(replace(operand, shape=(6, 20)), READY.stored(0), target, 0)
    with pytest.raises(SimulationError, match="runs over its end"):
        device.launch(loaded(), Launch(*wrong))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a"])
def test_machine_code_moves_vectors_and_has_all_loads_in_flight(arch: str) -> None:
    compiled = compile_align_copy(arch)
    assert compiled.resources.stack == 0
    assert not compiled.resources.spills
    code = disassemble(compiled).instructions
    opcodes = [i.opcode for i in code]
    assert not [o for o in opcodes if o.startswith(("LDL", "STL", "LD.", "ST.", "LDS", "STS"))]
    loads = [n for n, o in enumerate(opcodes) if o.startswith("LDG.E.128")]
    stores = [n for n, o in enumerate(opcodes) if o.startswith("STG")]
    assert len(loads) == 2 * AT_ONCE  # both granules of each chunk
    assert {opcodes[n] for n in stores} == {"STG.E.128"}
    assert len(stores) >= AT_ONCE
    single = [n for n, o in enumerate(opcodes) if o.startswith("LDG") and n not in loads]
    assert {opcodes[n] for n in single} == {"LDG.E.U16"}  # the chunks at both ends of an operand
    assert len(single) % CHUNK == 0
    assert loads[-1] < stores[0]
    assert stores[AT_ONCE - 1] < single[0], "elements are read once everything else is written"
    if arch != "sm_80":
        assert [i.base for i in code].index("ACQBULK") < loads[0], "the launch before has ended"
    assert not [i.text for i in code[loads[0] : loads[-1]] if i.base in ("BRA", "BSYNC", "EXIT")]
    pending: set[str] = set()
    for n in range(loads[0], loads[-1] + 1):  # no load waits for the result of another
        assert not pending & set(re.findall(r"\bR\d+\b", code[n].text)), code[n].text
        if n in loads:
            first = int(code[n].operands[0].removeprefix("R"))
            pending |= {f"R{first + word}" for word in range(4)}
    assert len(pending) == 4 * len(loads)


def test_compiled_once_for_an_architecture(tmp_path: object) -> None:
    store = CompileCache(f"{tmp_path}/cache")
    fresh = compile_align_copy("sm_90", store)
    assert not fresh.cached
    assert fresh.entry == ALIGN_COPY.entry
    assert compile_align_copy("sm_90", store) == replace(fresh, cached=True)
    on_disk = compile_align_copy("sm_90", CompileCache(f"{tmp_path}/cache"))
    assert on_disk == replace(fresh, cached=True)
    assert store.info().entries == 1
    assert compile_align_copy("sm_80", store).key != fresh.key


@pytest.mark.parametrize(("cols", "expected"), [(1, 8), (7, 8), (8, 8), (9, 16), (4093, 4096)])
def test_packed_sizes(cols: int, expected: int) -> None:
    assert packed_ld(cols) == expected
    assert packed_bytes(3, cols, 2) == 2 * 3 * expected * 2


def test_the_specification_launches_both_operands() -> None:
    plain = Problem(1000, 500, 30, dtype=FP16)  # 1000 rows of 4 chunks, and 30 of 63
    assert ALIGN_COPY.geometry(plain, ALIGN_COPY.config()).grid == (8 + 4, 1, 1)
    transposed = plain.with_(trans_a=True)  # rows of 1000 elements are aligned
    assert ALIGN_COPY.geometry(transposed, ALIGN_COPY.config()).grid == (4, 1, 1)


# --- refusals

OPERAND = Case(4, 10).stored(4096)
TARGET = 8192


@pytest.mark.parametrize(
    ("changes", "target", "error", "words"),
    [
        ({"address": 4097}, TARGET, ProblemError, "source at 0x1001 does not start on 2 bytes"),
        ({"ld": 9}, TARGET, ProblemError, "leading dimension 9 is less than its 10 columns"),
        ({}, TARGET + 8, ProblemError, "target at 0x2008 does not start on 16 bytes"),
        ({"shape": (LIMIT // 2, 17), "ld": 17}, TARGET, UnsupportedError, "51,539,607,552 bytes exceed"),
        ({"shape": (LIMIT // 2, 10), "copies": 2, "stride": 1}, TARGET, UnsupportedError, "exceed the 34,359,738,368"),
        ({"shape": (1, 3), "copies": LIMIT + 1, "stride": 3}, TARGET, UnsupportedError, "34,359,738,384 bytes exceed"),
        ({"shape": (LIMIT - 1, LIMIT - 1), "ld": LIMIT - 1}, TARGET, UnsupportedError, "of a launch"),
    ],
)
@pytest.mark.parametrize("side", ["a", "b"])
def test_what_cannot_be_copied_is_refused(changes: dict[str, int], target: int, error: type[Exception], words: str,
                                          side: str) -> None:  # fmt: skip
    fine, operand = READY.stored(0), replace(OPERAND, **changes)  # type: ignore[arg-type]

    def launch(it: AlignCopyOperand, to: int) -> None:
        align_copy_launch(*((it, fine, to, 0) if side == "a" else (fine, it, 0, to)))

    launch(OPERAND, TARGET)
    with pytest.raises(error, match=words):
        launch(operand, target)


def test_the_most_that_is_copied() -> None:
    for operand in (Case(LIMIT // 2, 10), Case(LIMIT, 3), Case(1, 3, copies=LIMIT)):
        stored = operand.stored(4098)
        assert align_copy_launch(stored, stored, TARGET, TARGET)[0].blocks == 2 * LIMIT // BLOCK


@pytest.mark.parametrize("operand", [
    Case(LIMIT - 1, LIMIT - 8).stored(4096),
    Case(1 << 16, 1 << 19).stored(1 << 40),  # 64 GiB
    replace(Case(LIMIT - 1, LIMIT - 1).stored(4098), in_place=True),
])  # fmt: skip
def test_an_operand_that_is_ready_may_be_of_any_size(operand: AlignCopyOperand) -> None:
    for pair in ((operand, OPERAND), (OPERAND, operand)):
        assert align_copy_launch(*pair, TARGET, TARGET)[0].blocks == 1
