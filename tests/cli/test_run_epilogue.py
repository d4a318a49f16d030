"""gemmsmith run with output types, batches, bias and activation: output, and lines that repeat a failure."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.commands import run as run_module
from gemmsmith.cli.main import run_command
from gemmsmith.cli.options.kernel import find_kernel
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec

SIZE = ["--m", "17", "--n", "19", "--k", "24", "--device", "sim"]
# Configurations that compile quickly.
SMALL = {
    "warp_tile": "-DBM=64 -DBN=64 -DBK=8 -DWM=64 -DWN=32 -DWNITER=2 -DTM=4 -DTN=4 -DUNROLL=2",
    "wmma": "-DBM=64 -DBN=64 -DBK=16 -DWM=32 -DWN=32",
    "mma_swizzled": "-DBM=64 -DBN=64 -DBK_BYTES=32 -DWM=32 -DWN=32",
}
ALL = "--dtype bf16 --out-dtype bf16 --batch 3 --share-b --bias row --activation silu --trans-b --beta 0.5"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = run_command([*arguments, "--json"])
    said = capsys.readouterr()
    assert said.err == ""
    return code, json.loads(said.out)


RIGHT = [
    ("wmma", "--out-dtype fp16", {"out_dtype": "fp16", "dtype": "fp16"}),
    ("mma_swizzled", "--dtype int8 --out-dtype int8 --alpha 0.02", {"out_dtype": "int8", "dtype": "int8"}),
    ("mma_swizzled", "--dtype int8 --out-dtype int32 --mode exact --bias row", {"out_dtype": "int32", "bias": "row"}),
    ("mma_swizzled", "--dtype tf32 --trans-a --batch 2 --share-a", {"dtype": "tf32", "layout": "TN", "batch": 2}),
    ("warp_tile", "--batch 4 --share-a --share-b", {"batch": 4}),
    ("warp_tile", "--batch 0", {"batch": 0}),
    ("warp_tile", "--bias row --activation gelu", {"bias": "row", "activation": "gelu"}),
    ("warp_tile", "--bias column --activation relu --mode exact --offsets 1,2,3", {"bias": "column"}),
    ("mma_swizzled", ALL, {"out_dtype": "bf16", "batch": 3, "bias": "row", "activation": "silu", "layout": "NT"}),
]


@pytest.mark.parametrize(("kernel", "options", "facts"), RIGHT)
def test_run(capsys: pytest.CaptureFixture[str], kernel: str, options: str, facts: dict[str, Any]) -> None:
    arguments = ["run", kernel, *SIZE, *shlex.split(SMALL[kernel]), *shlex.split(options)]
    code, said = told(capsys, *arguments)
    assert code == 0, said
    assert said["ok"] is True
    assert said["problem"].items() >= facts.items()
    assert said["total"] == 17 * 19 * said["problem"]["batch"]
    words = shlex.split(said["repeat"])
    assert words[:3] == ["gemmsmith", "run", kernel]
    for word in ("--share-a", "--share-b"):
        assert (word in words) == (word in options.split()), word
    again = told(capsys, *words[1:])
    assert again[0] == 0
    assert again[1] | {"seconds": 0} == said | {"seconds": 0}


def test_run_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["run", "mma_swizzled", *SIZE, *shlex.split(SMALL["mma_swizzled"]), *shlex.split(ALL)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("ok: mma_swizzled 3 of 17x19x24 bf16 to bf16 NT alpha=1 beta=0.5")
    assert "with a bias for each row and silu" in text


# --- failures

BREAK = ("epilogue_at(tile.row, tile.col, alpha, beta, bias)", "epilogue_at(tile.row, tile.col, -alpha, beta, bias)")


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rung that run finds multiplies by −alpha."""

    def find(*arguments: Any) -> tuple[KernelSpec, Config]:
        spec, config = find_kernel(*arguments)
        path = tmp_path / spec.source.name
        assert spec.code.count(BREAK[0]) == 1
        path.write_text(spec.code.replace(*BREAK), encoding="utf-8")
        return replace(spec, source=path), config

    monkeypatch.setattr(run_module, "find_kernel", find)


FAILING = [
    ("warp_tile", "--batch 3 --share-a --bias row --activation relu"),
    ("mma_swizzled", ALL),
    ("mma_swizzled", "--dtype int8 --out-dtype int8 --alpha 0.25 --bias column --seed 5"),
    ("wmma", "--out-dtype fp16 --batch 2 --activation gelu --lda 32 --offsets 0,0,1 --mode float --fill uniform"),
]


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("kernel", "options"), FAILING)
def test_a_line_that_repeats_a_failure(capsys: pytest.CaptureFixture[str], kernel: str, options: str) -> None:
    code, said = told(capsys, "run", kernel, *SIZE, *shlex.split(SMALL[kernel]), *shlex.split(options))
    assert code == 1
    assert said["wrong"] > 0
    words = shlex.split(said["repeat"])
    for word in ("--out-dtype", "--batch", "--share-a", "--share-b", "--bias", "--activation", "--trans-b", "--dtype"):
        assert (word in words) == (word in options.split()), word
    again = told(capsys, *words[1:])
    assert again[0] == 1
    assert again[1] | {"seconds": 0} == said | {"seconds": 0}


def test_the_same_line_passes_once_the_kernel_is_fixed(
    capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    arguments = ["run", "mma_swizzled", *SIZE, *shlex.split(SMALL["mma_swizzled"]), *shlex.split(ALL)]
    right = told(capsys, *arguments)[1]
    request.getfixturevalue("broken")
    wrong = told(capsys, *arguments)[1]
    assert (right["ok"], wrong["ok"]) == (True, False)
    assert right["repeat"] == wrong["repeat"]


# --- wrong use


@pytest.mark.parametrize(("command", "message"), [
    ("run warp_tile --bias both", "unknown bias 'both'"), ("run warp_tile --activation tanh", "unknown activation"),
    ("run naive --bias row", "naive takes no bias and no activation"), ("run naive --batch 2", "not a batch of 2"),
    ("run naive --activation relu", "use warp_tile"), ("run warp_tile --batch -1", "BATCH=-1 is negative"),
    ("run wmma --dtype tf32", "wmma takes fp16, bf16 inputs, not tf32"),
    ("run wmma --out-dtype bf16", "fp16 inputs give fp32 or fp16, not bf16"),
    ("run mma_swizzled --out-dtype fp64", "unknown data type 'fp64'"),
    ("run mma_swizzled --dtype int32", "int32 inputs give int32, not fp32"),
    ("run mma_swizzled --dtype int8 --out-dtype int32 --alpha 2", "int32 results have alpha 1"),
    ("run mma_swizzled --dtype int8 --fill wide", "the fill 'wide' is not for int8"),
    ("run warp_tile --activation gelu --mode exact", "cannot judge gelu, which rounds"),
    ("run warp_tile --bias row --mode bits", "requires fp32 outputs without an epilogue"),
    ("run wmma --out-dtype fp16 --mode bits", "requires fp32 outputs without an epilogue"),
    ("run wmma --mode mod32", "mode 'mod32' is for fp32, not fp16"),
    ("run warp_tile --bias row --mode projection", "does not support bias and activation"),
])  # fmt: skip
def test_wrong_use_exits_2(capsys: pytest.CaptureFixture[str], command: str, message: str) -> None:
    assert run_command([*shlex.split(command), "--device", "sim"]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.startswith("error: ")
    assert 1 <= len(said.err.splitlines()) <= 2
    assert said.out == ""
