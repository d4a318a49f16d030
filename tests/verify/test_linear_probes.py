"""The numbers that tell whether a kernel is linear in A and in B: none is below 0 in a type without a sign."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gemmsmith.verify.meaning import linearity
from gemmsmith.verify.meaning.linearity import NOT_LINEAR

TERMS = np.arange(1, 17)


@pytest.mark.parametrize(
    ("a", "b", "negative"),
    [("i1", "i1", "a"), ("f4", "f4", "a"), ("u1", "i1", "b"), ("i1", "u1", "a"), ("u1", "u1", ""), ("u4", "u4", "")],
)
def test_the_operand_with_a_sign_is_negated(a: str, b: str, negative: str) -> None:
    values = TERMS.astype(a), TERMS.astype(b)
    found = linearity._negated(values)
    if not negative:
        assert found is None
        return
    assert found is not None
    signs = [-1 if name == negative else 1 for name in "ab"]
    assert [each.tolist() for each in found] == [(sign * TERMS).tolist() for sign in signs]


@pytest.mark.parametrize(("wrong", "why"), [(0.0, ""), (1.0, NOT_LINEAR)], ids=["linear", "one more"])
def test_results_of_the_probes(wrong: float, why: str) -> None:
    one, two = ((TERMS * scale, TERMS[::-1] * scale) for scale in (1, 2))
    results: Any = [np.full(4, float(a.astype(float) @ b.astype(float))) for a, b in linearity.probes(one, two)]
    results[5] = results[5] + wrong * np.abs(results[5])
    assert linearity.not_linear(results, 2.0**-14, 4, 8) == why
