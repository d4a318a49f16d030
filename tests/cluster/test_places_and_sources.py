"""Where tasks run, and the files that travel with them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import environment

from gemmsmith.cli.main import run_command
from gemmsmith.cluster.journal import NoJournal
from gemmsmith.cluster.local import LocalExecutor
from gemmsmith.cluster.on_ray import connect
from gemmsmith.cluster.place import Place, place_named
from gemmsmith.cluster.runner import Runner
from gemmsmith.cluster.sources import below, pack, unpack
from gemmsmith.cluster.task import Task
from gemmsmith.errors import GemmsmithError, UsageError


def test_places() -> None:
    assert place_named("local:4") == Place("local", 4)
    assert place_named("ray") == Place("ray")
    assert place_named("ray://head:10001") == Place("ray", 1, "head:10001")
    assert place_named("ray://[::1]:10001").address == "[::1]:10001"
    assert [str(place_named(text)) for text in ("local:4", "ray", "ray://h:1", "here")] == [
        "local:4", "ray", "ray://h:1", "here"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [("lokal:2", "is not a place"), ("local", "has no number of processes"), ("local:0", "0 processes"),
     ("local:-1", "has no number"), ("ray://", "has no host and port"), ("ray://host", "has no host and port"),
     ("ray://host:99999", "is not a port"), ("local:99999", "99999 processes")],
)  # fmt: skip
def test_a_wrong_place_is_one_line(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["verify", "naive", "--on", text]) == 2
    assert said in capsys.readouterr().err


def test_an_address_where_nothing_answers() -> None:
    pytest.importorskip("ray")
    with pytest.raises(GemmsmithError, match=r"nothing answers at ray://127.0.0.1:9"):
        connect(place_named("ray://127.0.0.1:9"))


@pytest.mark.parametrize(("refusals", "message", "asked"), [
    (2, "Initialization failure from server:\nno", 3),
    (9, "Initialization failure from server:\nno", 3),
    (9, "the versions differ", 1),
])  # fmt: skip
def test_a_busy_head_is_asked_again(
    refusals: int, message: str, asked: int, monkeypatch: pytest.MonkeyPatch, listening_port: int
) -> None:
    ray = pytest.importorskip("ray")
    calls: list[str] = []

    def init(address: str, **_: object) -> None:
        calls.append(address)
        if len(calls) <= refusals:
            raise ConnectionAbortedError(message)

    monkeypatch.setattr(ray, "init", init)
    place = Place("ray", 1, f"127.0.0.1:{listening_port}")
    if refusals < asked:
        assert connect(place)[1]
    else:
        with pytest.raises(GemmsmithError, match="no Ray cluster answers"):
            connect(place)
    assert calls == [f"ray://{place.address}"] * asked


@pytest.fixture
def listening_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_without_ray_a_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(GemmsmithError) as caught:
        connect(place_named("ray"))
    assert (caught.value.exit_code, caught.value.hint) == (3, "pip install 'gemmsmith[cluster]'")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    for name, text in (("src/a.cu", '#include "../inc/t.cuh"\n#include "list.x"\n'), ("inc/t.cuh", "#define T 16\n"),
                       ("src/list.x", "X(1)\n"), ("notes.md", "no source"), (".git/config", "secret")):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_a_repository_travels_by_content(repository: Path, tmp_path: Path) -> None:
    tree = pack([repository / "src" / "a.cu"])
    there = tmp_path / "there"
    unpack(tree.data, there)
    found = sorted(path.relative_to(there) for path in there.rglob("*") if path.is_file())
    inside = Path(*repository.parts[1:])
    assert found == [inside / "inc" / "t.cuh", inside / "src" / "a.cu", inside / "src" / "list.x"]
    assert (there / inside / ".git").is_dir()
    assert pack([repository / "src" / "a.cu"]).digest == tree.digest
    (repository / "inc" / "t.cuh").write_text("#define T 32\n", encoding="utf-8")
    assert pack([repository / "src" / "a.cu"]).digest != tree.digest


def test_of_a_folder_that_is_no_repository_only_what_is_included_travels(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name, text in (("a.cu", '#include "parts/one.h"'), ("parts/one.h", '#include "two.h"'), ("parts/two.h", ""),
                       ("parts/three.h", ""), ("other/b.cu", "")):  # fmt: skip
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    unpack(pack([home / "a.cu"]).data, tmp_path / "there")
    found = sorted(path.name for path in (tmp_path / "there").rglob("*") if path.is_file())
    assert found == ["a.cu", "one.h", "two.h"]


def test_no_path_leads_out_of_a_tasks_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        below(tmp_path, "/../../etc/passwd")


def test_a_task_reads_files_by_the_paths_that_the_driver_knows(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    tree = pack([Path("src/a.cu")])
    (repository / "src" / "a.cu").unlink()  # the task has its own
    executor = LocalExecutor(1, "small_tasks", environment={"PYTHONPATH": environment()["PYTHONPATH"]})
    executor.share(tree)
    try:
        tasks = [Task("read", {"path": path}, path, tree.digest)
                 for path in ("src/a.cu", str(repository / "inc" / "t.cuh"))]  # fmt: skip
        results = Runner(executor, NoJournal()).run(tasks, "test", "local:1")
    finally:
        executor.close()
    assert results[0].value == {"text": '#include "../inc/t.cuh"\n#include "list.x"\n',
                                "at": os.path.realpath("src/a.cu")}  # fmt: skip
    assert results[1].value["text"] == "#define T 16\n"
