"""A kernel that reads a table which its host code computes is told how to run with the table."""

from __future__ import annotations

from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.verify.meaning.settle import _table_hint


def _signature(*extra: Argument) -> Signature:
    own = [Argument(name, name, "P", "float") for name in "ABC"] + [Argument(name, name, "i", "int") for name in "MNK"]
    return Signature("tiled", (*own, *extra))


def test_a_pointer_that_nobody_understands_may_be_a_table() -> None:
    hint = _table_hint(_signature(Argument("order", "", "P", "int")))
    assert "if host code fills order with values of its own" in hint
    assert "order=order.npy" in hint
    assert "--expect" in hint


def test_a_number_is_no_table() -> None:
    assert _table_hint(_signature(Argument("depth", "", "i", "int"))) == ""
