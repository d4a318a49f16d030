"""Flipped bits: a damaged row is named, never read as other values; the other rows stay usable; repair salvages."""

from __future__ import annotations

import random
import sqlite3
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from measured_runs import measurement, run

from gemmsmith.cli.main import run_command
from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.store.checksums import checksum
from gemmsmith.store.database import Results
from gemmsmith.store.database_errors import ResultsError, ResultsWarning
from gemmsmith.store.database_schema import APPLICATION_ID, MIGRATIONS
from gemmsmith.store.repair import damage_of, repair
from gemmsmith.store.results import Run
from gemmsmith.store.salvage import salvage

FLIPS = 120
RUNS = {
    f"r{day}": run(f"r{day}", *[measurement(f"kernel{i}", 100.0 + i) for i in range(6)], day=day) for day in range(1, 7)
}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("pristine") / "r.db"
    with Results.open(path) as results:
        for each in RUNS.values():
            results.begin(replace(each, measurements=()))
            for one in each.measurements:
                results.add(each.id, one)
    return path.read_bytes()


def read(path: Path) -> tuple[dict[str, Run], str]:
    """The runs that can be read, and what was said; '' if nothing."""
    found: dict[str, Run] = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ResultsWarning)
        try:
            with Results.open(path, read_only=True) as results:
                found = {each.id: each for each in results.runs()}
        except GemmsmithError as error:
            return {}, str(error)
    return found, " ".join(str(each.message) for each in said)


def genuine(found: dict[str, Run], *, of: dict[str, Run]) -> bool:
    """Whether every run and measurement was recorded like this; some may be missing."""
    return all(
        replace(each, measurements=()) == replace(of[name], measurements=())
        and {repr(one) for one in each.measurements} <= {repr(one) for one in of[name].measurements}
        for name, each in found.items()
    )


@pytest.mark.parametrize("part", range(8))
def test_a_flipped_bit_is_harmless_or_named(part: int, pristine: bytes, tmp_path: Path) -> None:
    """At reading, at writing, and in what repair copies."""
    generator = random.Random(part)
    new = run("new", measurement(), day=20)
    for number in range(FLIPS // 8):
        bit = generator.randrange(8 * len(pristine))
        path = tmp_path / f"{number}.db"
        flipped = bytearray(pristine)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)

        found, said = read(path)
        assert found == RUNS or said, f"bit {bit}: other values without a word"
        assert genuine(found, of=RUNS), f"bit {bit}"
        assert not said or "history repair" in said or "newer gemmsmith" in said or "--db" in said

        saved = salvage(path)
        assert genuine({r.id: r for r in saved.runs if not r.id.startswith("salvaged")}, of=RUNS), f"bit {bit}"
        assert saved.measurements == 36 or saved.lost, f"bit {bit}: lost without a word"
        assert saved.measurements >= 36 - 16, f"bit {bit}: one bit costs at most a page"

        try:
            with Results.open(path) as results:
                results.begin(new)
        except (GemmsmithError, ResultsWarning):
            continue
        found, said = read(path)
        assert said or found == {**RUNS, "new": new}, f"bit {bit}: after writing"


def changed(path: Path, pristine: bytes, *statements: str) -> Path:
    path.write_bytes(pristine)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for statement in statements:
            raw.execute(statement)
    return path


@pytest.mark.parametrize(
    ("statement", "named", "left"),
    [
        ("UPDATE run SET gpu = 'NVIDIA H100' WHERE number = 2", "table run, row number 2", 30),
        (
            "UPDATE package SET version = '2.4' WHERE run = 2 AND position = 0",
            "table package, row run 2, position 0",
            30,
        ),
        ("UPDATE measurement SET m = 1025 WHERE number = 9", "table measurement, row number 9", 35),
        ("UPDATE timing SET median = median + 1e-9 WHERE measurement = 9", "table timing, row measurement 9", 35),
        ("UPDATE ratio SET baseline = 'cublaS' WHERE measurement = 9", "table ratio, row measurement 9", 35),
        ("UPDATE counter SET value = -value WHERE measurement = 9", "table counter, row measurement 9", 35),
        ("UPDATE throttle SET reason = 'Power' WHERE measurement = 9", "table throttle, row measurement 9", 35),
        ("UPDATE measurement SET alpha = 1 WHERE number = 9", "table measurement, row number 9", 35),  # not 1.0
        ("DELETE FROM timing WHERE measurement = 9", "table measurement, row number 9", 35),
        ("DELETE FROM measurement WHERE number = 9", "those of run 2: 6 were recorded, 5 are there", 35),
        ("UPDATE measurement SET run = 3 WHERE number = 9", "those of run 2: 6 were recorded, 5 are there", 35),
        ("UPDATE ledger SET runs = 7", "table ledger, row 1", 36),
        ("DELETE FROM ledger", "table ledger, row 1", 36),
    ],
)
def test_a_changed_row_is_named_and_the_others_are_read(
    statement: str, named: str, left: int, pristine: bytes, tmp_path: Path
) -> None:
    found, said = read(changed(tmp_path / "r.db", pristine, statement))
    assert named in said
    assert "gemmsmith history repair --db" in said
    assert genuine(found, of=RUNS)
    assert sum(len(each.measurements) for each in found.values()) == left


