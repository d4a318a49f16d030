"""The simulator against values recorded on a GPU, bit for bit.

The file is made by benchmarks/record_instructions.py; without it these tests fail, they do not pass silently.
"""

from __future__ import annotations

from functools import cache

import pytest
from instruction_check import cases
from instruction_forms import Form, all_forms, form_named
from instruction_inputs import CLASSES
from instruction_kernel import Words, simulate
from instruction_recording import FILE, Recording, differences, load


@cache
def recording() -> Recording:
    if not FILE.exists():
        pytest.fail(f"{FILE} is missing: run benchmarks/record_instructions.py on a machine with a GPU", pytrace=False)
    return load(FILE)


@cache
def simulated(form: Form) -> list[Words]:
    return simulate(form, recording().arguments(form))


@cache
def wrong(form: Form) -> list[str]:
    return differences(form, recording(), simulated(form))


def test_the_recording_names_its_origin() -> None:
    metadata = recording().metadata
    assert all(metadata[key] for key in ("gpu", "arch", "driver", "cuda", "date", "command"))
    assert set(metadata["classes"]) == set(CLASSES)
    assert FILE.stat().st_size < 3_000_000


@cases(all_forms())
def test_the_simulator_gives_the_recorded_bits(name: str) -> None:
    form = form_named(name)
    assert [len(result) for result in recording().results(form)] == [len(a) for a in simulated(form)]
    assert wrong(form) == []


@pytest.mark.parametrize("input_class", CLASSES)
def test_every_class_of_input_was_recorded(input_class: str) -> None:
    part = recording().part(input_class)
    assert part.stop - part.start >= 100


def test_one_flipped_bit_would_be_found() -> None:
    form = form_named("mad.lo.s32")
    found = [result.copy() for result in simulated(form)]
    found[0][5] ^= 1
    assert len(differences(form, recording(), found)) == 1
