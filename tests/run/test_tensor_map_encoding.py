"""Tensor maps, clusters and launches: TMA's requirements, the calls of the driver, and the simulator's encoding."""

from __future__ import annotations

import ctypes
import gc
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mapped_kernel import CODE, mapped_kernel

from gemmsmith.compile.compiler import compile_for, compile_kernel
from gemmsmith.compile.render import render_for
from gemmsmith.compile.target import target_arch
from gemmsmith.errors import ConfigError, LaunchError, SignatureError, UnsupportedError
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.kernel.signature import parse_signature
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, DTYPES, FP16, FP32, Problem
from gemmsmith.run.cuda import CudaDevice, LoadedCubin
from gemmsmith.run.device import ArgumentPatch, Launch, PatchedStep, Step
from gemmsmith.run.tensor_map import check_tensor_map, decode_simulated, driver_encoder, encode_simulated
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.user_kernel import UserOptions, user_kernel

PLAIN = TensorMap("A", BF16, (4096, 300, 7), (8192, 8192 * 300), (64, 128, 1), 128)


# --- the rules


@pytest.mark.parametrize(
    ("changes", "address", "said"),
    [
        ({}, 0x1008, "A is at 0x1008, 8 bytes past a multiple of 16"),
        ({"strides": (8194, 8192)}, 0, "8,194 bytes apart"),
        ({"strides": (8192, 2**40)}, 0, "1,099,511,627,776 bytes apart"),
        ({"strides": (8192, -16)}, 0, "-16 bytes apart"),
        ({"extents": (4096, 0, 7)}, 0, "an extent of 0"),
        ({"extents": (4096, 2**32 + 1, 7)}, 0, "an extent of 4,294,967,297"),
    ],
)
def test_matrices_that_tma_cannot_copy(changes: dict[str, Any], address: int, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        check_tensor_map(replace(PLAIN, **changes), address)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"box": (64, 257, 1)}, "a box of 64x257x1 elements"),
        ({"box": (64, 0, 1)}, "a box of 64x0x1 elements"),
        ({"box": (4, 8, 1)}, "rows of 8 bytes"),
        ({"box": (72, 8, 1)}, "rows of 144 bytes, longer than the 128"),
        ({"swizzle": 64}, "rows of 128 bytes, longer than the 64"),
        ({"swizzle": 48}, "a swizzle of 48 bytes"),
        ({"box": (64, 8)}, "3 extents, 2 strides and a box of 2"),
        ({"strides": (8192,)}, "3 extents, 1 strides"),
        ({"extents": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6}, "6 extents"),
        ({"extents": (), "strides": (), "box": ()}, "0 extents"),
    ],
)
def test_boxes_that_tma_cannot_copy(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_tensor_map(replace(PLAIN, **changes), 0)


@pytest.mark.parametrize("changes", [
    {}, {"extents": (1, 2**32, 1)}, {"box": (256, 256, 1), "swizzle": 0}, {"box": (8, 1, 1), "swizzle": 32},
    {"extents": (16,), "strides": (), "box": (16,)}, {"strides": (8192, 0)},
])  # fmt: skip
def test_legal_maps(changes: dict[str, Any]) -> None:
    check_tensor_map(replace(PLAIN, **changes), 0x7F0000000010)


# --- the simulator's encoding


@pytest.mark.parametrize("described", [
    PLAIN, TensorMap("C", FP32, (2**32, 1, 2, 3, 4), (16, 2**40 - 16, 32, 48), (32, 256, 1, 2, 3), 32),
    TensorMap("B", FP16, (5,), (), (256,)), *(TensorMap("B", d, (16, 16), (64,), (16, 2)) for d in DTYPES.values()),
])  # fmt: skip
def test_the_simulators_encoding_is_decoded(described: TensorMap) -> None:
    address = 0x7FFF_1234_5670
    data = encode_simulated(described, address)
    assert len(data) == 128
    assert decode_simulated(data) == (described, address)


def test_other_bytes_are_not_a_map_of_the_simulator() -> None:
    for data in (bytes(128), b"", encode_simulated(PLAIN, 0)[:-1]):
        with pytest.raises(UnsupportedError, match="not a tensor map"):
            decode_simulated(data)


def test_the_simulator_checks_the_same_rules() -> None:
    device = SimDevice()
    assert decode_simulated(device.encode_tensor_map(PLAIN, 0x40)) == (PLAIN, 0x40)
    with pytest.raises(UnsupportedError, match="past a multiple of 16"):
        device.encode_tensor_map(PLAIN, 0x42)
    loaded: Any = None
    sizes = [device.blocks_at_once(loaded, Geometry((1, 1, 1), (1, 1, 1), 0, (n, 1, 1))) for n in (1, 2, 8)]
    assert sizes == [132, 132, 128]


# --- the driver's encoding


Arguments = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p,
             ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32),
             ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_int] * 4)  # fmt: skip


