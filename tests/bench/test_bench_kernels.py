"""Kernels as contenders, and the stopwatch over a fake driver: its calls, and what is freed."""

from __future__ import annotations

import ctypes
import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as real_driver
from mapped_kernel import fake_compile, mapped_kernel

from gemmsmith.bench import kernel_contender
from gemmsmith.bench import stopwatch as stopwatch_module
from gemmsmith.bench.kernel_contender import KernelContender, source_digest
from gemmsmith.bench.machine import installed, machine_facts
from gemmsmith.bench.rig import cuda_rig
from gemmsmith.bench.stopwatch import CudaStopwatch
from gemmsmith.cli.compiler import Compiler
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import LaunchError, UnsupportedError
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP16, Problem
from gemmsmith.run.contender import OperandSet
from gemmsmith.run.cuda import CudaDevice, LoadedCubin
from gemmsmith.run.device import Launch, Step
from gemmsmith.run.tensor_map import decode_simulated, encode_simulated
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

PROBLEM = Problem(128, 96, 64)
SETS = [OperandSet(0x1000 * i, 0x1000 * i + 256, 0x1000 * i + 512) for i in range(1, 4)]


class FakeDevice:
    """The device functions that a kernel contender uses."""

    kind, arch, threads_per_sm = "gpu", "sm_90", 2048

    def __init__(self) -> None:
        self.products: list[tuple[Step, ...]] = []
        self.live: list[int] = []

    def load(self, compiled: CompiledKernel) -> str:
        return compiled.key

    def launcher(self, products: list[tuple[Step, ...]], stream: int) -> Any:
        self.products = products
        return lambda index: (index, stream)

    def allocate(self, nbytes: int) -> int:
        self.live.append(nbytes)
        return 0x100000

    def free(self, address: int) -> None:
        assert address == 0x100000
        self.live.pop()

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        return encode_simulated(described, address)

    def resident_blocks(self, _loaded: str, geometry: Geometry) -> int:
        return 1024 // geometry.threads


def contender(name: str, device: Any, **changes: int) -> KernelContender:
    spec = rung_named(name)
    return KernelContender(spec, spec.config(changes), device, Compiler())


def test_a_rung_packs_each_set_and_reports_resources() -> None:
    device = FakeDevice()
    ours = contender("naive", device, TILE=16)
    enqueue: Any = ours.prepare(PROBLEM, SETS, 77)
    assert enqueue(2) == (2, 77)
    signature = rung_named("naive").signature
    launched = [[step.launch.arguments for step in steps] for steps in device.products]
    assert launched == [[signature.pack(PROBLEM, s.a, s.b, s.c)] for s in SETS]
    assert device.live == []
    facts = dict(ours.resources)
    assert facts["occupancy"] == 0.5
    assert facts["registers"] > 10
    identity = ours.identity
    assert (identity.name, identity.kind, identity.config, identity.precision) == ("naive", "rung", "TILE=16", "fp32")
    assert re.fullmatch(r"[0-9a-f]{16}", identity.digest)
    assert identity.version


def test_unaligned_operands_of_a_kernel_with_tensor_maps_get_a_workspace(tmp_path: Path) -> None:
    spec, device = mapped_kernel(tmp_path, persistent=False), FakeDevice()
    ours = KernelContender(spec, spec.config(), device, fake_compile)  # type: ignore[arg-type]
    sets = [*SETS, OperandSet(0x9002, 0xA000, 0xB000)]
    ours.prepare(Problem(128, 96, 64, dtype=FP16), sets, 77)
    assert [len(steps) for steps in device.products] == [1, 1, 1, 2]
    assert device.live == [128 * 64 * 2]
    ours.prepare(Problem(128, 96, 64, dtype=FP16), sets, 77)
    assert device.live == [128 * 64 * 2]
    ours.close()
    ours.close()
    assert device.live == []


