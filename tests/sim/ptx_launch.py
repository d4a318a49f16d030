"""Small PTX kernels for the machine's tests, run on the simulator with NumPy arrays as buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import NAMES, Schedule, schedule_named

Array = NDArray[Any]
Size = tuple[int, int, int]

# Every schedule, with more than one seed where that makes a difference.
SCHEDULES = (*((name, 0) for name in NAMES), ("random", 1), ("random", 2), ("starved", 1))


def scheduled(case: tuple[str, int]) -> Schedule:
    return schedule_named(*case)


def kernel(body: str, buffers: int, declarations: str = "") -> str:
    """An entry ``k`` with the address of buffer i in %bi, the thread in %t (x), and registers %p, %h, %r, %f, %d.

    Each line of the body is line n of k.cu, counted from one.
    """
    parameters = ", ".join(f".param .u64 p{i}" for i in range(buffers))
    loads = "\n".join(f"ld.param.u64 %b{i}, [p{i}];" for i in range(buffers))
    lines = "\n".join(f".loc 1 {n} 1\n{line}" for n, line in enumerate(body.strip().splitlines(), 1))
    return f"""
.version 8.0
.target sm_90
.address_size 64
.file 1 "k.cu"
.visible .entry k({parameters})
{{
    .reg .pred %p<10>; .reg .b16 %h<20>; .reg .b32 %r<40>, %t; .reg .f32 %f<20>; .reg .b64 %d<20>, %b<9>;
    {declarations}
    {loads}
    mov.u32 %t, %tid.x;
    {lines}
    ret;
}}
"""


def launch(
    body: str,
    *buffers: Array,
    grid: Size = (1, 1, 1),
    block: Size = (32, 1, 1),
    smem: int = 0,
    declarations: str = "",
    schedule: Schedule | None = None,
    hazards: bool = False,
    count: bool = False,
    blocks: Sequence[int] | None = None,
) -> list[Array]:
    """Run a body; every buffer's contents afterwards."""
    device = SimDevice(schedule=schedule, hazards=hazards, count=count)
    addresses = []
    for buffer in buffers:
        addresses.append(device.allocate(buffer.nbytes))
        device.write(addresses[-1], buffer.reshape(-1).view(np.uint8))
    loaded = device.load_ptx(kernel(body, len(buffers), declarations), "k")
    arguments = tuple(address.to_bytes(8, "little") for address in addresses)
    device.launch(loaded, Launch(Geometry(grid, block, smem=smem), arguments), blocks)
    device.synchronize()
    return [
        device.read(address, buffer.nbytes).view(buffer.dtype).reshape(buffer.shape)
        for address, buffer in zip(addresses, buffers, strict=True)
    ]


def words(count: int) -> Array:
    """A zeroed output of 32-bit words."""
    return np.zeros(count, np.uint32)


# %d9 becomes the address of this thread's word of buffer 0, by its linear number in the grid (1-D blocks).
MY_WORD = """mov.u32 %r30, %ctaid.x; mov.u32 %r31, %ntid.x; mad.lo.u32 %r32, %r30, %r31, %t;
mad.wide.u32 %d9, %r32, 4, %b0;
"""
