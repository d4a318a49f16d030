"""Which parameters are arrays for the blocks to share, where neither a name nor an allocation says so."""

from __future__ import annotations

import pytest

from gemmsmith.userfile.kernels.scratch import scratch_names

MATRICES = [("const float*", "A"), ("const float*", "B"), ("float*", "C")]


@pytest.mark.parametrize("kind", ["int*", "unsigned int*", "volatile int*", "unsigned long long*"])
def test_integers_beside_three_matrices_are_counters(kind: str) -> None:
    assert scratch_names([*MATRICES, (kind, "turn")], (), None) == {"turn"}


@pytest.mark.parametrize("kind", ["const int*", "float*", "int"])
def test_what_may_be_an_operand_is_none(kind: str) -> None:
    assert scratch_names([*MATRICES, (kind, "turn")], (), None) == frozenset()


def test_matrices_of_integers_leave_no_counter() -> None:
    names = [("const int*", "A"), ("const int*", "B"), ("int*", "C"), ("int*", "turn")]
    assert scratch_names(names, (), None) == frozenset()