class FakeEncode:
    """cuTensorMapEncodeTiled in the C calling convention; writes 128 bytes of 7."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.seen: list[tuple[Any, ...]] = []
        self._keep = ctypes.CFUNCTYPE(*Arguments)(self._call)
        self.address = ctypes.cast(self._keep, ctypes.c_void_p).value or 0

    def _call(self, target: int, kind: int, rank: int, where: int, extents: Any, strides: Any, box: Any, steps: Any,
              *modes: int) -> int:  # fmt: skip
        ctypes.memset(target, 7, 128)
        self.seen.append((target % 64, kind, rank, where, extents[:rank], strides[: rank - 1], box[:rank],
                          steps[:rank], modes))  # fmt: skip
        return self.status


def test_the_driver_is_given_every_field_and_aligned_memory() -> None:
    fake = FakeEncode()
    encode = driver_encoder(fake.address)
    kept = [encode(PLAIN, 0x7F00_0000_0010) for _ in range(5)]  # several buffers
    assert kept == [(0, b"\7" * 128)] * 5
    extents, strides = [4096, 300, 7], [8192, 8192 * 300]
    assert fake.seen == [(0, 9, 3, 0x7F00_0000_0010, extents, strides, [64, 128, 1], [1, 1, 1], (0, 3, 2, 0))] * 5
    encode(TensorMap("C", FP32, (10,), (), (8,), 32), 16)
    assert fake.seen[-1] == (0, 7, 1, 16, [10], [], [8], [1], (0, 1, 2, 0))


@pytest.mark.parametrize(("extents", "strides", "given"), [
    ((4096, 300, 1), (8192, 0), [8192, 8192 * 300]), ((5, 1, 1), (0, 0), [16, 16]),
    ((4096, 300, 7), (8192, 0), [8192, 0]),  # one matrix for the whole batch
    ((4096, 2**30, 1), (8192, 0), [8192, 2**40 - 16]),
])  # fmt: skip
def test_a_stride_that_is_never_used_is_replaced_by_a_legal_one(
    extents: tuple[int, ...], strides: tuple[int, ...], given: list[int]
) -> None:
    fake = FakeEncode()
    driver_encoder(fake.address)(replace(PLAIN, extents=extents, strides=strides), 0)
    assert fake.seen[0][5] == given


def test_the_drivers_numbers_of_types_and_swizzles() -> None:
    from cuda.bindings import driver

    fake = FakeEncode()
    encode = driver_encoder(fake.address)
    names = {"fp32": "FLOAT32", "fp16": "FLOAT16", "bf16": "BFLOAT16", "tf32": "TFLOAT32", "int8": "UINT8",
             "int32": "INT32"}  # fmt: skip
    for name, theirs in names.items():
        encode(replace(PLAIN, dtype=DTYPES[name]), 0)
        assert fake.seen[-1][1] == int(getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{theirs}"))
    for span, theirs in {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}.items():
        encode(replace(PLAIN, swizzle=span), 0)
        assert fake.seen[-1][-1] == (
            int(driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
            int(getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{theirs}")),
            int(driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
            int(driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        )


@pytest.mark.parametrize(
    ("pitch", "address", "promoted"),
    [(8192, 0, "256B"), (8320, 128, "256B"), (8192, 64, "128B"), (8208, 0, "128B"), (8256, 0, "128B")],
)
def test_rows_that_straddle_lines_are_fetched_in_lines(pitch: int, address: int, promoted: str) -> None:
    from cuda.bindings import driver

    fake = FakeEncode()
    driver_encoder(fake.address)(replace(PLAIN, strides=(pitch, pitch * 300)), address)
    named = getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{promoted}")
    assert fake.seen[0][-1][2] == int(named)


@pytest.mark.parametrize(("slices", "promoted"), [(1, "256B"), (4, "128B")])
def test_operands_of_slices_are_fetched_in_lines(slices: int, promoted: str) -> None:
    from cuda.bindings import driver

    spec, fake = rung_named("wgmma_cluster"), FakeEncode()
    problem = Problem(512, 512, 4096, BF16, BF16, trans_b=True)
    assert spec.tensor_maps is not None
    maps = spec.tensor_maps(problem, spec.config({"SLICES": slices, "STORE_MODE": 0, "STORE_BOXES": 0}))
    for name in ("map_a", "map_b"):
        driver_encoder(fake.address)(maps[name], 0)
    named = getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{promoted}")
    assert [seen[-1][2] for seen in fake.seen] == [int(named)] * 2


# --- the GPU as a device


class Result(IntEnum):
    """CUresult; the bindings do not accept a plain number."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1


