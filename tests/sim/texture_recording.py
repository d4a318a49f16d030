"""Texture reads on a GPU and on the simulator. ``benchmarks/record_textures.py`` writes the GPU's to textures.npz."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from texture_cases import BLOCK, Case

from gemmsmith.call.any_kernel.kernel import compile_launch
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.cuda_textures import CudaTextures
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory.textures import SimTextures

FILE = Path(__file__).parents[1] / "data" / "textures.npz"
SAMPLES = 256  # of each case


def plain_bytes(case: Case) -> NDArray[np.uint8]:
    """The texels as they lie in memory, with the gaps between rows."""
    data = np.ascontiguousarray(case.data)
    rows = data.reshape(case.texels.slices * case.texels.rows, -1).view(np.uint8)
    image = np.zeros((rows.shape[0], case.texels.row_bytes), np.uint8)
    image[:, : rows.shape[1]] = rows
    return image.reshape(-1)


def recorded(device: CudaDevice | SimDevice, case: Case) -> NDArray[np.uint32]:
    """The bits that a device returns: samples x 4."""
    count = case.coordinates.shape[1]
    compiled = compile_launch(case.source, "sample", {}, (), device.arch).compiled
    loaded: Any = device.load(compiled)
    textures: Any = CudaTextures(device) if isinstance(device, CudaDevice) else SimTextures(device)
    memory: list[int] = []

    def on_device(data: NDArray[Any]) -> int:
        memory.append(device.allocate(data.nbytes))
        device.write(memory[-1], data.reshape(-1).view(np.uint8))
        return memory[-1]

    try:
        image = plain_bytes(case)
        where = textures.array(case.texels, image) if case.texels.resource == "array" else on_device(image)
        handle = textures.texture(case.texels, case.sampling, where)
        at = on_device(np.ascontiguousarray(case.coordinates))
        out = on_device(np.full((count, 4), 0xAAAAAAAA, np.uint32))
        arguments = (handle.to_bytes(8, "little"), at.to_bytes(8, "little"), out.to_bytes(8, "little"),
                     count.to_bytes(4, "little"))  # fmt: skip
        device.launch(loaded, Launch(Geometry((-(-count // BLOCK), 1, 1), (BLOCK, 1, 1), 0), arguments))
        device.synchronize()
        return device.read(out, 16 * count).view(np.uint32).reshape(count, 4)
    finally:
        textures.free()
        for base in memory:
            device.free(base)