def test_a_run_that_vanished_is_named_and_a_deleted_one_is_not(pristine: bytes, tmp_path: Path) -> None:
    deleted = changed(tmp_path / "a.db", pristine, "PRAGMA foreign_keys = ON", "DELETE FROM run WHERE id = 'r2'")
    assert read(deleted) == ({name: each for name, each in RUNS.items() if name != "r2"}, "")
    vanished = changed(tmp_path / "b.db", pristine, "DROP TRIGGER run_deleted", "DELETE FROM run WHERE id = 'r2'")
    assert "the trigger run_deleted is missing" in read(vanished)[1]
    changed(tmp_path / "c.db", vanished.read_bytes(), MIGRATIONS[1][-1])
    assert "6 runs were recorded, 5 are there" in read(tmp_path / "c.db")[1]


def test_a_filter_does_not_hide_a_damaged_row(pristine: bytes, tmp_path: Path) -> None:
    path = changed(tmp_path / "r.db", pristine, "UPDATE measurement SET contender = 'kernal2' WHERE number = 9")
    with Results.open(path, read_only=True) as results, pytest.warns(ResultsWarning, match="row number 9"):
        assert len(results.measurements(contender="kernel2")) == 5


def test_damage_is_found_at_writing(pristine: bytes, tmp_path: Path) -> None:
    path = changed(tmp_path / "r.db", pristine, "UPDATE run SET host = 'node8' WHERE number = 2")
    with Results.open(path) as results:
        with pytest.warns(ResultsWarning, match="row number 2"):
            results.begin(run("new", day=20))
        results.add("new", measurement())
        results.add("r3", measurement("later"))
        with pytest.raises(ResultsError, match="measurements of run r2: not among the intact rows") as caught:
            results.add("r2", measurement())
    assert "history repair" in caught.value.hint
    assert len(read(path)[0]["r3"].measurements) == 7


