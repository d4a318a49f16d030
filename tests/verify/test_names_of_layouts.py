"""Which numbers are named after how operands are stored."""

from __future__ import annotations

import pytest

from gemmsmith.verify.code.mode_values import transposes


@pytest.mark.parametrize(
    "name", ["transA", "ta", "op_b", "order", "AB_order", "rowOrder", "roworder", "row_major", "layoutB"]
)
def test_names_of_layouts(name: str) -> None:
    assert transposes(name)


@pytest.mark.parametrize("name", ["border", "borderWidth", "recorder", "majority", "total", "fast"])
def test_other_names(name: str) -> None:
    assert not transposes(name)