LAUNCH_EX = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)


class FakeConfig(SimpleNamespace):
    """CUlaunchConfig of the bindings."""

    def getPtr(self) -> int:  # noqa: N802
        return id(self)


class FakeDriver:
    """The functions of cuda.bindings.driver for maps, clusters and occupancy."""

    CUresult = Result
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION="cluster",
                                          CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION="pdl")  # fmt: skip

    def __init__(self) -> None:
        self.encode = FakeEncode()
        self.asked: list[tuple[Any, ...]] = []
        self.CUlaunchConfig = FakeConfig
        self.launched: list[tuple[int, int, int]] = []  # configuration, function and arguments, by address
        self.launch_ex = LAUNCH_EX(self._launch_ex)
        self.CUlaunchAttribute = lambda: SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[int, int, int]:  # noqa: N802
        self.asked.append((name, version, flags))
        if name == b"cuLaunchKernelEx":
            return 0, ctypes.cast(self.launch_ex, ctypes.c_void_p).value or 0, 0
        return 0, self.encode.address, 0

    def _launch_ex(self, config: int, function: int, arguments: int, _extra: int) -> int:
        self.launched.append((config, function, arguments))
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> tuple[int, int]:  # noqa: N802
        return 0, mode

    def cuOccupancyMaxActiveClusters(self, function: str, config: Any) -> tuple[int, int]:  # noqa: N802
        self.asked.append((function, vars(config)))
        return 0, 31

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *what: Any) -> tuple[int, int]:  # noqa: N802
        self.asked.append(what)
        return 0, 2

    def cuGetErrorName(self, status: Result) -> tuple[int, bytes]:  # noqa: N802
        return 0, status.name.encode()

    cuGetErrorString = cuGetErrorName  # noqa: N815

    def cuFuncSetAttribute(self, *_what: Any) -> tuple[int]:  # noqa: N802
        return (0,)

    def cuLaunchKernelEx(self, config: Any, function: str, *_arguments: Any) -> tuple[int]:  # noqa: N802
        self.asked.append((config, function))
        return (0,)

    def cuLaunchKernel(self, *what: Any) -> tuple[int]:  # noqa: N802
        self.asked.append(what[:7])
        return (0,)


@contextmanager
def _current() -> Any:
    yield


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    monkeypatch.setattr("gemmsmith.run.driver_calls.driver_bindings", lambda: fake)
    return fake


def cuda(driver: FakeDriver, arch: str = "sm_90") -> CudaDevice:
    device = CudaDevice.__new__(CudaDevice)
    device._cu, device.smem_limit, device.name, device.arch, device.sms = driver, 232448, "fake", arch, 132
    device._opted_in, device._at_once, device._encoders, device._configs = {}, {}, {}, {}
    device._launch_ex = None
    device.current = _current  # type: ignore[method-assign]
    return device


