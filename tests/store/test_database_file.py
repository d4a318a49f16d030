"""The file of the results database: where it is, upgrades, damage, full disks, locks and permissions."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from measured_runs import measurement, run

from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.store import database_errors, database_file, database_upgrade
from gemmsmith.store.database import Results
from gemmsmith.store.database_errors import ResultsError, ResultsWarning
from gemmsmith.store.database_file import default_path, file_system
from gemmsmith.store.database_schema import MIGRATIONS


def filled(path: Path) -> Path:
    with Results.open(path) as results:
        results.begin(run("r1", measurement()))
    return path


def test_default_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMMSMITH_DB", str(tmp_path / "new" / "deep" / "mine.db"))
    assert default_path() == tmp_path / "new" / "deep" / "mine.db"
    with Results.open() as results:
        assert results.path == default_path()
    assert (tmp_path / "new" / "deep").stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("GEMMSMITH_DB", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "gemmsmith" / "results.db"


def test_unusual_file_names_work(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory#b%20c\udcff.db"
    filled(path)
    assert path.exists()
    with Results.open(path, read_only=True) as results:
        assert results.ids() == ("r1",)


def test_only_one_file_remains_after_closing(tmp_path: Path) -> None:
    filled(tmp_path / "r.db")
    assert [p.name for p in tmp_path.iterdir()] == ["r.db"]


def test_reading_a_missing_file_creates_nothing(tmp_path: Path) -> None:
    with Results.open(tmp_path / "no" / "r.db", read_only=True) as results:
        assert results.runs() == ()
        with pytest.raises(UsageError, match="no runs in"):
            results.run("latest")
    assert not list(tmp_path.iterdir())


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    with (
        Results.open(filled(tmp_path / "r.db"), read_only=True) as results,
        pytest.raises(ResultsError, match="no permission to write"),
    ):
        results.add("r1", measurement())


@pytest.mark.parametrize(
    ("kind", "mode"), [("ext4", "wal"), ("nfs4", "delete"), ("fuse.sshfs", "delete"), ("", "delete")]
)
def test_wal_only_on_local_file_systems(kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_file, "file_system", lambda _folder: kind)
    with Results.open(filled(tmp_path / "r.db")) as results:
        assert results._connection.execute("PRAGMA journal_mode").fetchone() == (mode,)
        assert results._connection.execute("PRAGMA synchronous").fetchone() == (3,), "EXTRA"
        results.begin(run("r2"))
    monkeypatch.setattr(database_file, "file_system", lambda _folder: "nfs4" if mode == "wal" else "xfs")
    with Results.open(tmp_path / "r.db") as results:  # the file has moved to another file system
        assert results._connection.execute("PRAGMA journal_mode").fetchone() != (mode,)
        assert results.ids() == ("r2", "r1")


def test_a_local_file_system_without_shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unable(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            if sql == "PRAGMA journal_mode = wal":
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMMAP
                raise error
            return super().execute(sql, *rest)

    real = sqlite3.connect
    monkeypatch.setattr(database_file.sqlite3, "connect", lambda *a, **k: real(*a, factory=Unable, **k))
    monkeypatch.setattr(database_file, "file_system", lambda _folder: "xfs")
    with Results.open(filled(tmp_path / "r.db")) as results:
        assert results._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert results.ids() == ("r1",)


MOUNTS = r"""/dev/sda / ext4 rw 0 0
tmpfs /home tmpfs rw 0 0
server:/x /home/me nfs4 rw 0 0
/dev/sdb /home/me/a\040disk xfs rw 0 0
/dev/sdc /home/me/a\040disk btrfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/", "ext4"), ("/homely", "ext4"), ("/home/you", "tmpfs"), ("/home/me/.local", "nfs4"),
     ("/home/me/a disk/x", "btrfs")],
)  # fmt: skip
def test_the_file_system_of_a_folder(folder: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_a, **_k: MOUNTS)
    monkeypatch.setattr(Path, "resolve", lambda self: self)
    assert file_system(Path(folder)) == kind


# --- versions -------------------------------------------------------------------------------------------------------


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = filled(tmp_path / "r.db")
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(ResultsError, match="newer gemmsmith") as caught:
            Results.open(path, read_only=read_only)
        assert "upgrade" in caught.value.hint
    assert path.read_bytes() == before


STEP = ("ALTER TABLE run ADD COLUMN note TEXT NOT NULL DEFAULT 'none'", "CREATE TABLE extra (x)")


