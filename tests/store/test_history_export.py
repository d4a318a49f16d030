"""gemmsmith history export: three formats that agree, filters, and what is never overwritten."""

from __future__ import annotations

import builtins
import csv
import json
import math
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from measured_runs import measurement, run, timing
from recorded_database import record

from gemmsmith.store import export as export_module

SWEEP = run(
    "r1",
    measurement(timings=(timing(100.0), timing(90.0, "stream", "hot"))),
    measurement("lie", timings=(), ratios=(), overhead=math.inf, counters=(("spill_bytes", 8.0),), verified=False),
    command='bench \udcff, "quoted"\nnew line',
)


TABLES = ("run", "package", "measurement", "timing", "ratio", "counter", "throttle")


def rows_of(path: Path, kind: str) -> list[dict[str, Any]]:
    """The exported table as other programs read it; CSV values are text."""
    if kind == "csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    if kind == "json":
        found = json.loads(path.read_text(encoding="utf-8"))
        assert all(list(row) == found["columns"] for row in found["rows"])
        return found["rows"]
    from pyarrow import parquet

    return parquet.read_table(path).to_pylist()


def as_text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_three_formats_agree(say: Any, db: Path, tmp_path: Path) -> None:
    record(db, SWEEP)
    found = {}
    for kind in ("csv", "json", "parquet"):
        path = tmp_path / f"out.{kind}"
        assert say("export", "--out", str(path))[0] == 0
        found[kind] = rows_of(path, kind)
        assert [p.name for p in tmp_path.glob("*out*")] == [f"out.{kind}"], "no temporary file stays"
        path.unlink()
    assert found["json"] == found["parquet"]
    assert [{k: as_text(v) for k, v in row.items()} for row in found["json"]] == found["csv"]
    first, second, third = found["json"]
    assert [(r["mode"], r["cache"]) for r in found["json"]] == [("graph", "cold"), ("stream", "hot"), (None, None)]
    assert first["median"] == SWEEP.measurements[0].timings[0].median
    assert first["tflops"] == SWEEP.measurements[0].tflops
    assert second["tflops"] == pytest.approx(first["tflops"] * 100 / 90)
    assert (first["run"], first["layout"], first["throttled"], first["m"]) == ("r1", "NN", "power", 1024)
    assert (first["package.torch"], first["ratio.cublas"], first["ratio.cublas.low"]) == ("2.11", 0.93, 0.92)
    assert (first["counter.registers"], first["counter.spill_bytes"]) == (128.0, None)
    assert (third["contender"], third["verified"], third["overhead"], third["median"]) == ("lie", False, None, None)
    assert third["counter.spill_bytes"] == 8.0
    assert first["command"] == 'bench \\udcff, "quoted"\nnew line'


def test_the_view_agrees_with_the_export(say: Any, db: Path, tmp_path: Path) -> None:
    record(db, SWEEP)
    say("export", "--out", str(tmp_path / "out.json"))
    exported = rows_of(tmp_path / "out.json", "json")
    with closing(sqlite3.connect(db)) as raw:
        raw.row_factory = sqlite3.Row
        viewed = [dict(row) for row in raw.execute("SELECT * FROM result")]
    assert len(viewed) == len(exported) == 3
    for ours, theirs in zip(exported, viewed, strict=True):
        del theirs["command"]
        assert theirs.pop("tflops") == pytest.approx(ours["tflops"])
        assert theirs == {name: ours[name] for name in theirs}


def test_the_queries_of_the_manual_run(db: Path) -> None:
    record(db, SWEEP, run("r2", measurement(size=4096), day=16))
    text = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    queries = re.findall(r"^SELECT [^;]*;", text, re.M)
    with closing(sqlite3.connect(db)) as raw:
        best, over_time, registers = (raw.execute(query).fetchall() for query in queries)
        raw.execute("PRAGMA foreign_keys = ON")
        raw.execute("DELETE FROM run WHERE id = 'r1'")
        left = {name: raw.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES}
    assert [row[:2] for row in best] == [("NVIDIA H200", "warp_tile")]
    assert [row[0] for row in over_time] == ["2026-11-16T08:30:00+00:00"]
    assert len(registers) == 2
    assert left == {"run": 1, "package": 2, "measurement": 1, "timing": 1, "ratio": 1, "counter": 2, "throttle": 1}
    assert all(f"**{name}**" in text for name in TABLES)


