"""Whose winners serve shapes that were not tuned: the user's own always, the shipped ones only where no networks, which
were fitted to their times, correct the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_hopper import H200
from tuned_tables import ship

from gemmsmith.choose.choice import choose, forget
from gemmsmith.choose.key import shape_key
from gemmsmith.choose.models import shipped_shapes
from gemmsmith.choose.table import Table, shipped_tables
from gemmsmith.choose.tuning_file import TuningFile
from gemmsmith.problem import BF16, Problem

# 24 rows in tiles of 40 rows take 42.2 µs. For 29 rows 72 in two parts of K take 39.1, these 42.1.
TIMED, ASKED = (Problem(rows, 4608, 16384, BF16, BF16, trans_b=True) for rows in (24, 29))


@pytest.fixture(autouse=True)
def tuning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TuningFile]:
    path = tmp_path / "tuning.jsonl"
    monkeypatch.setenv("GEMMSMITH_TUNING", str(path))
    forget()
    yield TuningFile(path)
    forget()


def only_with(table: Table, *problems: Problem) -> Table:
    """The table with the entries of these shapes alone."""
    keys = {shape_key(each) for each in problems}
    return replace(table, entries={key: entry for key, entry in table.entries.items() if key in keys})


def test_a_shipped_entry_serves_its_own_shape_alone() -> None:
    timed, asked = (choose(each, H200, sms=132, arch="sm_90") for each in (TIMED, ASKED))
    assert timed.source == "shipped"
    assert asked.source == "model"
    assert asked.config != timed.config, "which is 7 % slower than the fastest"


def test_nor_is_it_the_nearest_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no entry at all the choice is the same."""
    sizes = ((904, 4096, 4160), (3008, 5120, 5184), (2008, 4096, 11072), (520, 7168, 4160), (4104, 4096, 4160))
    near = [Problem(*size, BF16, BF16, trans_b=True) for size in sizes]
    before = [choose(each, H200, sms=132, arch="sm_90") for each in near]
    ship(monkeypatch, *(only_with(table) for table in shipped_tables()))
    forget()
    assert [choose(each, H200, sms=132, arch="sm_90") for each in near] == before


def test_the_users_own_tuning_serves_other_rows(tuning: TuningFile) -> None:
    entry = shipped_shapes(H200)[shape_key(TIMED)]
    tuning.add_best(H200, shape_key(TIMED), entry)
    forget()
    asked = choose(ASKED, H200, sms=132, arch="sm_90")
    assert asked.source == "rows"
    assert asked.config.values == entry.config


def test_without_networks_a_shipped_entry_serves_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsmith.choose.models.shipped.shipped_networks", Nothing())
    forget()
    assert choose(ASKED, H200, sms=132, arch="sm_90").source == "rows"


class Nothing:
    """Replaces the cached reader of networks."""

    def __call__(self, _: str) -> None:
        return None

    def cache_clear(self) -> None:
        pass
