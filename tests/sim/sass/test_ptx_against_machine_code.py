"""Machine code and PTX of one kernel give the same bits: integers, floats, divergence, warps, blocks."""

from __future__ import annotations

import numpy as np
import pytest
from machine_sources import (
    ARRIVALS_OF_COPIES,
    BLOCKS,
    DIVERGENCE,
    FLOATS,
    HALF_PARAMETERS,
    INTEGERS,
    MERGED_HALVES,
    NARROW_CONSTANTS,
    VALUES_IN_TURN,
    WARPS,
)
from numpy.typing import NDArray

from gemmsmith.compile import compile_request, find_toolchain
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.render import CompileRequest
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.sass.device import MachineDevice

KERNELS = {"integers": INTEGERS, "floats": FLOATS, "divergence": DIVERGENCE, "warps": WARPS, "blocks": BLOCKS,
           "narrow constants": NARROW_CONSTANTS}  # fmt: skip


def compiled(source: str, arch: str) -> CompiledKernel:
    return compile_request(CompileRequest("mine.cu", source, (), (), arch, "k"), find_toolchain())


def results(device: SimDevice, kernel: CompiledKernel, values: NDArray[np.int32], words: int) -> NDArray[np.int32]:
    data, out = device.allocate(values.nbytes), device.allocate(4 * words)
    device.write(data, values.view(np.uint8))
    device.write(out, np.zeros(4 * words, np.uint8))
    arguments = data.to_bytes(8, "little"), out.to_bytes(8, "little"), len(values).to_bytes(4, "little")
    device.launch(device.load(kernel), Launch(Geometry((2, 1, 1), (128, 1, 1)), arguments))
    device.synchronize()
    return device.read(out, 4 * words).view(np.int32)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", KERNELS)
def test_same_bits(name: str, arch: str) -> None:
    random = np.random.default_rng(0)
    values = random.integers(-(2**31), 2**31, 240).astype(np.int32)
    values[::5] = random.integers(-9, 9, values[::5].size)
    kernel = compiled(KERNELS[name], arch)
    words = 2 * 256 * 80
    expected, found = (results(cls(arch), kernel, values, words) for cls in (SimDevice, MachineDevice))
    assert expected.any()
    wrong = np.flatnonzero(expected != found)
    assert not wrong.size, f"results {sorted(set((wrong // 2 // len(values)).tolist()))} differ"


def test_lanes_that_copy_different_rows() -> None:
    """A bulk copy takes uniform registers, so a loop runs it for one lane's values after another's."""
    values = np.random.default_rng(2).integers(-(2**20), 2**20, 240).astype(np.int32)
    kernel = compiled(VALUES_IN_TURN, "sm_90a")
    expected, found = (results(cls("sm_90"), kernel, values, 32) for cls in (SimDevice, MachineDevice))
    assert (expected[:20] == values[4 * (np.arange(20) * 7 % 20)] + values[4 * (np.arange(20) * 7 % 20) + 3]).all()
    assert (found == expected).all()


def test_arrivals_of_copies() -> None:
    """``ARRIVES.LDGSTSBAR.64``, with ARVCNT for an arrival that was counted, and with TRANSCNT for one that was not."""
    values = np.random.default_rng(3).integers(1, 2**20, 128).astype(np.int32)
    kernel = compiled(ARRIVALS_OF_COPIES, "sm_90")
    expected, found = (results(cls("sm_90"), kernel, values, 256) for cls in (SimDevice, MachineDevice))
    assert (expected == np.tile(values[::-1], 2)).all()
    assert (found == expected).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90"])
def test_halves_as_parameters(arch: str) -> None:
    """Two halves share a word of the constant bank, and instructions take one of them (``c[0x0] [0x174].H1_H1``)."""
    kernel, n = compiled(HALF_PARAMETERS, arch), 100
    values = np.random.default_rng(1).integers(-40, 40, n).astype(np.float16) / np.float16(8)
    halves = [np.float16(x).tobytes() for x in (1.5, -0.75)]
    found = []
    for device in (SimDevice(arch), MachineDevice(arch)):
        data, out = device.allocate(2 * n), device.allocate(6 * n)
        device.write(data, values.view(np.uint8))
        device.write(out, np.tile(values, 3).view(np.uint8))
        arguments = (data.to_bytes(8, "little"), out.to_bytes(8, "little"), n.to_bytes(4, "little"), *halves,
                     (-321).to_bytes(2, "little", signed=True))  # fmt: skip
        device.launch(device.load(kernel), Launch(Geometry((1, 1, 1), (128, 1, 1)), arguments))
        device.synchronize()
        found.append(device.read(out, 6 * n).view(np.float16))
    assert (found[0].view(np.uint16) == found[1].view(np.uint16)).all()
    assert (found[0][1::3] == -321).all()
    assert (found[0][2::3] == values * np.float16(-0.75) + np.float16(1.5)).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89"])
def test_halves_that_share_a_register(arch: str) -> None:
    """``F2FP.MERGE_C`` converts to the lower half, and takes the upper one from another register's lower half."""
    kernel, n = compiled(MERGED_HALVES, arch), 96
    values = (np.random.default_rng(4).integers(-40, 40, 2 * n) / 8).astype(np.float16)
    scales = [np.float32(x).tobytes() for x in (1.5, -0.75)]
    found = []
    for device in (SimDevice(arch), MachineDevice(arch)):
        data, out = device.allocate(4 * n), device.allocate(4 * 8 * 32)
        device.write(data, values.view(np.uint8))
        arguments = data.to_bytes(8, "little"), out.to_bytes(8, "little"), n.to_bytes(4, "little"), *scales
        device.launch(device.load(kernel), Launch(Geometry((1, 1, 1), (32, 1, 1)), arguments))
        device.synchronize()
        found.append(device.read(out, 4 * 8 * 32).view(np.float16))
    pairs = values.reshape(n, 2)
    at = np.arange(256)
    expected = pairs[at % n] * np.float16(1.5) + pairs[(at + 3) % n] * np.float16(-0.75)
    assert (found[0].reshape(-1, 2) == expected).all()
    assert (found[1] == found[0]).all()
