"""cvt: every accepted pair of types and rounding, against integers and exact rational numbers."""

from __future__ import annotations

from instruction_check import cases, check
from instruction_forms import all_forms

FORMS = [form for form in all_forms() if form.name.startswith("cvt.")]


@cases(FORMS)
def test_conversion(name: str) -> None:
    check(name)