def test_filtered_export(say: Any, db: Path, tmp_path: Path) -> None:
    record(db, SWEEP, run("r2", measurement("naive", size=64), day=16))
    path = tmp_path / "out.json"

    def rows(*options: str) -> int:
        code, out, err = say("export", "--out", str(path), "--force", "--json", *options)
        assert code == 0, err
        assert json.loads(out)["rows"] == len(rows_of(path, "json"))
        return len(rows_of(path, "json"))

    assert rows() == 4
    assert rows("--run", "r2") == 1
    assert rows("--contender", "lie") == 1
    assert rows("--shape", "64") == rows("--shape", "64x64x64") == 1
    assert rows("--since", "2026-11-16") == 1
    assert rows("--gpu", "h200", "--dtype", "fp32") == 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "no measurement in {db}"),
        (("--gpu", "A100", "--dtype", "bf16"), "no measurement in {db} matches --dtype bf16 --gpu A100"),
    ],
)
def test_an_empty_export_is_reported(options: tuple[str, ...], says: str, say: Any, db: Path, tmp_path: Path) -> None:
    if options:
        record(db, SWEEP)
    (tmp_path / "out.csv").write_text("precious")
    code, out, err = say("export", "--out", str(tmp_path / "out.csv"), "--force", *options)
    assert (code, out) == (2, "")
    assert f"error: {says.format(db=db)} nothing was written" in " ".join(err.split())
    assert (tmp_path / "out.csv").read_text() == "precious"


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_an_empty_table_has_columns_and_no_rows(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    export_module.write_table(export_module.flat_table(()), kind, path)
    assert rows_of(path, kind) == []
    assert b"median" in path.read_bytes()


def test_nothing_is_overwritten_without_force(
    say: Any, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(db, SWEEP)
    path = tmp_path / "out.csv"
    path.write_text("precious")
    code, _, err = say("export", "--out", str(path))
    assert code == 2
    assert "--force" in err
    assert path.read_text() == "precious"
    # The file appears between the check and the write.
    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", lambda _self: False)
        assert say("export", "--out", str(path))[0] == 2
    assert path.read_text() == "precious"
    assert say("export", "--out", str(path), "--force")[0] == 0
    assert len(rows_of(path, "csv")) == 3
    assert [p.name for p in tmp_path.glob("*out*")] == ["out.csv"]


@pytest.mark.parametrize("function", ["open", "fsync", "replace"])
def test_a_failed_write_keeps_the_old_file(
    function: str, say: Any, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(db, SWEEP)
    path = tmp_path / "out.csv"
    path.write_text("precious")

    def full(*_arguments: Any, **_options: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export_module.os, function, full)
        code, _, err = say("export", "--out", str(path), "--force")
    assert code == 3
    assert "No space left on device" in " ".join(err.split())
    assert path.read_text() == "precious"
    assert [p.name for p in tmp_path.glob("*out*")] == ["out.csv"]


def test_without_hard_links_the_file_is_renamed(
    say: Any, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(db, SWEEP)

    def unable(*_arguments: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", unable)
    assert say("export", "--out", str(tmp_path / "out.csv"))[0] == 0
    assert [p.name for p in tmp_path.glob("*out*")] == ["out.csv"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--out", "x.xls"), 2, "unknown format 'xls'"),
        (("--out", "x"), 2, "unknown format ''"),
        (("--out", "no/folder/x.csv"), 2, "there is no folder no/folder"),
        (("--out", "/nope/x.csv"), 2, "there is no folder /nope"),
        (("--out", "data", "--format", "csv", "--force"), 2, "data is a folder"),
        (("--out", "x.csv", "--dtype", "foo"), 2, "unknown data type 'foo'"),
        (("--out", "x.csv", "--shape", "12x"), 2, "not a shape"),
        (("--out", "x.csv", "--since", "today"), 2, "not a date"),
        (("--out", "x.csv", "--run", "zzz"), 2, "no run"),
        ((), 2, "--out"),
    ],
)
def test_wrong_exports_are_refused(
    arguments: tuple[str, ...],
    code: int,
    says: str,
    say: Any,
    db: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record(db, SWEEP)
    monkeypatch.chdir(tmp_path)
    found, _, err = say("export", *arguments)
    assert found == code
    assert says in err
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


def test_parquet_without_pyarrow(say: Any, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(db, SWEEP)
    real = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name == "pyarrow" or name.startswith("pyarrow."):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    code, _, err = say("export", "--out", str(tmp_path / "x.parquet"))
    assert code == 3
    assert "pip install '.[parquet]'" in err
    assert not (tmp_path / "x.parquet").exists()
