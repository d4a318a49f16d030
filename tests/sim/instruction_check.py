"""Compare the simulator with the oracle: every value of one form, in every class of input."""

from __future__ import annotations

import pytest
from instruction_forms import Form, form_named
from instruction_inputs import CLASSES
from instruction_kernel import inputs, simulated, storage_bytes
from oracle import expected


def cases(forms: tuple[Form, ...] | list[Form]) -> pytest.MarkDecorator:
    """Parametrise a test over forms. A form is simulated once for all classes of input, so it is one test."""
    return pytest.mark.parametrize("name", [form.name for form in forms])


def undefined(form: Form, values: tuple[int, ...]) -> bool:
    """Division by zero, which PTX leaves to the machine; recorded values cover it."""
    opcode, *_, kind = form.name.split(".")
    return opcode in ("div", "rem") and kind[0] in "us" and values[1] == 0


def wrong_values(form: Form, input_class: str, found: list[list[int]]) -> list[str]:
    """A line for each value that is not what the oracle says."""
    oracle, lines, compared = expected(form), [], 0
    for case, values in enumerate(zip(*inputs(form, input_class), strict=True)):
        if undefined(form, values):
            continue
        compared += 1
        for kind, wanted, result in zip(form.results, oracle(*values), found, strict=True):
            if wanted & ((1 << (8 * storage_bytes(kind))) - 1) != result[case]:
                operands = ", ".join(f"{value:#x}" for value in values)
                lines.append(f"{form.template} with ({operands}): {result[case]:#x}, not {wanted:#x}")
    assert compared >= 20, "too few values were compared"
    return lines


def check(name: str) -> None:
    """Fail with the first wrong values of a form."""
    form = form_named(name)
    wrong = [f"[{kind}] {line}" for kind in CLASSES for line in wrong_values(form, kind, simulated(form)[kind])]
    assert not wrong, f"{len(wrong)} wrong values:\n" + "\n".join(wrong[:5])