MAPS_BY_POINTER = """
#include <cuda.h>
__global__ void product(const CUtensorMap* ta, const CUtensorMap* tb, float* C, int M, int N, int K) {}
CUtensorMap describe(float* p, uint64_t rows, uint64_t cols) {
    CUtensorMap map;
    uint64_t size[2] = {cols, rows}, pitch = cols * sizeof(float);
    uint32_t box[2] = {32, 32}, step[2] = {1, 1};
    cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, p, size, &pitch, box, step,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return map;
}
void run(float* A, float* B, float* C, int M, int N, int K) {
    CUtensorMap a = describe(A, M, K), b = describe(B, N, K), *ta, *tb;
    cudaMalloc(&ta, sizeof a), cudaMalloc(&tb, sizeof b);
    cudaMemcpy(ta, &a, sizeof a, cudaMemcpyHostToDevice);
    cudaMemcpy(tb, &b, sizeof b, cudaMemcpyHostToDevice);
    product<<<dim3(N / 32, M / 32), 128>>>(ta, tb, C, M, N, K);
}
"""


def test_each_set_has_its_own_maps_where_these_are_passed_by_pointer(tmp_path: Path) -> None:
    class Writing(FakeDevice):
        def __init__(self) -> None:
            super().__init__()
            self.written: dict[int, bytes] = {}

        def write(self, address: int, data: Any) -> None:
            assert address not in self.written  # one set's map in another's place: its operands would never be read
            self.written[address] = bytes(data)

    path = tmp_path / "pointed.cu"
    path.write_text(MAPS_BY_POINTER, encoding="utf-8")
    spec, device = user_kernel(path, UserOptions()), Writing()
    ours = KernelContender(spec, spec.config(), device, fake_compile)  # type: ignore[arg-type]
    ours.prepare(spec.problem(128, 96, 64), SETS, 77)
    for one, steps in zip(SETS, device.products, strict=True):
        pointers = [int.from_bytes(argument, "little") for argument in steps[-1].launch.arguments[:2]]
        assert [decode_simulated(device.written[p])[1] for p in pointers] == [one.a, one.b]
    assert len(device.written) == 2 * len(SETS)
    assert max(device.written) + 128 <= 0x100000 + device.live[0]


def test_the_identity_is_read_once_and_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Problem] = []
    digest = kernel_contender.source_digest
    monkeypatch.setattr(kernel_contender, "source_digest", lambda *given: read.append(given[2]) or digest(*given))
    ours = contender("naive", FakeDevice(), TILE=16)
    ours.prepare(PROBLEM, SETS, 77)
    assert read == []
    assert ours.identity.digest == ours.identity.digest != ""
    assert read == [PROBLEM]
    ours.prepare(Problem(64, 64, 64), SETS, 77)  # of another problem it is read again
    assert ours.identity.precision == "fp32"
    assert read == [PROBLEM, Problem(64, 64, 64)]


def test_the_digest_depends_on_source_and_configuration() -> None:
    spec = rung_named("naive")
    one, two = spec.config(), spec.config({"TILE": 16})
    assert source_digest(spec, one, PROBLEM, "sm_90") == source_digest(spec, one, PROBLEM, "sm_80")
    assert source_digest(spec, one, PROBLEM, "sm_90") != source_digest(spec, two, PROBLEM, "sm_90")
    assert source_digest(spec, one, PROBLEM, "sm_90") != source_digest(rung_named("coalesced"), one, PROBLEM, "sm_90")


def test_an_unsupported_problem_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="takes fp32"):
        contender("naive", FakeDevice()).prepare(PROBLEM.with_(dtype=FP16), SETS, 0)
    with pytest.raises(UnsupportedError, match="layout"):
        contender("warp_tile", FakeDevice()).prepare(PROBLEM.with_(trans_a=True), SETS, 0)


def test_a_users_file(tmp_path: Path) -> None:
    path = tmp_path / "my.cu"
    path.write_text(
        "__global__ void mm(const float* A, const float* B, float* C, int N) {\n"
        "  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;\n"
        "  float s = 0; for (int k = 0; k < N; ++k) s += A[i * N + k] * B[k * N + j];\n  C[i * N + j] = s;\n}\n"
    )
    spec = user_kernel(path, UserOptions(block="16,16"))
    mine = KernelContender(spec, spec.config(), FakeDevice(), Compiler())  # type: ignore[arg-type]
    assert (mine.identity.name, mine.identity.kind) == ("my.cu", "file")
    mine.prepare(Problem(32, 32, 32), SETS, 0)
    with pytest.raises(UnsupportedError, match="must be equal"):
        mine.prepare(PROBLEM, SETS, 0)


# --- the driver's calls


