"""Integer arithmetic, bits, moves and literals against Python's own integers."""

from __future__ import annotations

from instruction_check import cases, check
from instruction_forms import all_forms

OPCODES = ("add", "sub", "mul", "mad", "div", "rem", "min", "max", "abs", "neg", "sad", "and", "or", "xor", "not",
           "cnot", "shl", "shr", "shf", "bfe", "bfi", "prmt", "lop3", "popc", "clz", "brev", "mov")  # fmt: skip


def _about_integers(name: str) -> bool:
    opcode, *_, kind = name.split(" ", maxsplit=1)[0].split(".")
    return opcode in OPCODES and kind[0] in "usb" and kind != "bf16"


FORMS = [form for form in all_forms() if _about_integers(form.name)]


@cases(FORMS)
def test_integer_instruction(name: str) -> None:
    check(name)
