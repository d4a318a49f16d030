"""Which leading dimensions are padded: those that the kernel takes, if their names say of which matrix."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.problem import Problem
from gemmsmith.verify.trials.trials import padded

TIGHT = Problem(64, 48, 32)


@pytest.mark.parametrize(("names", "changed"), [
    ({"lda": "lda", "ldb": "ldb", "ldc": "ldc"}, {"lda", "ldb", "ldc"}),
    ({"ldc": "ldc"}, {"ldc"}),
    ({"lda": "stride_a", "ldb": "b_ld"}, {"lda", "ldb"}),
    ({"lda": "ld"}, {"lda", "ldb", "ldc"}),  # perhaps that of all three: such a trial has no launch
    ({}, {"lda", "ldb", "ldc"}),
], ids=["all", "c", "a and b", "one", "none"])  # fmt: skip
def test_what_is_padded(names: dict[str, str], changed: set[str]) -> None:
    spec: Any = SimpleNamespace(signature=Signature("mine", tuple(
        Argument(name, role, "i", "int") for role, name in names.items())))  # fmt: skip
    found = padded(TIGHT, spec)
    assert {name for name in ("lda", "ldb", "ldc") if getattr(found, name) != getattr(TIGHT, name)} == changed
