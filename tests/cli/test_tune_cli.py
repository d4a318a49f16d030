"""gemmsmith tune on a fake GPU: tables, JSON, exit codes, the export; and without a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_bench import FakeContender, FakeGpu
from fake_hopper import CLUSTER, H200, SPLIT_K

from gemmsmith.bench.rig import Rig
from gemmsmith.choose import candidates
from gemmsmith.choose.choice import choose, forget
from gemmsmith.choose.table import table_from_text
from gemmsmith.choose.tuning_file import TuningFile
from gemmsmith.cli import tune_plan
from gemmsmith.cli.commands import tune as tune_command
from gemmsmith.cli.main import run_command
from gemmsmith.errors import MissingDeviceError
from gemmsmith.kernel.config import Parameter
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, Problem

SHAPE = ("--shapes", "64x48x32", "--per-shape", "6")


@pytest.fixture(autouse=True)
def tuning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "tuning.jsonl"
    monkeypatch.setenv("GEMMSMITH_TUNING", str(path))
    forget()
    yield path
    forget()


class Pool:
    """Compiles nothing, successfully."""

    def __init__(self, *_: object) -> None: ...
    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None: ...
    def begin(self, *_: object) -> None: ...
    def is_compiled(self, *_: object) -> bool:
        return True

    def __call__(self, *_: object) -> dict[tuple[str, str], str]:
        return {}


class Device:
    name, arch, driver_version, sms = H200, "sm_90", "13.0", 132


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """A fake H200 on which wider tiles are faster, and every kernel is correct."""
    fake = FakeGpu()

    @contextmanager
    def rig(_device: object, step: Any, note: Any) -> Iterator[Rig]:
        base = fake.rig()
        yield Rig(base.memory, base.stopwatch, base.limits, base.l2_bytes, base.probe, step, note)

    def kernel(spec: KernelSpec, config: Any, *_: object) -> FakeContender:
        return fake.contender(spec.name, 1e-3 + 1e-5 / config["BN"], precision="bf16")

    def specs() -> tuple[KernelSpec, ...]:
        return (CLUSTER, SPLIT_K)

    def digest(spec: KernelSpec, config: object, *_: object) -> str:
        return f"{spec.name} {config}"

    def cublas(name: str) -> FakeContender:
        return fake.contender(name, 2e-3, kind="baseline", precision="bf16")

    monkeypatch.setattr(candidates, "hopper_specs", specs)
    monkeypatch.setattr(tune_command, "cuda_device", Device)
    monkeypatch.setattr(tune_command, "cuda_rig", rig)
    monkeypatch.setattr(tune_command, "CompilePool", Pool)
    monkeypatch.setattr(tune_plan, "KernelContender", kernel)
    monkeypatch.setattr(tune_plan, "source_digest", digest)
    monkeypatch.setattr(tune_plan, "baseline_named", cublas)
    return fake


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command(["tune", *arguments])
    text = capsys.readouterr()
    return code, text.out, text.err


@pytest.mark.usefixtures("gpu")
def test_the_table_and_what_later_calls_use(capsys: pytest.CaptureFixture[str], tuning: Path) -> None:
    problem = Problem(64, 48, 32, BF16)
    assert choose(problem, H200).source != "tuned"
    code, out, err = say(capsys, *SHAPE)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 100 or str(tuning) in out
    assert "NVIDIA H200, measured" in out
    assert "tuned" in out
    assert f"Stored in {tuning}" in out
    found = choose(problem, H200)
    assert f"{2e-3 / (1e-3 + 1e-5 / found.config['BN']):.1%}" in out, "cuBLAS's time over that of the tuned kernel"
    assert found.source == "tuned", "in this process as well"
    assert choose(problem.with_(trans_b=True), H200).source != "tuned"
    (run,) = TuningFile(tuning).history(H200).runs
    assert run["command"].startswith("gemmsmith tune --shapes 64x48x32 --dtype bf16")
    assert "numpy" in run["versions"]


@pytest.mark.usefixtures("gpu")
def test_json(capsys: pytest.CaptureFixture[str], tuning: Path) -> None:
    words = (*SHAPE, "--layout", "NN,nt", "--out-dtype", "fp32,bf16", "--json")
    code, out, _ = say(capsys, *words)
    assert code == 0
    facts = json.loads(out)
    assert (facts["gpu"], facts["file"], facts["finished"]) == (H200, str(tuning), True)
    assert [(s["layout"], s["out_dtype"]) for s in facts["shapes"]] == [
        ("NN", "fp32"),
        ("NT", "fp32"),
        ("NN", "bf16"),
        ("NT", "bf16"),
    ]
    for shape in facts["shapes"]:
        assert (shape["state"], shape["unusable"]) == ("tuned", [])
        assert shape["tried"] > 6, "neighbours of the best as well"
        assert shape["speed"] == pytest.approx(2.0, rel=0.01)
        assert shape["config"]["BN"] > 0
    assert {s["state"] for s in json.loads(say(capsys, *words)[1])["shapes"]} == {"known"}


@pytest.mark.usefixtures("gpu")
def test_the_budget_leaves_shapes_for_the_next_time(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--shapes", "64x48x32,32x48x32", "--per-shape", "6")
    code, out, _ = say(capsys, *words, "--budget", "0.05")
    assert code == 0
    assert "2 of 2 shapes are not finished: the same command continues with them" in out
    assert "unfinished" in out
    code, out, _ = say(capsys, *words)
    assert (code, "unfinished" in out) == (0, False)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.usefixtures("gpu")
def test_fastest_results_are_kept_apart(capsys: pytest.CaptureFixture[str], tuning: Path, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch, first: bool) -> None:  # fmt: skip
    """Kernels in arrival order are faster, and are found, stored and used only where allowed.

    first   it is among the candidates; otherwise it is next to one of them
    """
    free = replace(SPLIT_K, parameters=(*SPLIT_K.parameters, Parameter("DETERMINISTIC", 1, (0, 1), "")))
    menu = {**candidates._MENU, "wgmma_split_k": {**candidates._MENU["wgmma_split_k"], "DETERMINISTIC": (1, 0)}}
    make: Any = getattr(tune_plan, "KernelContender")  # noqa: B009

    def kernel(spec: KernelSpec, config: Any, *_: object) -> FakeContender:
        made: FakeContender = make(spec, config)
        return replace(made, seconds=made.seconds / 2) if dict(config).get("DETERMINISTIC") == 0 else made

    if first:
        monkeypatch.setattr(candidates, "_MENU", menu)
        monkeypatch.setattr(tune_plan, "neighbours", lambda *_, **__: [])
    monkeypatch.setattr(candidates, "menu", candidates.menu.__wrapped__)  # the cached one is of the other menu
    monkeypatch.setattr(candidates, "hopper_specs", lambda: (free,))
    monkeypatch.setattr(tune_plan, "KernelContender", kernel)
    problem, found = Problem(64, 48, 32, BF16), {}
    code, out, _ = say(capsys, *SHAPE, "--fastest", "--json")
    assert code == 0
    found[False] = json.loads(out)["shapes"][0]["config"]
    assert found[False]["DETERMINISTIC"] == 0
    assert choose(problem, H200).source != "tuned"
    assert choose(problem, H200, deterministic=False).source == "tuned"
    code, out, _ = say(capsys, *SHAPE, "--json")
    found[True] = json.loads(out)["shapes"][0]["config"]
    assert (code, found[True]["DETERMINISTIC"]) == (0, 1)
    for deterministic, config in found.items():
        assert dict(choose(problem, H200, deterministic=deterministic).config) == config
    assert "with deterministic=False use the finished shapes" in " ".join(say(capsys, *SHAPE, "--fastest")[1].split())
    commands = [run["command"] for run in TuningFile(tuning).history(H200).runs]
    assert [command.endswith("--fastest") for command in commands] == [True, False, True]
    file = tmp_path / "h200.json"
    assert say(capsys, "--export", str(file))[0] == 0
    assert len(table_from_text(file.read_text()).entries) == 2


def test_no_correct_candidate_exits_1_with_the_reasons(
    capsys: pytest.CaptureFixture[str], gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def zero(c: Any, _launch: int) -> None:
        c[...] = 0

    def wrong(spec: KernelSpec, *_: object) -> FakeContender:
        return gpu.contender(spec.name, spoil=zero, precision="bf16")

    monkeypatch.setattr(tune_plan, "KernelContender", wrong)
    code, out, _ = say(capsys, *SHAPE)
    assert code == 1
    assert "wrong: 3072 of 3072 outputs wrong" in " ".join(out.split())
    assert re.search(r"and \d+ more", out)
    assert out.count("outputs wrong") == 3
    code, out, _ = say(capsys, *SHAPE, "--json")
    assert code == 1
    assert json.loads(out)["shapes"][0]["kernel"] is None


@pytest.mark.usefixtures("gpu")
def test_the_export(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tables" / "h200.json"
    assert say(capsys, *SHAPE, "--export", str(file))[0] == 0
    text = file.read_text()
    made = table_from_text(text)
    assert (made.gpu, len(made.entries)) == (H200, 1)
    assert made.model.samples > 6

    monkeypatch.setattr(tune_command, "cuda_device", None)  # an export alone needs no GPU
    code, out, _ = say(capsys, "--export", str(file), "--json")
    assert (code, json.loads(out)["entries"]) == (0, 1)
    assert file.read_text() == text
    assert say(capsys, "--export", str(file))[0] == 0
    code, _, err = say(capsys, "--export", str(tmp_path))
    assert (code, "is not a regular file" in err) == (2, True)


def test_a_gpu_with_nothing_to_tune(
    capsys: pytest.CaptureFixture[str], gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    del gpu

    class Older(Device):
        name, arch, sms = "NVIDIA A100-SXM4-80GB", "sm_80", 108

    monkeypatch.setattr(tune_command, "cuda_device", Older)
    code, _, err = say(capsys, *SHAPE)
    assert code == 2
    assert "is sm_80" in err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "no shape given"), (["--shapes", "big"], "unknown shape suite"),
        (["--shapes", "0x4x4"], "nothing to tune"), (["--shapes", "64", "--dtype", "int8"], "nothing to choose"),
        (["--shapes", "64", "--precision", "ieee"], "is not tuned for bf16"),
        (["--shapes", "64", "--dtype", "fp32", "--precision", "tf32"], "is not tuned for fp32"),
        (["--shapes", "64", "--layout", "NX"], "unknown layout"), (["--shapes", "64", "--budget", "0"], "not positive"),
        (["--shapes", "64", "--per-shape", "0"], "too few"), (["--shapes", "64", "--tuning", "."], "is a folder"),
        (["--shapes", "64", "--out-dtype", "fp16"], "bf16 inputs give"),
        (["--export", "x.json"], "nothing that was tuned"),
    ],
)  # fmt: skip
def test_wrong_use(capsys: pytest.CaptureFixture[str], words: list[str], text: str) -> None:
    code, out, err = say(capsys, *words)
    assert (code, out) == (2, "")
    assert text in " ".join(err.split())


def test_without_a_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tuning: Path) -> None:
    def absent() -> None:
        raise MissingDeviceError("no NVIDIA driver on this machine")

    monkeypatch.setattr(tune_command, "cuda_device", absent)
    code, out, err = say(capsys, *SHAPE)
    assert (code, out) == (3, "")
    assert "tuning needs a GPU: no NVIDIA driver on this machine" in err
    assert not tuning.exists()
