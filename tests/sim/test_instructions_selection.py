"""Comparisons, combinations of predicates, and selection."""

from __future__ import annotations

from instruction_check import cases, check
from instruction_forms import all_forms

FORMS = [form for form in all_forms() if form.name.startswith(("setp.", "selp.")) or ".pred" in form.name]


@cases(FORMS)
def test_selection_instruction(name: str) -> None:
    check(name)