class FakeDriver:
    """The part of cuda.bindings.driver that timing uses; the call named ``fails`` returns an error."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails = ""
        self.CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
        self.CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0)
        self.CUstreamCaptureMode = SimpleNamespace(
            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1, CU_STREAM_CAPTURE_MODE_RELAXED=2
        )
        self.CUresult = SimpleNamespace(CUDA_SUCCESS=0)
        self.CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
        self.handles = iter(range(100, 200))

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name == self.fails:
                return (1, None)
            if name == "cuEventElapsedTime":
                return (0, 2.5)
            if name in ("cuGetErrorName", "cuGetErrorString"):
                return (0, b"CUDA_ERROR_TEST")
            makes = ("cuStreamCreate", "cuEventCreate", "cuStreamEndCapture", "cuGraphInstantiate")
            return (0, next(self.handles)) if name in makes else (0,)

        return call

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setattr(stopwatch_module, "driver_bindings", lambda: fake)
    monkeypatch.setattr("gemmsmith.run.driver_calls.driver_bindings", lambda: fake)
    return fake


@contextmanager
def _current() -> Any:
    yield


def watch(_driver: FakeDriver) -> CudaStopwatch:
    return CudaStopwatch(SimpleNamespace(current=_current, synchronize=lambda: None))  # type: ignore[arg-type]


def test_only_the_work_is_between_the_two_events(driver: FakeDriver) -> None:
    clock = watch(driver)
    driver.calls.clear()
    taken = clock.seconds(lambda: driver.work(), lambda: driver.lead())
    assert taken == 2.5e-3
    assert driver.names() == [
        "lead",
        "cuEventRecord",
        "work",
        "cuEventRecord",
        "cuEventSynchronize",
        "cuEventElapsedTime",
    ]
    assert {call[2] for call in driver.calls if call[0] == "cuEventRecord"} == {clock.stream}


def test_a_graph_is_captured_and_freed(driver: FakeDriver) -> None:
    clock = watch(driver)
    driver.calls.clear()
    replay = clock.capture(lambda: driver.work())
    assert driver.names() == ["cuStreamBeginCapture", "work", "cuStreamEndCapture", "cuGraphInstantiate",
                              "cuGraphDestroy", "cuGraphUpload"]  # fmt: skip
    replay()
    replay.close()
    assert driver.names()[-2:] == ["cuGraphLaunch", "cuGraphExecDestroy"]


def test_a_library_that_cannot_be_captured_leaves_the_stream_usable(driver: FakeDriver) -> None:
    clock = watch(driver)

    def allocates() -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(LaunchError, match="cannot be captured into a graph: operation not permitted"):
        clock.capture(allocates)
    assert driver.names()[-2:] == ["cuStreamEndCapture", "cuGraphDestroy"]
    driver.fails = "cuStreamEndCapture"
    with pytest.raises(LaunchError, match="cannot be captured into a graph: operation not permitted"):
        clock.capture(allocates)
    assert driver.names()[-1] == "cuStreamEndCapture"


@pytest.mark.parametrize("call", ["cuStreamEndCapture", "cuGraphInstantiate", "cuEventSynchronize"])
def test_the_drivers_errors_are_raised(driver: FakeDriver, call: str) -> None:
    clock = watch(driver)
    driver.fails = call
    with pytest.raises(LaunchError, match="CUDA_ERROR_TEST"):
        clock.capture(lambda: None) if "Graph" in call or "Capture" in call else clock.seconds(lambda: None)


def test_streams_and_events_are_freed(driver: FakeDriver) -> None:
    watch(driver).close()
    assert driver.names().count("cuEventDestroy") == driver.names().count("cuEventCreate") == 2
    assert driver.names().count("cuStreamDestroy") == 1


def rig_device(sms: int) -> Any:
    return SimpleNamespace(current=_current, synchronize=lambda: None, name="NVIDIA H200", sms=sms, pci_bus_id="none",
                           max_mhz=1980.0, l2_bytes=1 << 20)  # fmt: skip


def test_the_rig_identifies_the_gpu_and_frees_everything(driver: FakeDriver) -> None:
    notes: list[str] = []
    with cuda_rig(rig_device(132), note=notes.append) as rig:
        assert rig.limits.peak_tflops("fp32") == 66.9
    assert driver.names()[-1] == "cuStreamDestroy"
    assert not any("GPU table" in note for note in notes)
    with cuda_rig(rig_device(99), note=notes.append) as rig:
        assert rig.limits.gpu is None
    assert any("NVIDIA H200 with 99 SMs is not in the GPU table" in note for note in notes)


def test_the_rig_keeps_the_first_error(driver: FakeDriver) -> None:
    def fault() -> None:
        with cuda_rig(rig_device(132)):
            driver.fails = "cuEventDestroy"
            raise LaunchError("first")

    with pytest.raises(LaunchError, match="first"):
        fault()
    assert "cuEventDestroy" in driver.names()


def fake_cuda_device(driver: FakeDriver) -> CudaDevice:
    device = CudaDevice.__new__(CudaDevice)
    device._cu, device.smem_limit, device.name, device.arch = driver, 232448, "fake", "sm_90"
    device._context, device._opted_in, device._configs = 5, {}, {}

    def start(config: int, function: int, arguments: int, _extra: None) -> int:
        """The driver's cuLaunchKernelEx, as ctypes calls it."""
        driver.calls.append(("cuLaunchKernelEx", function, config, arguments))
        return int(driver.fails == "cuLaunchKernelEx")

    device._launch_ex = start
    driver.CUlaunchConfig, driver.CUresult = real_driver.CUlaunchConfig, int  # a struct: it needs no GPU
    return device


