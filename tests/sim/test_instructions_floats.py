"""fp32, fp64, fp16 and bf16 arithmetic against exact rational numbers rounded once."""

from __future__ import annotations

import struct
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from instruction_check import cases, check
from instruction_forms import all_forms, form_named
from instruction_kernel import as_words, simulate
from oracle import expected
from oracle_floats import decode, encode


def _about_floats(name: str) -> bool:
    opcode, *_, kind = name.split(" ", maxsplit=1)[0].split(".")
    return opcode not in ("setp", "selp", "cvt") and kind in ("f16", "bf16", "f32", "f64")


FORMS = [form for form in all_forms() if _about_floats(form.name)]


@cases(FORMS)
def test_floating_point_instruction(name: str) -> None:
    check(name)


def _bits(value: float | Fraction) -> int:
    return encode("f32", Fraction(value))


# Each is a·b + c with the correct answer next to the one that rounding twice gives.
ADVERSARIAL = {
    "above a tie": (1 + 2.0**-23, 1 + 2.0**-23, 2.0**24),
    # Halfway in float64, only because what pulls the sum off the tie lies below float64's last place.
    "tie pulled down": (1 - 2.0**-23, 2.0**-24 * (1 + 2.0**-23), 1.0 + 2.0**-23),
    "tie pulled up": (1 + 2.0**-23, 2.0**-24 * (1 + 2.0**-23), 1.0),
    "tie from a negative product": (-(1 - 2.0**-23), 2.0**-24 * (1 + 2.0**-23), 1.0 + 2.0**-23),
    # The sum is just below halfway between the largest subnormal and the smallest normal number.
    "smallest normal": (2.0**-75 * (1 - 2.0**-23), 2.0**-75 * (1 + 2.0**-23), 2.0**-126 - 2.0**-149),
    "smallest normal, negative": (-(2.0**-75) * (1 - 2.0**-23), 2.0**-75 * (1 + 2.0**-23), 2.0**-149 - 2.0**-126),
    "subnormal tie": (2.0**-75 * (1 - 2.0**-23), 2.0**-75 * (1 + 2.0**-23), 2.0**-130),
    "below the smallest subnormal": (2.0**-75 * (1 - 2.0**-23), 2.0**-75 * (1 + 2.0**-23), 0.0),
    "above half of the smallest": (2.0**-75 * (1 + 2.0**-23), 2.0**-75, 0.0),
    "largest, tie pulled down": (2.0**104 * (1 - 2.0**-23), 1 + 2.0**-23, 2.0**128 - 2.0**104),
    "overflow at a tie": (2.0**103, 1.0, 2.0**128 - 2.0**104),
    "exact cancellation": (1 + 2.0**-23, 1 - 2.0**-23, -1.0),
}


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("negate", [False, True])
def test_fma_rounds_once(name: str, negate: bool) -> None:
    a, b, c = (_bits(x) for x in ADVERSARIAL[name])
    if negate:
        a, c = a ^ 0x80000000, c ^ 0x80000000
    form = form_named("fma.rn.f32")
    (found,) = simulate(form, [as_words([x], "f32") for x in (a, b, c)])
    assert int(found[0]) == expected(form)(a, b, c)[0]


def test_some_adversarial_cases_do_round_twice_in_float64() -> None:
    """The cases above can fail: rounding in float64 first gets some of them wrong."""
    wrong = []
    for name, (a, b, c) in ADVERSARIAL.items():
        with np.errstate(all="ignore"):
            twice = int(np.float32(np.float64(a) * np.float64(b) + np.float64(c)).view(np.uint32))
        if twice != encode("f32", Fraction(a) * Fraction(b) + Fraction(c)):
            wrong.append(name)
    assert {"smallest normal", "tie pulled down", "tie from a negative product"} <= set(wrong)


@pytest.mark.parametrize("name", ["add.f32", "sub.f32", "mul.f32", "div.rn.f32", "fma.rn.f32", "min.f32", "max.f32"])
def test_a_nan_result_is_the_canonical_one(name: str) -> None:
    form = form_named(name)
    quiet = (0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF)
    (found,) = simulate(form, [as_words(quiet, "f32") for _ in form.arguments])
    assert set(found.tolist()) == {0x7FFFFFFF}


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_the_oracle_itself_encodes_what_it_decodes(kind: str) -> None:
    step = {"f16": 1, "bf16": 1, "f32": 65521, "f64": (1 << 48) - 59}[kind]
    width = {"f16": 15, "bf16": 15, "f32": 31, "f64": 63}[kind]
    numbers = [bits for bits in range(0, 1 << width, step) if decode(kind, bits) == decode(kind, bits)]
    assert len(numbers) > 30000
    assert all(encode(kind, decode(kind, bits)) == bits for bits in numbers)


@pytest.mark.parametrize(("name", "operation"), [("add", "__add__"), ("sub", "__sub__"), ("mul", "__mul__")])
def test_the_oracle_agrees_with_this_processor_on_doubles(name: str, operation: str) -> None:
    """Python's own floats are IEEE's fp64: an independent check of the rational oracle."""
    random, oracle = Random(name), expected(form_named(f"{name}.rn.f64"))
    for _ in range(2000):
        a, b = (random.choice((random.uniform(-4, 4), random.getrandbits(60) * 2.0**-1100)) for _ in range(2))
        wanted = int.from_bytes(struct.pack("<d", getattr(a, operation)(b)), "little")
        assert oracle(*(int.from_bytes(struct.pack("<d", x), "little") for x in (a, b))) == (wanted,)
