"""A table of tuned shapes as a file, also one written by an earlier version."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from tuned_tables import ENTRY, KEY, table

from gemmsmith.choose.table import shipped_tables, table_from_text, table_text
from gemmsmith.errors import UsageError
from gemmsmith.ladder.registry import rung_named


def test_a_table_is_read_back_unchanged_and_sorted() -> None:
    keys = [replace(KEY, m=m) for m in (64, 8, 4096)]
    made = table({key: replace(ENTRY, cublas_us=math.nan if key.m == 8 else 2.5) for key in keys})
    text = table_text(made)
    again = table_from_text(text)
    assert table_text(again) == text
    assert [key.m for key in again.entries] == [8, 64, 4096]
    assert math.isnan(again.entries[keys[1]].cublas_us)
    assert replace(again, entries={}) == replace(made, entries={})
    lines = [line for line in text.splitlines() if '"kernel"' in line]
    assert len(lines) == 3, "one entry per line"
    assert json.loads(text)["versions"] == {"a": "1", "b": "2"}
    assert table_from_text(table_text(table({}))).entries == {}


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2}, {"entries": [{}]}, {"entries": 3}, {"model": {}}, {"versions": []},
        {"model": {"constants": {"dram": -1}, "samples": 1, "error": 1}},
    ],
)  # fmt: skip
def test_anything_else_is_refused(change: dict[str, object]) -> None:
    good = json.loads(table_text(table({KEY: ENTRY})))
    with pytest.raises(UsageError):
        table_from_text(json.dumps(good | change))
    with pytest.raises(UsageError):
        table_from_text("{")


def test_the_shipped_tables_are_readable_and_their_configurations_legal() -> None:
    for found in shipped_tables():
        assert found.entries
        assert found.model.error < math.log(2)
        for key, entry in found.entries.items():
            assert rung_named(entry.kernel).config(dict(entry.config)), key


def test_parameter_names_of_earlier_versions_are_converted() -> None:
    """Tables and tuning files written before the renaming keep their meaning."""
    old = {"BM": 64, "LOOSE": 2, "ORDERED": 1}
    row = json.loads(table_text(table({KEY: ENTRY})))
    row["entries"][0] |= {"kernel": "wgmma_split_k", "config": old}
    (entry,) = table_from_text(json.dumps(row)).entries.values()
    assert entry.config == (("BM", 64), ("UNALIGNED_OPERANDS", 2), ("DETERMINISTIC", 1))
    assert rung_named("wgmma_split_k").config(dict(entry.config))