def test_the_launcher_opts_in_once_and_keeps_its_arguments(driver: FakeDriver) -> None:
    device, loaded = fake_cuda_device(driver), LoadedCubin(11, "module", 0)
    launches = [Launch(Geometry((4, 2, 1), (128, 1, 1), 65536), (bytes([n] * 8), bytes([n] * 4))) for n in (1, 2)]
    start = device.launcher([[Step(loaded, launch)] for launch in launches], 77)
    assert driver.names().count("cuFuncSetAttribute") == 1
    # It may be a first call, which torch captures: in its global mode the driver would end the capture.
    before = driver.calls[driver.names().index("cuFuncSetAttribute") - 1]
    assert before == ("cuThreadExchangeStreamCaptureMode", driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    driver.calls.clear()
    start(1)
    (call,) = driver.calls
    assert call[:2] == ("cuLaunchKernelEx", 11)
    assert [*(ctypes.c_uint * 7).from_address(call[2])] == [4, 2, 1, 128, 1, 1, 65536]
    assert ctypes.c_void_p.from_address(call[2] + 32).value == 77
    pointers = (ctypes.c_void_p * 2).from_address(call[3])
    assert [ctypes.string_at(p, n) for p, n in zip(pointers, (8, 4), strict=True)] == [b"\2" * 8, b"\2" * 4]
    driver.fails = "cuLaunchKernelEx"
    with pytest.raises(LaunchError, match="launching the kernel failed"):
        start(0)


def test_the_launcher_runs_the_launches_of_a_product_in_order(driver: FakeDriver) -> None:
    small = Launch(Geometry((1, 1, 1), (32, 1, 1)), ())
    steps = [Step(LoadedCubin(name, "module", 0), small) for name in (1, 2, 3)]
    start = fake_cuda_device(driver).launcher([steps[2:], steps], 7)
    driver.calls.clear()
    start(1)
    assert [call[1] for call in driver.calls] == [1, 2, 3]
    start(0)
    assert [call[1] for call in driver.calls[3:]] == [3]


def test_the_shared_memory_opt_in_is_repeated_only_for_more(driver: FakeDriver) -> None:
    device, loaded = fake_cuda_device(driver), LoadedCubin("f", "m", 0)
    for smem in (65536, 65536, 60000, 131072, 131072):
        device.launch(loaded, Launch(Geometry((1, 1, 1), (32, 1, 1), smem), ()))
    assert [call[3] for call in driver.calls if call[0] == "cuFuncSetAttribute"] == [65536, 131072]


def test_the_launcher_refuses_too_much_shared_memory(driver: FakeDriver) -> None:
    step = Step(LoadedCubin("f", "m", 0), Launch(Geometry((1, 1, 1), (1, 1, 1), 300000), ()))
    with pytest.raises(LaunchError, match="300000 bytes"):
        fake_cuda_device(driver).launcher([[step]], 0)


# --- the machine


def test_installed_packages_are_listed_without_importing_them() -> None:
    found = machine_facts(compiler="NVRTC 13")
    assert found.host
    assert found.python.count(".") == 2
    assert (found.gpu, found.driver, found.compiler) == ("", "", "NVRTC 13")
    names = dict(installed())
    assert "numpy" in names
    assert all(names.values())
