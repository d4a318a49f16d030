"""Timing on a GPU: the driver's calls work, honest results come out, and dishonest ones do not. No time is asserted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsmith.bench.bench import bench
from gemmsmith.bench.clocks import Sampler, open_probe
from gemmsmith.bench.kernel_contender import KernelContender
from gemmsmith.bench.machine import machine_facts
from gemmsmith.bench.rig import Rig, TimingPolicy, cuda_rig
from gemmsmith.bench.rotation import Rotation
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.main import run_command
from gemmsmith.errors import LaunchError
from gemmsmith.fills import operands
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import FP16, Problem
from gemmsmith.run.cuda import CudaDevice, cuda_device, gpu_available
from gemmsmith.store.results import Measurement
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]

PROBLEM = Problem(1024, 1024, 1024)
SHORT = TimingPolicy(budget=1.0)
QUICK = TimingPolicy(budget=0.5, quick=True)


@pytest.fixture(name="device")
def _device() -> CudaDevice:
    return cuda_device()


@pytest.fixture(name="notes")
def _notes() -> list[str]:
    return []


@pytest.fixture(name="rig")
def _rig(device: CudaDevice, notes: list[str]) -> Iterator[Rig]:
    with cuda_rig(device, note=notes.append) as rig:
        yield rig


def kernel(device: CudaDevice, name: str) -> KernelContender:
    spec = rung_named(name)
    return KernelContender(spec, spec.config(), device, Compiler())


def cublas(name: str = "cublas") -> Any:
    pytest.importorskip("torch")
    from gemmsmith.run.baselines import baseline_named

    return baseline_named(name)


def only(found: Iterator[Measurement]) -> dict[str, Measurement]:
    return {m.identity.name: m for m in found}


# --- the stopwatch


def test_events_graphs_and_streams_agree_on_what_ran(device: CudaDevice, rig: Rig) -> None:
    """C is what the kernel leaves there, whether launched, or replayed from a graph; capture alone runs nothing."""
    data = operands(PROBLEM)
    with rig.stopwatch.active(), Rotation(device, PROBLEM, data, device.l2_bytes) as rotation:
        enqueue = kernel(device, "warp_tile").prepare(PROBLEM, rotation.sets, rig.stopwatch.stream)
        last = len(rotation.sets) - 1
        assert rig.stopwatch.seconds(lambda: enqueue(last)) > 0
        launched = rotation.product(last)
        rotation.poison(last)
        replay = rig.stopwatch.capture(lambda: enqueue(last))
        assert np.isnan(rotation.product(last)).all()
        assert rig.stopwatch.seconds(replay, replay) > 0
        assert np.array_equal(rotation.product(last), launched)
        replay.close()
        assert rig.stopwatch.host_seconds(lambda: enqueue(0)) > 0


def test_every_set_has_set_0s_product(device: CudaDevice, rig: Rig) -> None:
    problem = Problem(100, 70, 90)
    with rig.stopwatch.active(), Rotation(device, problem, operands(problem), 500_000) as rotation:
        enqueue = kernel(device, "naive").prepare(problem, rotation.sets, rig.stopwatch.stream)
        for index in range(len(rotation.sets)):
            enqueue(index)
        rig.stopwatch.synchronize()
        first = rotation.product(0)
        for index in range(1, len(rotation.sets)):
            assert np.array_equal(rotation.product(index), first), index
        assert rotation.inputs_changed() == ""


def test_a_failed_capture_leaves_the_stream_usable(rig: Rig) -> None:
    def refuses() -> None:
        raise RuntimeError("no")

    with rig.stopwatch.active():
        with pytest.raises(LaunchError, match="cannot be captured"):
            rig.stopwatch.capture(refuses)
        assert rig.stopwatch.seconds(lambda: None) >= 0
        rig.stopwatch.capture(lambda: None).close()


def test_a_torch_operation_that_synchronises_cannot_be_captured(device: CudaDevice) -> None:
    torch = pytest.importorskip("torch")
    watch = CudaStopwatch(device)
    stream = torch.cuda.ExternalStream(watch.stream)
    value = torch.ones(4, device="cuda")

    def waits() -> None:
        with torch.cuda.stream(stream):
            value.sum().item()

    with watch.active():
        waits()
        with pytest.raises(LaunchError, match="cannot be captured"):
            watch.capture(waits)
        waits()
    watch.close()


def test_the_callers_context_is_left_as_it_was(device: CudaDevice, rig: Rig) -> None:
    from cuda.bindings import driver

    before = int(driver.cuCtxGetCurrent()[1])
    for _ in bench([kernel(device, "naive")], [], [Problem(64, 64, 64)], rig, QUICK):
        assert int(driver.cuCtxGetCurrent()[1]) == before


# --- the whole


@pytest.mark.parametrize("name", [spec.name for spec in rungs()])
def test_every_rung_is_timed_and_right(device: CudaDevice, rig: Rig, name: str) -> None:
    problem = Problem(512, 512, 512, dtype=rung_named(name).dtypes[0])
    (found,) = bench([kernel(device, name)], [], [problem], rig, QUICK)
    assert (found.verified, found.rejected) == (True, "")
    assert found.seconds > 0
    assert dict(found.counters)["registers"] > 0
    assert 0 < dict(found.counters)["occupancy"] <= 1


def test_a_baseline_against_itself_is_one(rig: Rig) -> None:
    found = only(bench([cublas()], [cublas()], [Problem(2048, 2048, 2048)], rig, TimingPolicy(budget=3.0, quick=True)))
    ratio = found["cublas (again)"].ratios[0]
    slack = max(0.01, 2 * found["cublas"].timings[0].spread)
    assert ratio.low - slack <= 1.0 <= ratio.high + slack
    assert abs(ratio.value - 1.0) <= slack


def test_modes_conditions_and_overhead(device: CudaDevice, rig: Rig, notes: list[str]) -> None:
    found = only(bench([kernel(device, "warp_tile")], [cublas(), cublas("cublas-tf32")], [PROBLEM], rig, SHORT))
    for measurement in found.values():
        assert measurement.rejected == "", measurement.rejected
        assert [(t.mode, t.cache) for t in measurement.timings] == [
            ("graph", "cold"),
            ("stream", "cold"),
            ("graph", "hot"),
        ]
        assert measurement.overhead > 0
        assert not math.isnan(measurement.limit_tflops)
        assert measurement.conditions.sm_mhz > 100
        assert measurement.conditions.power_w > 10
        assert measurement.conditions.temperature_c > 10
    assert found["warp_tile"].ratio("cublas") > 0
    assert found["cublas-tf32"].identity.precision == "tf32"
    assert notes == []


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_layouts_with_cublas(device: CudaDevice, rig: Rig, layout: str) -> None:
    problem = Problem(384, 320, 448, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    found = only(bench([kernel(device, "naive")], [cublas()], [problem], rig, QUICK))
    assert [m.rejected for m in found.values()] == ["", ""]


def test_half_with_cublas(device: CudaDevice, rig: Rig) -> None:
    problem = Problem(1024, 1024, 4096, dtype=FP16)
    found = only(bench([kernel(device, "warp_tile_mixed")], [cublas()], [problem], rig, QUICK))
    assert found["cublas"].rejected == "", found["cublas"].rho
    assert found["warp_tile_mixed"].rejected == ""


def test_a_small_problem_rotates_thousands_of_sets(device: CudaDevice, rig: Rig) -> None:
    found = only(bench([kernel(device, "naive")], [cublas()], [Problem(64, 64, 64)], rig, QUICK))
    assert [m.rejected for m in found.values()] == ["", ""]
    assert found["naive"].timings[0].launches * 3 * 64 * 64 * 4 >= 2 * device.l2_bytes


WRONG = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = FIRST; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""


def test_a_kernel_that_is_wrong_is_rejected_and_one_that_is_right_is_not(
    device: CudaDevice, rig: Rig, tmp_path: Path
) -> None:
    for first, right in ((1, False), (0, True)):
        path = tmp_path / f"first{first}.cu"
        path.write_text(WRONG.replace("FIRST", str(first)))
        spec = user_kernel(path, UserOptions(block="32,32"))
        mine = KernelContender(spec, spec.config(), device, Compiler())
        (found,) = bench([mine], [], [Problem(256, 256, 256)], rig, QUICK)
        assert found.verified is right, found.rejected
        assert bool(found.timings) is right


def test_a_kernel_that_does_nothing_is_rejected(device: CudaDevice, rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "nothing.cu"
    path.write_text("__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {}\n")
    spec = user_kernel(path, UserOptions(block="32,32"))
    (found,) = bench([KernelContender(spec, spec.config(), device, Compiler())], [], [PROBLEM], rig, QUICK)
    assert not found.verified
    assert not found.timings


def test_nvml_reads_this_gpu(device: CudaDevice) -> None:
    probe = open_probe(device.pci_bus_id)
    assert probe.note == ""
    with Sampler(probe) as sampler:
        pass
    probe.close()
    found = sampler.conditions
    assert found.sm_mhz > 100
    assert found.power_w > 10
    assert 10 < found.temperature_c < 110


def test_the_machine(device: CudaDevice) -> None:
    found = machine_facts(device)
    assert found.gpu == device.name
    assert found.driver.split(".")[0].isdigit()
    assert found.cuda.split(".")[0].isdigit()


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = ["bench", "warp_tile", "cublas", "--shapes", "512", "--budget", "0.5", "--db", str(tmp_path / "r.sqlite"),
             "--json"]  # fmt: skip
    assert run_command(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [m["identity"]["name"] for m in facts["measurements"]] == ["cublas", "warp_tile", "cublas (again)"]
    assert run_command([*words[:-1], "--quick"]) == 0
    assert {"of", "cublas"} <= set(capsys.readouterr().out.split())


def test_a_sticky_fault_ends_the_command_with_its_cause(tmp_path: Path) -> None:
    import subprocess
    import sys

    bad = tmp_path / "bad.cu"
    bad.write_text(
        "__global__ void bad(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        "    C[(long long)threadIdx.x * 1000000000000LL] = A[0] * B[0];\n}\n"
    )
    command = [sys.executable, "-m", "gemmsmith", "bench", str(bad), "--block", "32", "--grid", "1", "--shapes", "64",
               "--against", "none", "--no-db"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "bad.cu: " in done.stderr
    assert "illegal" in done.stderr.lower()


@pytest.mark.parametrize(("k", "method"), [(256, "fp16x3"), (16, "bf16x6")])
def test_a_time_is_of_what_multiplied(device: CudaDevice, rig: Rig, k: int, method: str) -> None:
    """Fewer than 32 numbers of k are refused by fp16 parts."""
    (found,) = bench([kernel(device, "fp32_wgmma_fp16x3")], [], [Problem(512, 512, k)], rig, QUICK)
    assert (found.identity.precision, found.rejected) == (method, "")