def test_the_encoder_is_looked_up_once(driver: FakeDriver) -> None:
    device = cuda(driver)
    assert [device.encode_tensor_map(PLAIN, 16 * i) for i in range(2)] == [b"\7" * 128] * 2
    assert driver.asked == [(b"cuTensorMapEncodeTiled", 12000, 0)]
    with pytest.raises(UnsupportedError, match="past a multiple of 16"):
        device.encode_tensor_map(PLAIN, 2)
    assert len(driver.encode.seen) == 2


def test_a_map_that_the_driver_rejects(driver: FakeDriver) -> None:
    driver.encode.status = 1
    with pytest.raises(LaunchError, match="describing A by a tensor map failed: CUDA_ERROR_INVALID_VALUE"):
        cuda(driver).encode_tensor_map(PLAIN, 0)
    driver.encode.address = 0
    with pytest.raises(LaunchError, match="has no tensor maps"):
        cuda(driver).encode_tensor_map(PLAIN, 0)


def launch(device: CudaDevice, grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> None:
    device.launch(LoadedCubin("f", "m", 0), Launch(Geometry(grid, (128, 1, 1), 0, cluster), ()))


def test_a_grid_of_clusters_is_launched(driver: FakeDriver) -> None:
    launch(cuda(driver), (6, 4, 1), (2, 4, 1))
    assert driver.asked == [("f", 6, 4, 1, 128, 1, 1)]


@pytest.mark.parametrize(("arch", "grid", "cluster", "said"), [
    ("sm_89", (2, 1, 1), (2, 1, 1), "need sm_90 or newer, and fake is sm_89"),
    ("sm_90", (16, 1, 1), (16, 1, 1), "a cluster of 16x1x1 blocks; 8"),
    ("sm_90", (3, 2, 1), (2, 2, 1), "does not consist of clusters of 2x2x1"),
    ("sm_120", (2, 3, 1), (2, 2, 1), "does not consist of clusters"),
])  # fmt: skip
def test_grids_that_are_not_multiples_of_their_cluster(
    driver: FakeDriver, arch: str, grid: tuple[int, int, int], cluster: tuple[int, int, int], said: str
) -> None:
    with pytest.raises(LaunchError, match=said):
        launch(cuda(driver, arch), grid, cluster)
    assert driver.asked == []


def test_blocks_at_once_come_from_the_driver_once(driver: FakeDriver) -> None:
    device, loaded = cuda(driver), LoadedCubin("f", "m", 0)
    for tiles in (300, 8):
        assert device.blocks_at_once(loaded, Geometry((tiles, 1, 1), (384, 1, 1), 200000)) == 2 * 132
        assert device.blocks_at_once(loaded, Geometry((tiles, 1, 1), (384, 1, 1), 200000, (4, 1, 1))) == 31 * 4
    assert len(driver.asked) == 2
    assert driver.asked[0] == ("f", 384, 200000)
    asked = dict(driver.asked[1][1])
    (attribute,), count = asked.pop("attrs"), asked.pop("numAttrs")
    assert (attribute.id, vars(attribute.value.clusterDim), count) == ("cluster", {"x": 4, "y": 1, "z": 1}, 1)
    assert asked == {"gridDimX": 4, "gridDimY": 1, "gridDimZ": 1, "blockDimX": 384, "blockDimY": 1, "blockDimZ": 1,
                     "sharedMemBytes": 200000}  # fmt: skip
    assert device.blocks_at_once(LoadedCubin("g", "m", 0), Geometry((1, 1, 1), (384, 1, 1), 200000)) == 264
    assert len(driver.asked) == 3


def test_the_configuration_of_a_pdl_launch_is_made_once_per_stream(driver: FakeDriver) -> None:
    device, loaded = cuda(driver), LoadedCubin(0xF0, "m", 0)
    geometry = Geometry((6, 1, 1), (384, 1, 1), 100, (2, 1, 1), pdl=True)
    for stream in (7, 7, 8):
        device.launch(loaded, Launch(geometry, ()), stream)
    (first, function), (again, _), (other, _) = driver.asked
    assert function == 0xF0
    assert first is again
    assert first is not other
    assert (first.hStream, other.hStream, first.gridDimX, first.blockDimX) == (7, 8, 6, 384)
    assert first.attrs[0].id == "pdl"
    assert first.attrs[0].value.programmaticStreamSerializationAllowed == 1
    enqueue = device.launcher([[Step(loaded, Launch(geometry, ()))]], 7)
    device._configs.clear()  # as when there are many
    gc.collect()
    enqueue(0)
    assert [each[:2] for each in driver.launched] == [(id(first), 0xF0)]


def arguments_at(pointers: int, sizes: list[int]) -> list[bytes]:
    """What the driver would copy: each argument, through the array of pointers."""
    array = (ctypes.c_void_p * len(sizes)).from_address(pointers)
    return [ctypes.string_at(pointer or 0, size) for pointer, size in zip(array, sizes, strict=True)]


def test_the_driver_is_given_a_pointer_to_each_argument(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    given = (b"\1\0\0\0", b"\2" * 8, b"\3" * 128, b"\4", b"\5" * 72)
    seen: list[list[bytes]] = []

    def launch_kernel(*what: Any) -> tuple[int]:
        assert all(pointer % 8 == 0 for pointer in (ctypes.c_void_p * 5).from_address(what[9]))
        seen.append(arguments_at(what[9], [len(each) for each in given]))
        return (0,)

    monkeypatch.setattr(driver, "cuLaunchKernel", launch_kernel)
    driver.launch_ex = LAUNCH_EX(lambda _config, _function, arguments, _extra: launch_kernel(*[0] * 9, arguments)[0])
    device, step = cuda(driver), Step(LoadedCubin(0xF0, "m", 0), Launch(Geometry((6, 1, 1), (128, 1, 1)), given))
    device.launch(step.loaded, step.launch)
    enqueue = device.launcher([[step], [replace(step), step]], 7)
    gc.collect()
    enqueue(0)
    enqueue(1)
    assert seen == [list(given)] * 4


def test_addresses_are_written_over_the_arguments(driver: FakeDriver) -> None:
    """Of both launches, at every start: those of the call before must not remain anywhere."""
    seen: list[tuple[int, list[bytes]]] = []

    def launch_ex(config: int, function: int, arguments: int, _extra: int) -> int:
        seen.append((function, arguments_at(arguments, [4, 128, 24] if function == 0xF0 else [8])))
        assert streams[config] == 5
        return 0

    driver.launch_ex = LAUNCH_EX(launch_ex)
    device = cuda(driver)
    geometry = Geometry((6, 1, 1), (128, 1, 1))
    first = Step(LoadedCubin(0xF0, "m", 0), Launch(geometry, (b"\1" * 4, b"\3" * 128, b"\5" * 24)))
    last = Step(LoadedCubin(0xF1, "m", 0), Launch(geometry, (bytes(8),)))
    start = device.armed([PatchedStep(first, (ArgumentPatch(1, 0, 0, 16), ArgumentPatch(2, 8, 4, 0))),
                          PatchedStep(last, (ArgumentPatch(0, 0, 2, 0),))])  # fmt: skip
    streams = {id(device._config(geometry, 5)): 5}
    for base in (0x1000, 1 << 47):
        start(base, 0, base + 2, 0, base + 4, 5)
    assert [each[0] for each in seen] == [0xF0, 0xF1] * 2
    for i, base in enumerate((0x1000, 1 << 47)):
        (_, (small, tensor_map, middle)), (_, (pointer,)) = seen[2 * i : 2 * i + 2]
        assert small == b"\1" * 4
        assert tensor_map == (base + 16).to_bytes(8, "little") + b"\3" * 120
        assert middle == b"\5" * 8 + (base + 4).to_bytes(8, "little") + b"\5" * 8
        assert pointer == (base + 2).to_bytes(8, "little")
    with pytest.raises(LaunchError, match="between two words"):
        device.armed([PatchedStep(last, (ArgumentPatch(0, 4, 2, 0),))])


def test_a_refused_launch_raises(driver: FakeDriver) -> None:
    driver.launch_ex = LAUNCH_EX(lambda *_: 1)
    device = cuda(driver)
    step = Step(LoadedCubin(0xF0, "m", 0), Launch(Geometry((6, 1, 1), (128, 1, 1)), (bytes(8),)))
    for start in (lambda: device.armed([PatchedStep(step, ())])(0, 0, 0, 0, 0, 5),
                  lambda: device.launcher([[step]], 5)(0)):  # fmt: skip
        with pytest.raises(LaunchError, match="launching the kernel failed: CUDA_ERROR_INVALID_VALUE"):
            start()


# --- signatures and compilation


def test_an_entry_with_tensor_maps() -> None:
    signature = parse_signature(CODE, "gemm", tensor_maps=True)
    roles = [argument.role for argument in signature.arguments]
    assert roles == ["M", "N", "K", "alpha", "mapA", "mapB", "beta", "C", "ldc", "mapC", "bias", "strideC", "batch"]
    problem = Problem(2, 3, 4, batch=5)
    packed = dict(zip(roles, signature.pack(problem, 1, 2, 3, maps={"map_a": b"a" * 128, "map_c": b"c" * 128}),
                      strict=True))  # fmt: skip
    assert (packed["mapA"], packed["mapB"], packed["mapC"]) == (b"a" * 128, bytes(128), b"c" * 128)
    assert packed["batch"] == b"\5\0\0\0"


def test_a_users_file_cannot_have_tensor_maps(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="meaning of parameter 'map_a' is not recognised"):
        parse_signature(CODE, "gemm")
    path = tmp_path / "mine.cu"
    path.write_text(CODE, encoding="utf-8")
    with pytest.raises(SignatureError, match=r"map_a is a tensor map"):
        user_kernel(path, UserOptions(block="32"))


@pytest.mark.parametrize(("params", "said"), [
    ("TensorMap map_a, float* C, int N", "no parameter for B"),
    ("TensorMap map_a, TensorMap map_b, TensorMap map_c, int N", "no parameter for C"),
    ("TensorMap* map_a, TensorMap map_b, float* C, int N", "'map_a' is not recognised"),
    ("TensorMap map_a, TensorMap map_b, TensorMap map_b, float* C, int N", "two parameters that mean mapB"),
])  # fmt: skip
def test_incomplete_entries_with_tensor_maps(params: str, said: str) -> None:
    with pytest.raises(SignatureError, match=said):
        parse_signature(f"__global__ void gemm({params}) {{}}", "gemm", tensor_maps=True)


def test_a_kernel_for_one_architecture_is_compiled_only_for_it(tmp_path: Path) -> None:
    spec, problem = mapped_kernel(tmp_path), Problem(64, 64, 64, dtype=FP16)
    assert [target_arch(spec, arch) for arch in ("sm_90", "sm_90a")] == ["sm_90a"] * 2
    assert target_arch(rung_named("naive"), "sm_90") == "sm_90"
    assert render_for(spec, spec.config(), problem, "sm_90").arch == "sm_90a"
    for arch in ("sm_80", "sm_100", "sm_120"):
        with pytest.raises(UnsupportedError, match=f"mapped uses instructions that only sm_90 has.*{arch}"):
            compile_for(spec, spec.config(), problem, arch)


def test_tensor_maps_are_compiled_to_parameters_of_128_bytes(tmp_path: Path) -> None:
    spec = mapped_kernel(tmp_path)
    compiled = compile_kernel(spec, spec.config(), dtype=FP16, arch="sm_90")
    assert compiled.arch == "sm_90a"
    assert ".target sm_90a" in compiled.ptx
    assert compiled.ptx.count(".align 64 .b8 gemm_param_") == 3
    assert compile_kernel(spec, spec.config(), dtype=FP16, arch="sm_90a").key == compiled.key