def test_a_malformed_page_is_named_and_nothing_is_written_to_it(pristine: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    page = pristine.index(b"kernel3rungBM") // 4096
    broken = bytearray(pristine)
    broken[4096 * page : 4096 * page + 8] = b"\xff" * 8
    path.write_bytes(broken)
    found, said = read(path)
    assert "malformed" in said
    assert genuine(found, of=RUNS)
    with pytest.raises(ResultsError, match="is damaged"):
        Results.open(path)
    assert path.read_bytes() == broken


def test_an_older_file_gets_checksums_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    made_by_version_1(path)
    with pytest.warns(ResultsWarning, match="upgraded: its 78 rows have checksums"):
        Results.open(path).close()
    assert read(path) == ({"r1": RUNS["r1"], "r2": RUNS["r2"]}, "")


def test_an_older_file_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anything, so SQLite is told that the file is read-only."""
    from gemmsmith.store import database_file

    path = tmp_path / "r.db"
    made_by_version_1(path)
    before = path.read_bytes()
    monkeypatch.setattr(database_file, "_uri", lambda where, _mode: f"file:{where}?mode=ro")
    assert read(path) == ({"r1": RUNS["r1"], "r2": RUNS["r2"]}, "")
    assert path.read_bytes() == before


def made_by_version_1(path: Path) -> None:
    """A database as version 1 wrote it: the rows of today without the columns that were added."""
    with Results.open(path.with_suffix(".new")) as results:
        results.begin(RUNS["r1"])
        results.begin(RUNS["r2"])
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for statement in MIGRATIONS[0]:
            raw.execute(statement)
        raw.execute("ATTACH ? AS new", (str(path.with_suffix(".new")),))
        for table in ("run", "package", "measurement", "timing", "ratio", "counter", "throttle"):
            names = ", ".join(row[1] for row in raw.execute(f"PRAGMA main.table_info({table})"))
            raw.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM new.{table}")
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        raw.execute("PRAGMA user_version = 1")


# --- repair ----------------------------------------------------------------------------------------------------------


def test_an_intact_file_needs_no_repair(pristine: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(tmp_path / "r.db", pristine)
    assert run_command(["history", "repair", "--db", str(path)]) == 0
    assert "is intact: 6 runs, 36 measurements" in " ".join(capsys.readouterr().out.split())
    assert [each.name for each in tmp_path.iterdir()] == ["r.db"]


def test_repair_copies_what_is_intact_and_says_what_is_lost(
    pristine: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(tmp_path / "r.db", pristine, "UPDATE timing SET median = 0.0 WHERE measurement = 9")
    before = path.read_bytes()
    assert run_command(["history", "repair", "--db", str(path)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "table timing, row measurement 9, position 0: the checksum does not match" in said
    assert "run r2: 1 of 6 measurements" in said
    assert path.read_bytes() == before
    found, said = read(tmp_path / "r.repaired.db")
    assert said == ""
    assert genuine(found, of=RUNS)
    assert sum(len(each.measurements) for each in found.values()) == 35
    with pytest.raises(UsageError, match="exists; nothing was written"):
        repair(path, None)


def test_repair_of_a_damaged_header_loses_nothing(pristine: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    for start, size in ((0, 100), (0, 4096), (16, 2), (60, 4)):
        path.write_bytes(pristine[:start] + b"\x55" * size + pristine[start + size :])
        assert salvage(path).lost == ()
        assert {each.id: each for each in salvage(path).runs} == RUNS


def test_measurements_of_a_lost_run_are_kept(pristine: bytes, tmp_path: Path) -> None:
    path = changed(tmp_path / "r.db", pristine, "UPDATE run SET host = 'node8' WHERE number = 2")
    done = repair(path, tmp_path / "new.db")
    assert any("its measurements are kept under salvaged-2" in line for line in done.found.lost)
    assert read(tmp_path / "new.db")[0]["salvaged-2"].measurements == RUNS["r2"].measurements


def test_repair_of_a_damaged_older_file(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    made_by_version_1(path)
    broken = bytearray(path.read_bytes())
    broken[:100] = b"\0" * 100
    path.write_bytes(broken)
    found = salvage(path)
    assert not found.proved
    assert {each.id: each for each in found.runs} == {"r1": RUNS["r1"], "r2": RUNS["r2"]}


def test_repair_reads_the_journal_of_a_killed_writer(pristine: bytes, tmp_path: Path) -> None:
    path = changed(tmp_path / "r.db", pristine)
    with Results.open(path) as writer:
        writer.begin(run("r7", measurement(), day=7))
        for suffix in ("", "-wal"):
            (tmp_path / f"copy.db{suffix}").write_bytes((tmp_path / f"r.db{suffix}").read_bytes())
    assert [each.id for each in salvage(tmp_path / "copy.db").runs] == [*RUNS, "r7"]


def test_a_file_without_runs_is_not_repaired(tmp_path: Path) -> None:
    (tmp_path / "r.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
    with pytest.raises(ResultsError, match="nothing was written"):
        repair(tmp_path / "r.db", None)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UsageError, match="not a results database"):
        repair(tmp_path / "text", None)
    with pytest.raises(UsageError, match="there is no results database"):
        repair(tmp_path / "none.db", None)
    assert damage_of(tmp_path / "r.db")
    assert len(list(tmp_path.iterdir())) == 2


def test_the_checksum_tells_values_apart() -> None:
    rows = [("run", (1,), ("a",)), ("run", (2,), ("a",)), ("timing", (1,), ("a",)), ("run", (1,), (b"a",)),
            ("run", (1,), (0.0,)), ("run", (1,), (-0.0,)), ("run", (1,), (0,)), ("run", (1,), (None,)),
            ("run", (1,), ("",)), ("run", (1,), ("", "")), ("run", (), (1, ""))]  # fmt: skip
    assert len({checksum(*row) for row in rows} | {checksum(*rows[0], ["x"])}) == len(rows) + 1
    assert checksum("run", (1,), (float("nan"),)) == checksum("run", (1,), (None,)), "as SQLite stores it"