@pytest.mark.parametrize("read_only", [False, True])
def test_an_older_schema_is_migrated(read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "r.db")
    monkeypatch.setattr(database_upgrade, "MIGRATIONS", (*MIGRATIONS, STEP))
    with Results.open(path, read_only=read_only) as results:
        assert results._connection.execute("SELECT note FROM run").fetchall() == [("none",)]
        assert results._connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS) + 1,)
        assert results.run("r1") == run("r1", measurement())


def test_a_failed_migration_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "r.db")
    with monkeypatch.context() as patch:
        patch.setattr(database_upgrade, "MIGRATIONS", (*MIGRATIONS, (*STEP, "CREATE TABLE run (x)")))
        with pytest.raises(ResultsError):
            Results.open(path)
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert raw.execute("SELECT count(*) FROM sqlite_master WHERE name = 'extra'").fetchone() == (0,)
        assert "note" not in [row[1] for row in raw.execute("PRAGMA table_info(run)")]
    with Results.open(path) as results:
        assert results.run("r1") == run("r1", measurement())


def test_released_migrations_are_never_edited() -> None:
    import hashlib

    digests = [hashlib.sha256("\n".join(step).encode()).hexdigest()[:16] for step in MIGRATIONS]
    assert digests == ["2970c911cec0d9e3", "d11ee923bd8b6fae", "f031f88c90403ca1"], (
        "databases out there have the old tables: add a step instead"
    )


# --- failures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"hello", b"x" * 5000, b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 4080])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_another_kind_is_left_alone(content: bytes, read_only: bool, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    ours = content.startswith(b"SQLite")  # then it is damaged; else it was never a results database
    with pytest.raises(GemmsmithError, match="is damaged" if ours else "is not a results database") as caught:
        Results.open(path, read_only=read_only)
    assert caught.value.exit_code == (3 if ours else 2)
    assert "--db" in caught.value.hint
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / "r.db").touch()
    filled(tmp_path / "r.db")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE run (x)")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(UsageError, match="another program"):
            Results.open(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_folder_or_file_in_the_way_is_refused(tmp_path: Path) -> None:
    for read_only in (False, True):
        with pytest.raises(UsageError, match="is a folder"):
            Results.open(tmp_path, read_only=read_only)
    (tmp_path / "file").touch()
    with pytest.raises(ResultsError, match="cannot make the folder"):
        Results.open(tmp_path / "file" / "r.db")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("pristine") / "r.db"
    with Results.open(path) as results:
        for number in range(8):
            results.begin(run(f"r{number}", *[measurement(f"kernel{i}") for i in range(8)]))
    return path.read_bytes()


def test_corrupt_pages_are_reported_as_damage(pristine: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    path.write_bytes(pristine[:4096] + b"\xff" * (len(pristine) - 4096))
    before = path.read_bytes()
    with (
        pytest.raises(ResultsError, match=r"r\.db is damaged") as caught,
        Results.open(path, read_only=True) as results,
    ):
        results.runs()
    assert "history repair" in caught.value.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    ["command = CAST(x'ff' AS TEXT)", "command = x'ff'", "gpu = CAST(x'ff' AS TEXT)"],
)
def test_invalid_text_is_reported_as_damage(change: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(filled(tmp_path / "r.db"), isolation_level=None)) as raw:
        raw.execute(f"UPDATE run SET {change}")
    with Results.open(tmp_path / "r.db") as results:
        with pytest.warns(ResultsWarning, match="is damaged: table run, row number 1: the checksum"):
            assert results.runs() == ()
        with pytest.raises(ResultsError, match=r"run r1: not among the intact rows .* is damaged"):
            results.run("r1")


@pytest.mark.parametrize("at", [12, 51])
def test_an_invalid_schema_is_reported_as_damage(at: int, pristine: bytes, tmp_path: Path) -> None:
    """SQLite's message quotes it, and Python cannot decode the message."""
    start = pristine.index(b"CREATE TABLE run") + at
    (tmp_path / "r.db").write_bytes(pristine[:start] + b"\x80" + pristine[start + 1 :])
    with pytest.raises(ResultsError, match="is damaged"), Results.open(tmp_path / "r.db", read_only=True) as results:
        results.runs()


HOLES = st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 600), st.integers(0, 255)), max_size=4)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOLES, st.none() | st.integers(1, 2**20))
def test_damage_is_an_error_message_not_a_traceback(
    pristine: bytes, tmp_path: Path, holes: list[tuple[int, int, int]], length: int | None
) -> None:
    broken = bytearray(pristine)
    for place, size, value in holes:
        start = place % len(broken)
        end = min(start + size, len(broken))
        broken[start:end] = bytes([value]) * (end - start)
    if length is not None:
        del broken[length % len(broken) :]
    path = tmp_path / f"{uuid.uuid4()}.db"
    path.write_bytes(broken)
    with suppress(GemmsmithError, ResultsWarning), Results.open(path, read_only=True) as results:
        results.runs()
        results.measurements(contender="kernel3")
    with suppress(GemmsmithError, ResultsWarning), Results.open(path) as results:
        results.begin(run("r9", measurement()))
    for left in tmp_path.glob(f"{path.name}*"):
        left.unlink()


