"""Tables and tuning files with old parameter names are read as if they had today's."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from gemmsmith.choose.table import shipped_tables, table_from_text, table_text
from gemmsmith.choose.tuning_file import TuningFile
from gemmsmith.kernel import equal_sources
from gemmsmith.ladder.registry import rung_named

GPU = "NVIDIA H200"
SHAPE = {"kind": "16-bit", "out_bytes": 2, "layout": "NT", "m": 64, "n": 4096, "k": 4096, "batch": 1}
OLD = {"BM": 64, "BN": 16, "STAGES": 4, "CONSUMERS": 1, "SPLIT": 2, "SWAP": 1, "ORDERED": 1, "LOOSE": 1}
NEW = (("BM", 64), ("BN", 16), ("STAGES", 4), ("CONSUMERS", 1), ("SPLIT", 2), ("SWAP", 1), ("DETERMINISTIC", 1),
       ("UNALIGNED_OPERANDS", 1))  # fmt: skip
WIDE = {"BM": 128, "BN": 256, "STAGES": 4, "CONSUMERS": 2, "CLUSTER_M": 2, "CLUSTER_N": 1, "GROUP": 8, "TMA_STORE": -1}


def line(event: str, **fields: object) -> str:
    return json.dumps({"format": 1, "event": event, "gpu": GPU, **SHAPE, **fields}) + "\n"


@pytest.fixture
def file(tmp_path: Path) -> TuningFile:
    """As an earlier version wrote it: a winner, one that failed, one that was interrupted, and the choice."""
    path = tmp_path / "tuning.jsonl"
    old = {"kernel": "wgmma_split_k", "config": OLD, "digest": "0123456789abcdef"}
    wide = {"kernel": "wgmma_cluster", "config": WIDE, "digest": "fedcba9876543210"}
    timed = {"us": 11.5, "cublas_us": 12.5}
    path.write_text(
        line("tried", **old)
        + line("candidate", **old, **timed, state="timed", why="")
        + line("tried", **wide)
        + line("stopped", **wide)
        + line("tried", **wide)
        + line("best", kernel="wgmma_split_k", config=OLD, **timed)
    )
    return TuningFile(path)


def test_a_tuning_file_is_converted(file: TuningFile) -> None:
    (entry,) = file.best(GPU).values()
    assert (entry.kernel, entry.config, entry.us) == ("wgmma_split_k", NEW, 11.5)
    assert rung_named(entry.kernel).config(dict(entry.config))
    (tried,) = file.history(GPU).tried.values()
    first, second = tried.values()
    assert (first.config, first.state, first.us, first.times) == (NEW, "timed", 11.5, 1)
    assert second.config[-2:] == (("STORE_MODE", 1), ("STORE_BOXES", 1))
    assert (second.state, second.times) == ("", 1), "events of one candidate still belong together"


def test_events_of_a_source_with_equal_machine_code_count_for_todays(
    file: TuningFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equal_sources, "equal_sources", lambda: {"0123456789abcdef": "00000000000000aa"})
    (tried,) = file.history(GPU).tried.values()
    assert tried["00000000000000aa"].state == "timed"
    assert "fedcba9876543210" in tried, "what is not known to be equal is timed again"


def test_a_new_run_appends_to_the_same_file(file: TuningFile) -> None:
    before = file.path.read_text()
    (key,) = file.best(GPU)
    file.add_best(GPU, key, replace(file.best(GPU)[key], us=9.0))
    assert file.path.read_text().startswith(before)
    assert file.best(GPU)[key].us == 9.0


def test_a_table_with_old_names_is_todays_table() -> None:
    (table,) = shipped_tables()
    text = table_text(table)
    old = text.replace('"UNALIGNED_OPERANDS"', '"LOOSE"').replace('"TAIL_BN"', '"NARROW"')
    old = old.replace('"DETERMINISTIC"', '"ORDERED"').replace('"STORE_MODE": 2, "STORE_BOXES": 1', '"TMA_STORE": 1')
    assert old.count("TMA_STORE") > 5
    assert old.count("LOOSE") > 2
    assert table_from_text(old) == table


def test_the_shipped_table_has_todays_names() -> None:
    for table in shipped_tables():
        for key, entry in table.entries.items():
            parameters = {p.name for p in rung_named(entry.kernel).parameters}
            assert {name for name, _ in entry.config} <= parameters, key
    raw = files("gemmsmith.choose").joinpath("tables", "h200.json").read_text()
    assert not any(name in raw for name in ("LOOSE", "NARROW", "ORDERED", "TMA_STORE"))
