"""Words that name a kernel, a GPU or a suite: numbers, other spellings, near misses, and paths that are no kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.kernels import is_file, rung_from
from gemmsmith.cli.main import run_command
from gemmsmith.cli.names import did_you_mean, gpu_from, shapes_from
from gemmsmith.cli.options.kernel import find_kernel
from gemmsmith.errors import UnknownKernelError, UsageError
from gemmsmith.gpus import gpus
from gemmsmith.ladder.registry import rungs
from gemmsmith.shapes import SUITES

KERNEL = "__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {}\n"


def test_every_rung_has_a_number_and_a_name_in_any_case() -> None:
    for spec in rungs():
        for word in (str(spec.rung), f"{spec.rung:02}", spec.name, spec.name.upper(), spec.name.replace("_", "-")):
            assert rung_from(word) is spec, word


@pytest.mark.parametrize("word", ["10", "WARP_TILE", "Warp-Tile"])
def test_show_takes_them(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["show", word, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "warp_tile"


@pytest.mark.parametrize(("word", "hint"), [
    ("0", "rungs 1 to "), ("99", "rungs 1 to "), ("1000000010", "rungs 1 to "), ("warp_tle", "did you mean warp_tile?"),
    ("WARP_TLE", "did you mean warp_tile?"), ("zzz", "the rungs: naive, "),
])  # fmt: skip
def test_an_unknown_rung_is_refused_with_the_nearest(word: str, hint: str) -> None:
    with pytest.raises(UnknownKernelError) as caught:
        find_kernel(word)
    assert hint in caught.value.hint
    assert word in caught.value.message


def test_a_very_long_word_is_cut() -> None:
    with pytest.raises(UnknownKernelError) as caught:
        find_kernel("a" * 5000)
    assert len(caught.value.message) < 120


@pytest.mark.parametrize(("word", "near"), [("h2000", "H200"), ("H1000", "H100"), ("409", "RTX 4090")])
def test_an_unknown_gpu_is_refused_with_the_nearest(word: str, near: str) -> None:
    with pytest.raises(UsageError, match="unknown GPU") as caught:
        gpu_from(word)
    assert caught.value.hint.startswith("did you mean ")
    assert near in caught.value.hint.partition("?")[0]
    assert all(gpu.name in caught.value.hint for gpu in gpus())


def test_an_unknown_suite_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown shape suite 'skiny'") as caught:
        shapes_from("64,skiny")
    assert caught.value.hint.startswith("did you mean skinny? ")
    assert shapes_from("skinny,64") == (*SUITES["skinny"].shapes, (64, 64, 64))


@pytest.mark.parametrize("command", [
    "profile naive --gpu H2OO", "explain naive --gpu H2OO", "compare naive wmma --gpu H2OO", "climb --gpu H2OO",
    "report --gpu H2OO", "occupancy naive --gpu H2OO", "sweep naive --vary TILE=8 --gpu H2OO --device sim --no-db",
    "sweep naive --vary TILE=8 --shapes skiny --no-db", "bench naive --shapes skiny", "tune --shapes skiny",
    "run naive --device smi", "run naive --confg TILE=8", "run naive --jsn", "lsit", "sweep --experiment paddin",
    "history export --out x.jsn",
])  # fmt: skip
def test_every_command_suggests(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(command.split()) == 2
    said = capsys.readouterr()
    assert "did you mean " in said.err
    assert said.out == ""


def test_nothing_is_suggested_for_a_word_like_no_other() -> None:
    assert did_you_mean("qqq", ["naive", "wmma"]) == ""
    assert did_you_mean("WMMAS", ["naive", "wmma"]) == "did you mean wmma? "


# --- paths


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "a.cu").write_text(KERNEL)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.md").write_text("Notes\n")
    (tmp_path / "program").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "mine.txt").write_text(KERNEL)
    (tmp_path / "naive").mkdir()
    return tmp_path


@pytest.mark.parametrize(("word", "message", "hint"), [
    ("kernels", "kernels is a directory, not a .cu file", "it holds a.cu"),
    ("./empty", "empty is a directory, not a .cu file", "it holds none"),
    ("notes.md", "notes.md is a text file without a __global__ function", "name of a rung"),
    ("./program", "program is a binary file without a __global__ function", "name of a rung"),
    ("./nothing.cu", "there is no file nothing.cu", "name of a rung"),
    ("/dev/null", "is not a regular file", ".cu file"),
])  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_what_is_no_kernel_is_named(word: str, message: str, hint: str) -> None:
    with pytest.raises(UnknownKernelError) as caught:
        find_kernel(word)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.usefixtures("folder")
def test_a_rung_goes_before_a_directory_of_its_name_and_any_file_with_a_kernel_will_do() -> None:
    assert not is_file("naive")
    assert is_file("./naive")
    assert find_kernel("naive")[0].is_rung
    assert find_kernel("mine.txt")[0].entry == "mine"


@pytest.mark.parametrize("command", ["run", "check", "verify", "show", "profile", "explain", "occupancy", "accuracy",
                                     "bench", "sweep --vary TILE=8", "compare naive"])  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_every_command_says_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = [] if command == "check" else [("kernels", "is a directory")]  # check takes folders
    for word, kind in (*folder, ("notes.md", "is a text file")):
        assert run_command([*command.split(), word]) == 2
        assert kind in capsys.readouterr().err
