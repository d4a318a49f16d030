"""The tuning file as calls read it: damaged, torn, unreadable, or written by an earlier version."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_hopper import CLUSTER, H200, SPLIT_K
from tuned_tables import ENTRY, KEY, SQUARE, ship

from gemmsmith.choose import candidates
from gemmsmith.choose.choice import choose, forget
from gemmsmith.choose.tuning_file import TuningFile, TuningFileError
from gemmsmith.errors import UsageError


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Fake kernels, no shipped table, and a tuning file of the test's own."""
    monkeypatch.setattr(candidates, "hopper_specs", lambda: (CLUSTER, SPLIT_K))
    ship(monkeypatch)
    path = tmp_path / "tuning.jsonl"
    monkeypatch.setenv("GEMMSMITH_TUNING", str(path))
    forget()
    yield path
    forget()


def test_damaged_lines_are_reported_and_the_rest_is_used(hopper: Path) -> None:
    TuningFile(hopper).add_best(H200, KEY, ENTRY)
    good = hopper.read_bytes()
    bad = [b'{"format": 1, "event": "best"}',
           b'{"format": 9, "event": "best", "gpu": "x"}', b'"event": "best" \xff\x00',
           good.replace(b'"BM": 64', b'"BM": 6.4').strip(), b"[" * 100_000 + b'"event": "best"']  # fmt: skip
    hopper.write_bytes(b"\n".join(bad) + b"\n" + good + good[:30])
    with pytest.warns(RuntimeWarning, match="5 of 6 lines of the tuning file"):
        assert choose(SQUARE, H200).source == "tuned"


def test_a_torn_last_line_is_skipped_and_removed(hopper: Path) -> None:
    file = TuningFile(hopper)
    file.add_best(H200, KEY, ENTRY)
    whole = hopper.read_bytes()
    hopper.write_bytes(whole + whole[:40])
    assert choose(SQUARE, H200).source == "tuned"
    file.add_best(H200, replace(KEY, m=8), ENTRY)
    assert hopper.read_bytes() == whole + whole.replace(b'"m": 4096', b'"m": 8')


def test_an_unreadable_tuning_file_is_reported(hopper: Path) -> None:
    hopper.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot read the tuning file"):
        assert choose(SQUARE, H200).source == "model"


def test_another_programs_file_is_not_written(hopper: Path) -> None:
    hopper.write_bytes(b"something precious")
    with pytest.raises(UsageError, match="is not a tuning file"):
        TuningFile(hopper).add_best(H200, KEY, ENTRY)
    assert hopper.read_bytes() == b"something precious"


def test_a_tuning_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TuningFileError, match="cannot write the tuning file"):
        TuningFile(tmp_path / "file" / "tuning.jsonl").add_best(H200, KEY, ENTRY)


def test_a_tuning_file_of_an_earlier_version_is_used(hopper: Path) -> None:
    """Its parameter names are converted; nothing of it is lost."""
    TuningFile(hopper).add_best(H200, KEY, replace(ENTRY, config=(*ENTRY.config, ("TAIL_BN", 0))))
    hopper.write_bytes(hopper.read_bytes().replace(b'"TAIL_BN"', b'"NARROW"'))
    (entry,) = TuningFile(hopper).best(H200).values()
    assert dict(entry.config)["TAIL_BN"] == 0
    assert "NARROW" not in dict(entry.config)
