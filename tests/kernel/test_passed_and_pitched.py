"""Parameters whose meaning host code tells: strides that it passes M, N or K for, and pitches in bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmsmith.kernel.axis_strides import strides_of_pointers
from gemmsmith.kernel.other_readings import readings
from gemmsmith.kernel.passed_roles import as_passed
from gemmsmith.kernel.signature import Argument, Signature


def arguments(*numbers: Argument) -> tuple[Argument, ...]:
    return (*(Argument(role.lower(), role, "P", "float") for role in "ABC"),
            *(Argument(role, role, "i", "int", at_launch=role.lower()) for role in "MNK"), *numbers)  # fmt: skip


def test_a_stride_that_the_launch_passes_an_extent_for() -> None:
    strides = [
        Argument(f"stride_{name}", "", "i", "int", at_launch=given) for name, given in (("am", "k"), ("bk", "n"))
    ]
    found = as_passed(Signature("mine", arguments(*strides, Argument("stride_ak", "1", "i", "int"))))
    assert found is not None
    assert [arg.role for arg in found.arguments[6:]] == ["K", "N", "1"]


def test_what_the_launch_passes_once_stays_open() -> None:
    open_ones = Argument("pad", "", "i", "int", at_launch="pad"), Argument("stride_am", "", "i", "int", at_launch="k")
    assert as_passed(Signature("mine", arguments(*open_ones))) is None
    real = Argument("slope", "", "f", "float", at_launch="k")
    assert as_passed(Signature("mine", arguments(real))) is None


def test_pitches_may_be_in_bytes() -> None:
    pitches = [Argument(f"pitch{role.upper()}", f"ld{role}", "Q", "size_t") for role in "abc"]
    own = Signature("mine", arguments(*pitches))
    assert [arg.role for arg in next(iter(readings(own))).arguments[6:]] == ["4*lda", "4*ldb", "4*ldc"]
    named = replace(own, arguments=arguments(*(replace(arg, name=arg.role) for arg in pitches)))
    assert all("*" not in arg.role for other in readings(named) for arg in other.arguments)


_INDEXED = (
    "S[i * s_stride_n + j * s_stride_d] = Q[i * q_stride_n + p * q_stride_d] * K[j * k_stride_n + p * k_stride_d];"
)


@pytest.mark.parametrize(
    ("names", "body", "expected"),
    [
        ("q_stride_n q_stride_d k_stride_n k_stride_d s_stride_n s_stride_d", _INDEXED, "lda,1,ldb,1,ldc,1"),
        # Heads are counted, not multiplied with a stride of this pointer.
        ("q_stride_n q_stride_d k_stride_n k_stride_d s_stride_n s_stride_d", _INDEXED.replace("* q_stride_d", ""), ""),
        ("q_stride_n q_stride_d k_stride_n k_stride_d s_stride_n s_tile_d", _INDEXED, ""),
    ],
    ids=["all", "one is no factor", "one is no stride"],
)
def test_strides_that_are_named_after_their_pointers(names: str, body: str, expected: str) -> None:
    numbers = dict(enumerate(names.split(), 3))
    found = strides_of_pointers(numbers, {"Q": "A", "K": "B", "S": "C"}, body)
    assert ",".join(found[place] for place in sorted(found)) == expected
