"""Compile CUDA with NVRTC and run it on the simulator with NumPy arrays as buffers."""

from __future__ import annotations

import numpy as np
from ptx_launch import Array

from gemmsmith.compile import compile_request, find_toolchain
from gemmsmith.compile.render import CompileRequest
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice


def run(
    source: str,
    *arguments: Array | np.generic,
    grid: int = 1,
    block: int = 32,
    smem: int = 0,
    device: SimDevice | None = None,
    arch: str = "sm_90",
) -> list[Array]:
    """Run the kernel ``k`` of a source; arrays are buffers, and their contents afterwards come back."""
    compiled = compile_request(CompileRequest("mine.cu", source, (), (), arch, "k"), find_toolchain())
    device = device or SimDevice()
    packed, buffers = [], []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            address = device.allocate(argument.nbytes)
            device.write(address, argument.reshape(-1).view(np.uint8))
            buffers.append((address, argument))
            packed.append(address.to_bytes(8, "little"))
        else:
            packed.append(argument.tobytes())
    device.launch(device.load(compiled), Launch(Geometry((grid, 1, 1), (block, 1, 1), smem=smem), tuple(packed)))
    device.synchronize()
    return [device.read(at, a.nbytes).view(a.dtype).reshape(a.shape) for at, a in buffers]
