"""The tests of instructions cover the simulator's tables, and can fail."""

from __future__ import annotations

import pytest
from instruction_check import wrong_values
from instruction_forms import all_forms, form_named
from instruction_inputs import CLASSES
from instruction_kernel import simulated

from gemmsmith.sim import integers, semantics

_TYPED = {name.split(" ")[0] for name in (form.name for form in all_forms())}
_OPCODES = {name.split(".")[0] for name in _TYPED}
_PAIRS = {(name.split(".")[0], name.split(".")[-1]) for name in _TYPED}


def test_there_are_enough_cases() -> None:
    assert len(all_forms()) * len(CLASSES) >= 2000


@pytest.mark.parametrize("pair", sorted(semantics._FLOAT), ids=".".join)
def test_every_floating_point_instruction_of_the_table_has_a_form(pair: tuple[str, str]) -> None:
    assert pair in _PAIRS


@pytest.mark.parametrize("opcode", sorted({*integers.PLAIN, *integers.SHIFTS, *integers.COUNTS}))
def test_every_integer_instruction_of_the_table_has_a_form(opcode: str) -> None:
    assert opcode in _OPCODES


@pytest.mark.parametrize(
    "name", ["mad.hi.s32", "fma.rn.f32", "setp.ltu.f32", "cvt.rni.s32.f32", "mov.b64 unpack 2", "prmt.b32", "abs.f64"]
)
def test_one_wrong_bit_is_found(name: str) -> None:
    form = form_named(name)
    for input_class in CLASSES:
        found = [list(values) for values in simulated(form)[input_class]]
        assert wrong_values(form, input_class, found) == []
        found[-1][7] ^= 1
        assert len(wrong_values(form, input_class, found)) == 1
