"""A GPU as a device: tensor maps from the driver, clusters, PDL, and the arguments of a launch."""

from __future__ import annotations

import ctypes
import gc
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from fake_driver import LAUNCH_EX, FakeDriver
from test_tensor_map_encoding import PLAIN

from gemmsmith.errors import LaunchError, UnsupportedError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.cuda import CudaDevice, LoadedCubin
from gemmsmith.run.device import ArgumentPatch, Launch, PatchedStep, Step


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
