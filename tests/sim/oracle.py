"""The expected results of any instruction form."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import oracle_floats
import oracle_integers
from instruction_forms import Form
from instruction_kernel import LETTERS
from oracle_integers import Oracle, width_of

_LITERAL = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")


@cache
def oracle_of(name: str) -> Oracle:
    """The oracle of an instruction by its full name, such as setp.lt.and.s32."""
    opcode, *modes = name.split(".")
    if opcode == "cvt":
        return _conversion(modes)
    return oracle_integers.meaning(name) or oracle_floats.meaning(name)


def _conversion(modes: list[str]) -> Oracle:
    *named, to, source = modes
    whole = "us"
    if to.endswith("x2"):
        narrow = oracle_floats.between(to.removesuffix("x2"), source)
        return lambda high, low: narrow(high) << 16 | narrow(low)
    if to[0] in whole and source[0] in whole:
        return oracle_integers.convert(named == ["sat"], to, source)
    if to[0] in whole:
        return oracle_floats.to_integer(named[0], to, source)
    if source[0] in whole:
        return oracle_floats.from_integer(to, source)
    return oracle_floats.between(to, source)


def literal(text: str) -> int:
    """The value of a literal operand."""
    if (found := _LITERAL.fullmatch(text)) is not None:
        return int(found.group(1) or found.group(2), 16)
    return int(text, 8) if re.fullmatch(r"0[0-7]+", text) else int(text, 0)


@cache
def expected(form: Form) -> Callable[..., tuple[int, ...]]:
    """A function from one case's operands to every result of a form."""
    if " pack " in form.name:
        width = width_of(form.types[0])
        return lambda *values: (sum(value << (width * i) for i, value in enumerate(values)),)
    if " unpack " in form.name:
        width = width_of(form.results[0])
        return lambda whole: tuple(whole >> (width * i) & ((1 << width) - 1) for i in range(len(form.results)))
    instruction, _, text = form.template.rstrip(";").partition(" ")
    oracle, operands = oracle_of(instruction), text.split(", ")[1:]
    if operands == ["{" + letter + "}" for letter in LETTERS[: len(operands)]]:
        return lambda *values: (oracle(*values),)
    fixed = [None if operand.startswith("{") else literal(operand) for operand in operands]
    places = [LETTERS.find(operand[1:2]) for operand in operands]
    return lambda *values: (oracle(*(values[p] if f is None else f for p, f in zip(places, fixed, strict=True))),)
