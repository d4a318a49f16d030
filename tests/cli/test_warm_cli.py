"""gemmsmith warm: what is compiled, for which GPU, and what it says about wrong arguments; kernels in the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import main
from gemmsmith.compile import compiler
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.prebuilt import prebuilt
from gemmsmith.ladder.registry import rung_named
from gemmsmith.ladder.stand_in import stand_in
from gemmsmith.problem import BF16, FP32, Problem
from gemmsmith.tune import warm as warm_module


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["warm", *words])
    return int(ended.value.code or 0)


def test_kernels_are_compiled_into_a_folder_and_found_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a release does for a wheel: the entries of a folder, read by their keys."""
    folder = tmp_path / "prebuilt"
    words = ("--shapes", "64x64x64,70x64x64", "--dtype", "fp32", "--layout", "NN", "--gpu", "RTX 4090", "--into",
             str(folder), "--jobs", "1", "--json")  # fmt: skip
    assert run(*words) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["products"], said["kernels"], said["compiled"], said["failed"]) == (2, 1, 1, [])
    assert run(*words[:-1]) == 0
    assert "2 products need 1 kernel on RTX 4090: nothing to compile" in capsys.readouterr().out
    (entry,) = folder.glob("*.kernel")
    found = prebuilt(entry.stem, folder)
    assert found is not None
    assert found.arch == "sm_89"
    assert prebuilt("0" * 64, folder) is None
    assert prebuilt(entry.stem, tmp_path / "none") is None
    asked: list[str] = []

    def from_package(key: str) -> Any:
        asked.append(key)
        return found

    monkeypatch.setattr(compiler, "prebuilt", from_package)
    monkeypatch.setenv("GEMMSMITH_CACHE_DIR", str(tmp_path / "cache"))  # other tests have compiled it, too
    spec = rung_named("naive")
    assert compiler.compile_kernel(spec, spec.config(), dtype=FP32, arch="sm_86") is found  # no compiler ran
    assert len(asked) == 1


def test_first_calls_of_any_shape_find_their_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--first-calls", "--dtype", "bf16,int8", "--gpu", "H200", "--into", str(tmp_path), "--jobs", "1", "--json")
    assert run(*words) == 0
    said = json.loads(capsys.readouterr().out)
    assert [job["kernel"] for job in said["jobs"]] == ["stand-in of wgmma_split_k"] * 4  # two outputs, with a bias
    assert len(list(tmp_path.glob("*.kernel"))) == 4
    rung, problem = rung_named("wgmma_split_k"), Problem(33, 700, 129, BF16, BF16, trans_b=True)
    other = stand_in(rung, rung.config({"SPLIT": 4, "BN": 16}), problem)
    assert other is not None
    store = CompileCache(tmp_path)
    assert compiler.compile_for(other, other.config(), problem, "sm_90", store).cached


def test_a_kernel_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(warm_module, "compile_launches", lambda *_: ("no room", 0))
    assert run("--shapes", "64x64x64", "--layout", "NN", "--gpu", "H200", "--jobs", "1") == 1
    said = capsys.readouterr().out
    assert "1 product needs 1 kernel on H200" in said
    assert "no room" in said


@pytest.mark.parametrize(("words", "said"), [
    ((), "pass either --shapes or --model"),
    (("--shapes", "1x1x1", "--model", "m:f"), "pass either --shapes or --model"),
    (("--shapes", "64x64x64", "--layout", "XY"), "unknown layout 'XY'"),
    (("--shapes", "64x64"), "64x64"),
])  # fmt: skip
def test_wrong_arguments(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert said in capsys.readouterr().err
