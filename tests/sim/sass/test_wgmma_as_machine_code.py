"""HGMMA, IGMMA and QGMMA as ptxas writes them give the bits that an H200 gave for the PTX instruction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wgmma_kernels as kernels

from gemmsmith.errors import UnknownInstructionError
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.sass.device import MachineDevice
from gemmsmith.sim.sass.program import lower_routine
from gemmsmith.sim.sass.reader import Routine, read_instruction

RECORDED = Path(__file__).parents[2] / "data" / "wgmma.npz"
FORMS = [form for form in kernels.ARITHMETIC if form.n == 8]
IN_REGISTERS = [form for form in FORMS if form.registers]


def check(form: kernels.Wgmma) -> None:
    cases = kernels.thinned(form, kernels.arithmetic_cases(form, kernels.operands(form)))
    with np.load(RECORDED, allow_pickle=False) as file:
        expected = file[form.name]
    assert (kernels.run(MachineDevice("sm_90"), form, cases, "sm_90a") == expected).all()


@pytest.mark.parametrize("form", IN_REGISTERS[2:3], ids=lambda form: form.name)
def test_a_in_registers(form: kernels.Wgmma) -> None:
    """B's descriptor is in the second pair of the uniform registers that are named, with A in registers too."""
    check(form)


@pytest.mark.parametrize("negated", ["negate_a", "negate_b"])
def test_a_in_registers_and_negated(negated: str) -> None:
    """``-R28`` and ``gdesc[UR4].negB``: the bits are those of the PTX instruction, and others than without it."""
    form = replace(IN_REGISTERS[2], **{negated: True})
    cases = kernels.thinned(form, kernels.arithmetic_cases(form, kernels.operands(form)))
    found = kernels.run(MachineDevice("sm_90"), form, cases, "sm_90a")
    assert (found == kernels.run(SimDevice("sm_90a"), form, cases, "sm_90a")).all()
    assert (found != kernels.run(MachineDevice("sm_90"), IN_REGISTERS[2], cases, "sm_90a")).any()


def test_a_sparse_product_is_refused() -> None:
    """Its metadata are no operand that is known: it must not run as a dense one."""
    strange = read_instruction("HGMMA.64x8x32.F32.SP R24, gdesc[UR8], R24, R2, gsb0", 0, 0)
    with pytest.raises(UnknownInstructionError, match=r"HGMMA\.64x8x32\.F32\.SP"):
        lower_routine(Routine("k", (strange,), ()), 90, {}, 0, 0, 0)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_form(form: kernels.Wgmma) -> None:
    check(form)