def test_a_full_disk_loses_no_records(tmp_path: Path) -> None:
    """With a file-size limit, which the kernel enforces like a full disk."""
    path = filled(tmp_path / "r.db")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    added = 0
    with Results.open(path) as results:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
        message = ""
        try:
            while added < 10_000:
                results.add("r1", measurement(counters=tuple((f"c{i}", float(i)) for i in range(200))))
                added += 1
        except ResultsError as error:
            message = error.message
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)
        assert "earlier records are intact" in message
        assert len(results.run("r1").measurements) == 1 + added
        results.add("r1", measurement())  # space again
    with Results.open(path) as results:
        assert len(results.run("r1").measurements) == 2 + added
        assert results._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert added > 1


def test_sqlites_error_for_a_full_disk(tmp_path: Path) -> None:
    with Results.open(filled(tmp_path / "r.db")) as results:
        (pages,) = results._connection.execute("PRAGMA page_count").fetchone()
        results._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(ResultsError, match="no space left"):
            results.begin(run("r2", *[measurement()] * 100))
        assert results.ids() == ("r1",)


def test_a_lock_that_is_never_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_errors, "PATIENCE", 0.05)
    monkeypatch.setattr(database_file, "_SQLITE_WAIT", 0.01)
    path = filled(tmp_path / "r.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Results.open(path) as results:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ResultsError, match=r"locked the results database .* for 0\.05 s"):
            results.add("r1", measurement())
        other.execute("ROLLBACK")
        results.add("r1", measurement())
        assert len(results.run("r1").measurements) == 2


# --- permissions ----------------------------------------------------------------------------------------------------


@contextmanager
def nobody() -> Iterator[None]:
    """Root may write anything, so switch to another user temporarily."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users can access, unlike pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def test_a_read_only_file(public: Path) -> None:
    path = filled(public / "r.db")
    path.chmod(0o444)
    with nobody():
        with Results.open(path, read_only=True) as results:
            assert results.run("r1") == run("r1", measurement())
        with pytest.raises(ResultsError, match=r"no permission to write|cannot open"), Results.open(path) as results:
            results.begin(run("r2"))
    with Results.open(path, read_only=True) as results:
        assert results.ids() == ("r1",)


@pytest.mark.parametrize("kind", ["ext4", "nfs4"])
def test_a_read_only_folder(kind: str, public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_file, "file_system", lambda _folder: kind)
    path = filled(public / "r.db")
    path.chmod(0o444)
    public.chmod(0o555)
    with nobody():
        with Results.open(path, read_only=True) as results:
            assert results.run("r1") == run("r1", measurement())
        with pytest.raises(ResultsError, match=r"no permission to write|cannot open"), Results.open(path) as results:
            results.begin(run("r2"))
        with pytest.raises(ResultsError, match="cannot open"):
            Results.open(public / "new.db")
        with pytest.raises(ResultsError, match="cannot make the folder"):
            Results.open(public / "new" / "new.db")


def test_a_folder_without_permission(public: Path) -> None:
    path = filled(public / "r.db")
    public.chmod(0o600)
    with nobody(), pytest.raises(ResultsError, match="cannot read"):
        Results.open(path, read_only=True)


def test_a_killed_writers_wal_in_a_read_only_folder_is_an_error(public: Path) -> None:
    """Its last transactions are in the WAL file, which cannot be replayed there: refuse rather than return old data."""
    path = filled(public / "r.db")
    with Results.open(path) as writer:
        writer.begin(run("r2", day=16))
        for name in ("r.db", "r.db-wal"):
            shutil.copy(public / name, public / f"copy-{name}")
    public.chmod(0o555)
    with nobody(), suppress(ResultsError), Results.open(public / "copy-r.db", read_only=True) as results:
        assert results.ids() == ("r2", "r1")
