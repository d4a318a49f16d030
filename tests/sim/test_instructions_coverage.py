"""Every record of the instruction table is tested, and the tests can fail."""

from __future__ import annotations

from functools import cache

import pytest
from instruction_check import wrong_values
from instruction_examples import DECLARATIONS, EXAMPLES, PROLOGUE
from instruction_forms import all_forms, form_named
from instruction_inputs import CLASSES
from instruction_kernel import header, simulated
from instruction_kernel import kernel as form_kernel
from ptx_launch import kernel, launch, words
from scalar_forms import LATER, scalar_forms
from tensor_core_kernels import CONVERSIONS

from gemmsmith.sim.instructions.lanewise import compute
from gemmsmith.sim.instructions.record import AnyRecord
from gemmsmith.sim.instructions.table import table
from gemmsmith.sim.lowering.lower import lower
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.sim.ptx.syntax import Entry

# A function and its call; functions stand outside the entry.
CALLS = """.func twice(.param .b32 x) { .reg .b32 %r<2>; .local .b32 here; .reg .b64 %d; mov.u64 %d, here;
ld.param.b32 %r0, [x]; st.local.b32 [%d], %r0; ret; }
.visible .entry k() { { .param .b32 x; st.param.b32 [x], 5; call twice, (x); } ret; }"""

# setp with a predicate is the plain comparison and one of three functions: every function is recorded, not every pair.
# Likewise set, and conversions of types that PTX does not pair.
NOT_EVERY_CHOICE = {
    "setp.compare.combine.ftz?.type": ("combine",), "set.compare.combine.ftz?.to.type": (),
    "set.compare.ftz?.to.type": ("type",),
}  # fmt: skip


def recorded_names() -> set[str]:
    """The instructions whose results were recorded on a GPU, without operands."""
    return {*(form.name.split(" ")[0] for form in all_forms()), *scalar_names(), *CONVERSIONS}


@cache
def scalar_names() -> frozenset[str]:
    """The instructions of the second list; a form of several has more than one."""
    words = " ".join(form.template for form in (*scalar_forms(), *(f for group in LATER for f in group()))).split()
    return frozenset(word for word in words if "." in word and word[0].isalpha())


def entry_of(example: str) -> Entry:
    return parse(kernel(PROLOGUE + EXAMPLES[example], 1, DECLARATIONS)).entry("k")


@cache
def records_in_examples() -> frozenset[AnyRecord]:
    """Records by which instructions of the examples are lowered."""
    forms = [parse(header(form.target) + form_kernel(form, "k")).entry("k") for form in scalar_forms()]
    entries = (*(entry_of(example) for example in EXAMPLES), *(parse(CALLS).entries), *forms)
    return frozenset(operation.traits for entry in entries for operation in lower(entry, {}).operations)  # type: ignore[misc]


def label(record: AnyRecord) -> str:
    return f"{record.pattern} {record.lower.__module__.rsplit('.', 1)[-1]}.{record.lower.__name__.strip('_')}"


LANEWISE = [record for record in table().records if record.execute is compute]
OTHERS = [record for record in table().records if record.execute is not compute]


def test_there_are_enough_cases() -> None:
    assert len(all_forms()) * len(CLASSES) >= 2000


@pytest.mark.parametrize("record", LANEWISE, ids=label)
def test_every_lanewise_instruction_is_recorded_with_all_its_modifiers(record: AnyRecord) -> None:
    """Those that only move values between spaces or scopes run in an example instead."""
    names = [name for name in recorded_names() if any(found.record is record for found in table().find(name))]
    if not names:
        assert record in records_in_examples()
        return
    matched = [record.matcher.match(name) or {} for name in names]
    for word in NOT_EVERY_CHOICE.get(record.pattern, record.where):
        assert {m[word] for m in matched if word in m} == set(record.where[word].split()), word


@pytest.mark.parametrize("record", OTHERS, ids=label)
def test_every_other_instruction_has_an_example(record: AnyRecord) -> None:
    assert record in records_in_examples()


def test_every_composite_instruction_has_an_example() -> None:
    names = {i.name for example in EXAMPLES for i in entry_of(example).instructions}
    for composite in table().composites:
        assert any(composite.matcher.match(name) is not None for name in names if name.startswith("wmma")), composite


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example: str) -> None:
    launch(PROLOGUE + EXAMPLES[example], words(1024), declarations=DECLARATIONS, hazards=True, count=True)


def test_one_name_is_taken_by_one_lanewise_record() -> None:
    for name in recorded_names():
        found = [known.record for known in table().find(name)]
        assert found, name
        assert sum(record in LANEWISE for record in found) == any(record in LANEWISE for record in found), name


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
