"""Compile the kernels of tests/data/tensor_core_*.cu and run them on the simulator, with NumPy arrays as buffers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice

Array = NDArray[Any]
Size = tuple[int, int, int]
DATA = Path(__file__).parents[1] / "data"
STAGE_BYTES = 8192  # of ``pipelined``


@cache
def _module(name: str, first: str, arch: str, defines: tuple[tuple[str, str], ...]) -> CompiledKernel:
    request = CompileRequest(name, (DATA / name).read_text(encoding="utf-8"), (), defines, arch, first)
    return compile_request(request, find_toolchain())


def compiled(entry: str, arch: str = "sm_90", defines: tuple[tuple[str, str], ...] = ()) -> CompiledKernel:
    """One kernel of a file that is compiled once for all of its kernels."""
    name, first = ("tensor_core_wmma.cu", "wmma_half") if entry.startswith("wmma") else ("tensor_core_mma.cu", "plain")
    return replace(_module(name, first, arch, defines), entry=entry)


def run(device: SimDevice, kernel: CompiledKernel, grid: Size, threads: int, arrays: list[Array], *scalars: int,
        smem: int = 0) -> list[Array]:  # fmt: skip
    """Every array's contents after a launch whose arguments are the arrays' addresses and 32-bit ``scalars``."""
    addresses = [device.allocate(array.nbytes) for array in arrays]
    for address, array in zip(addresses, arrays, strict=True):
        device.write(address, array.reshape(-1).view(np.uint8))
    packed = (*(a.to_bytes(8, "little") for a in addresses), *(s.to_bytes(4, "little") for s in scalars))
    device.launch(device.load(kernel), Launch(Geometry(grid, (threads, 1, 1), smem=smem), packed))
    device.synchronize()
    return [device.read(a, x.nbytes).view(x.dtype).reshape(x.shape) for a, x in zip(addresses, arrays, strict=True)]


def whole(seed: int, *shape: int) -> Array:
    """Small whole numbers as float64: products and sums of them are exact in every type here."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float64)


def pipelined(device: SimDevice, a: Array, b: Array, arch: str = "sm_90", stages: int = 3,
              defines: tuple[tuple[str, str], ...] = ()) -> Array:  # fmt: skip
    """A·Bᵀ by the pipelined kernel, in fp16; B is N×K."""
    (m, k), n = a.shape, len(b)
    kernel = compiled("pipelined", arch, (("STAGES", str(stages)), *defines))
    c = np.full((m, n), np.nan, np.float32)
    arrays = [a.astype(np.float16), b.astype(np.float16), c]
    return run(device, kernel, (n // 64, m // 64, 1), 128, arrays, n, k, smem=stages * STAGE_BYTES)[2]
