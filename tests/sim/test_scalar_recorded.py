"""Rounding modes, .ftz, .sat, packed halves, conversions, approximations, carries and atomics, as on an H200.

Every result is compared bit for bit with the recording that benchmarks/record_instructions.py --scalar makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from instruction_forms import Form
from instruction_inputs import CLASSES, pool
from instruction_kernel import simulate
from instruction_recording import differences
from scalar_forms import GROUPS, scalar_form_named, scalar_forms
from scalar_recording import FILE, ROWS, recording


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__.strip("_"))
def test_the_simulator_gives_the_recorded_bits(group: Callable[[], Iterator[Form]]) -> None:
    wrong = []
    for form in group():
        wrong += differences(form, recording(), simulate(form, recording().arguments(form)))
    assert wrong == []


def test_the_recording_is_complete_and_names_its_origin() -> None:
    metadata = recording().metadata
    assert all(metadata[key] for key in ("gpu", "arch", "driver", "cuda", "date", "command"))
    assert metadata["classes"] == ROWS
    assert len(scalar_forms()) > 950
    assert all(len(recording().results(form)[0]) == sum(ROWS.values()) for form in scalar_forms())
    assert FILE.stat().st_size < 2_000_000


@pytest.mark.parametrize("name", ["f32", "f16x2", "i32", "narrow"])
def test_the_operands_are_those_of_the_pools(name: str) -> None:
    rows = [row for c in CLASSES for row in pool(name, c)[: ROWS[c]]]
    assert np.array_equal(recording().arrays[f"in/{name}"], np.array(rows, np.uint64))


@pytest.mark.parametrize("name", ["fma.rz.ftz.f32", "ex2.approx.f16x2", "cvt.rp.bf16.s64", "atom.shared.add.f64"])
def test_one_flipped_bit_would_be_found(name: str) -> None:
    form = scalar_form_named(name)
    found = [result.copy() for result in simulate(form, recording().arguments(form))]
    found[-1][77] ^= 1
    assert len(differences(form, recording(), found)) == 1
