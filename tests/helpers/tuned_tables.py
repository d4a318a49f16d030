"""Entries, tables and the shipped table's stand-in, for tests of what is chosen."""

from __future__ import annotations

import pytest
from fake_hopper import CLUSTER, H200

from gemmsmith.choose import table as shipped
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.fit import Fitted
from gemmsmith.choose.key import ShapeKey, shape_key
from gemmsmith.choose.table import Entry, Table
from gemmsmith.problem import BF16, Problem

SQUARE = Problem(4096, 4096, 4096, BF16, BF16, trans_b=True)
KEY = shape_key(SQUARE)
ODD_CONFIG = CLUSTER.config({"BM": 64, "BN": 72, "CONSUMERS": 1, "GROUP": 1})
ENTRY = Entry("wgmma_cluster", ODD_CONFIG.values, 180.0, 190.0)


class Tables:
    """Replaces the cached reader of the shipped tables."""

    def __init__(self, *tables: Table) -> None:
        self._tables = tables

    def __call__(self) -> tuple[Table, ...]:
        return self._tables

    def cache_clear(self) -> None:
        pass


def ship(monkeypatch: pytest.MonkeyPatch, *tables: Table) -> None:
    monkeypatch.setattr(shipped, "shipped_tables", Tables(*tables))


def table(entries: dict[ShapeKey, Entry], gpu: str = H200, constants: Constants | None = None) -> Table:
    return Table(gpu, "2026-01-02", {"b": "2", "a": "1"}, "gemmsmith tune …", Fitted(constants or Constants(), 9, 0.1),
                 entries)  # fmt: skip
