"""If the data decide a product's arithmetic, the measurement names it: with fakes, and with a simulated rung."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_bench import FakeContender, FakeGpu, FakeStopwatch, put_in_command

from gemmsmith.bench.bench import Renamed, bench
from gemmsmith.bench.kernel_contender import KernelContender
from gemmsmith.bench.limits import Limits
from gemmsmith.bench.rig import Rig, TimingPolicy
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.main import run_command
from gemmsmith.gpus import gpu_named
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.prologue.split_fp16 import split_fp16_prologue
from gemmsmith.run.contender import Contender, Enqueue, OperandSet, method_reader
from gemmsmith.run.device import Step
from gemmsmith.sim.device import SimDevice
from gemmsmith.store.database import Results
from gemmsmith.store.results import Measurement
from gemmsmith.store.run_file import run_from_json

PROBLEM = Problem(24, 20, 28)
QUICK = TimingPolicy(quick=True, budget=0.2)


@dataclass
class Deciding(FakeContender):
    """Reports the arithmetic of each set, after ``prepare``, like contenders that read a workspace."""

    decide: Callable[[int], str] = lambda _set: "bf16x6"

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        self.method = lambda: self.decide(self.sets_seen[-1])
        return super().prepare(problem, sets, stream)


def deciding(gpu: FakeGpu, decide: Callable[[int], str], name: str = "fp32_wgmma_fp16x3") -> Deciding:
    return Deciding(gpu.watch, gpu.memory, name, precision="fp16x3", decide=decide)


def measured(gpu: FakeGpu, contender: Contender) -> Measurement:
    (found,) = bench([contender], [], [PROBLEM], gpu.rig(), QUICK)
    return found


@pytest.mark.parametrize("renamed", [False, True])
def test_a_measurement_names_the_arithmetic_that_ran(renamed: bool) -> None:
    gpu = FakeGpu()
    ours: Contender = deciding(gpu, lambda _set: "bf16x6")
    found = measured(gpu, Renamed(ours, "fp32_wgmma_fp16x3 again") if renamed else ours)
    assert (found.identity.precision, found.rejected) == ("bf16x6", "")
    assert found.limit_tflops == gpu.rig().limits.tflops(PROBLEM, "bf16x6")
    (note,) = (note for note in gpu.messages.notes if "fell back" in note)
    assert note == f"{PROBLEM}: {found.identity.name} fell back to bf16x6: the data do not suit fp16x3"


class Unbelieving(Limits):
    """Rejects every time as impossible."""

    def objection(self, _problem: Problem, precision: str, _seconds: float, _least_seconds: float = 0.0) -> str:
        return f"impossible in {precision}"


def test_the_limit_is_that_of_the_arithmetic_that_ran() -> None:
    gpu = FakeGpu()
    (found,) = bench([deciding(gpu, lambda _set: "bf16x6")], [], [PROBLEM], gpu.rig(Unbelieving(None)), QUICK)
    assert found.rejected == "impossible in bf16x6"


def test_the_expected_arithmetic_needs_no_note() -> None:
    gpu = FakeGpu()
    assert measured(gpu, deciding(gpu, lambda _set: "fp16x3")).identity.precision == "fp16x3"
    assert not any("fell back" in note for note in gpu.messages.notes)


@pytest.mark.parametrize("odd", ["first", "middle", "last"])
def test_the_arithmetic_of_every_set_is_read(odd: str) -> None:
    gpu = FakeGpu()
    plain = deciding(gpu, lambda _set: "fp16x3")
    measured(gpu, plain)
    sets = max(plain.sets_seen) + 1
    assert sets > 3
    other = {"first": 0, "middle": 2, "last": sets - 1}[odd]
    found = measured(gpu, deciding(gpu, lambda index: "bf16x6" if index == other else "fp16x3"))
    assert "its operand sets used different arithmetics" in found.rejected
    assert {"fp16x3", "bf16x6"} <= set(found.rejected.split())


def test_a_contender_with_one_arithmetic_gets_no_extra_launches() -> None:
    usual = FakeGpu()
    plain = usual.contender("fp32_wgmma_fp16x3", precision="fp16x3")
    assert measured(usual, plain).identity.precision == "fp16x3"
    gpu = FakeGpu()
    asked = deciding(gpu, lambda _set: "fp16x3")
    measured(gpu, asked)
    assert asked.launches - plain.launches == max(asked.sets_seen) - 1  # neither the first set nor the last again


# --- the command


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeGpu:
    """The command with a fake GPU on which fp16x3 rungs fall back."""
    fake = FakeGpu()

    def kernel(spec: KernelSpec, _config: Config, *_: object) -> FakeContender:
        own = spec.arithmetic == "fp16x3"
        return deciding(fake, lambda _set: "bf16x6", spec.name) if own else fake.contender(spec.name)

    put_in_command(fake, monkeypatch, tmp_path, kernel)
    return fake


RUNGS = ("fp32_wgmma_fp16x3", "fp32_tensor_fp16x3")


@pytest.mark.usefixtures("gpu")
def test_the_table_shows_the_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["bench", *RUNGS, "--shapes", "24x20x28", "--against", "none", "--no-db"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    for name in RUNGS:
        rows = [line for line in out.splitlines() if line.startswith(name)]
        assert len(rows) == 2, "speeds, and other times"
        assert all(row.startswith(f"{name} (bf16x6)") for row in rows)
        assert f"{name} fell back to bf16x6" in " ".join(out.split())


@pytest.mark.usefixtures("gpu")
def test_the_record_has_the_arithmetic(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["bench", *RUNGS, "naive", "--shapes", "24x20x28", "--quick", "--against", "none", "--json"]
    assert run_command(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert sum("fell back to bf16x6" in note for note in facts.pop("notes")) == 2
    expected = [*((name, "bf16x6") for name in RUNGS), ("naive", "fp32")]
    assert [(m["identity"]["name"], m["identity"]["precision"]) for m in facts["measurements"]] == expected
    with Results.open(tmp_path / "results.sqlite") as results:
        (run,) = results.runs()
    assert [(m.identity.name, m.identity.precision) for m in run.measurements] == expected


@pytest.mark.usefixtures("gpu")
def test_auto_shows_the_arithmetic(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(*_: object) -> Any:
        spec = rung_named("fp32_wgmma_fp16x3")
        return type("Choice", (), {"spec": spec, "config": spec.config()})

    monkeypatch.setattr("gemmsmith.cli.precision_options.chosen_for", chosen)
    words = ["bench", "auto", "--precision", "fp32-fast", "--shapes", "24x20x28", "--against", "none", "--quick"]
    assert run_command([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert any("auto fell back to bf16x6" in note for note in facts.pop("notes"))
    (ours,) = run_from_json(facts).measurements
    assert ours.identity.config.startswith("fp32_wgmma_fp16x3")
    assert ours.identity.precision == "bf16x6"
    assert run_command(words) == 0
    assert "auto (bf16x6)" in capsys.readouterr().out


# --- a simulated rung with a fallback


class SimulatedGpu(SimDevice):
    """The simulator plus the GPU functions that a measurement needs; every launch takes one second."""

    threads_per_sm = 2048

    def __init__(self, watch: FakeStopwatch) -> None:
        super().__init__("sm_80")
        self._watch = watch

    def launcher(self, products: Sequence[Sequence[Step]], _stream: int) -> Enqueue:
        def run(index: int) -> None:
            for step in products[index]:
                self.launch(step.loaded, step.launch)
            self._watch.clock += 1.0

        return lambda index: self._watch.run(lambda: run(index))

    def resident_blocks(self, _loaded: object, _geometry: Geometry) -> int:
        return 1

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.write(target, self.read(source, nbytes).copy())

    def preset(self, address: int, word: int, count: int, itemsize: int) -> None:
        self.write(address, np.full(count, word, f"<u{itemsize}").view(np.uint8))

    def free_bytes(self) -> int:
        return 1 << 24


SMALL = {"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 3, "GROUP": 2}


@pytest.mark.parametrize(("k", "method"), [(64, "fp16x3"), (16, "bf16x6")])
def test_a_rung_reads_its_verdict(k: int, method: str) -> None:
    """On normal data two fp16 parts suffice from K = 32 on."""
    watch = FakeStopwatch()
    device: Any = SimulatedGpu(watch)
    other = rung_named("fp32_tensor_bf16x6")
    prepared = split_fp16_prologue(other, other.config(SMALL))
    spec = replace(rung_named("fp32_tensor_fp16x3"), prologue=prepared)
    ours = KernelContender(spec, spec.config(SMALL), device, Compiler())
    assert method_reader(ours) is None
    notes: list[str] = []
    limits = Limits(gpu_named("H200"), 1980.0, 1)
    rig = Rig(device, watch, limits, 1, note=notes.append)
    (found,) = bench([ours], [], [Problem(20, 24, k)], rig, TimingPolicy(0.5, 2.0, quick=True))
    assert (found.identity.name, found.identity.precision) == (spec.name, method)
    assert (found.verified, found.rejected) == (True, "")
    assert any("fell back" in note for note in notes) is (method == "bf16x6")
    assert method_reader(ours) is None, "its workspace is freed"


def test_a_rung_without_a_fallback_has_no_verdict() -> None:
    device: Any = SimulatedGpu(FakeStopwatch())
    spec = rung_named("naive")
    ours = KernelContender(spec, spec.config(), device, Compiler())
    ours.prepare(PROBLEM, [OperandSet(4096, 8192, 12288)], 0)
    assert method_reader(ours) is None
