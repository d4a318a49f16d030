"""gemmsmith warm: what is compiled, for which GPU, and what it says about wrong arguments; kernels in the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import main
from gemmsmith.compile import compiler
from gemmsmith.compile.prebuilt import prebuilt
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32
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
    assert (said["products"], said["kernels"], said["failed"]) == (2, 1, [])
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


def test_a_kernel_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(warm_module, "compile_product", lambda *_: "no room")
    assert run("--shapes", "64x64x64", "--layout", "NN", "--gpu", "H200", "--jobs", "1") == 1
    said = capsys.readouterr().out
    assert "1 products need 1 kernels on H200" in said
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
