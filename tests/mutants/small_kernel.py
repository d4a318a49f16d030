"""Runs a small CUDA kernel, ``f(const float* in, float* out)``, on the simulator with the race detector on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gemmsmith.compile.compiler import compile_kernel
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.races.hazards import Hazard, HazardError
from gemmsmith.sim.schedule import schedule_named

ENTRY = 'extern "C" __global__ void f(const float* in, float* out) {{\n    const int t = threadIdx.x;\n{body}\n}}\n'
ARCH = "sm_90"
# Global variables of kernels in several tests, and an array in shared memory.
BEFORE = """
__device__ unsigned counter, gate;
__device__ volatile unsigned flag;
__device__ float partial[1024];
"""
FLOATS = "__shared__ volatile float s[256];\n"


@dataclass(frozen=True)
class Outcome:
    """The contents of ``out`` after a launch, and the races found."""

    out: NDArray[np.float32]
    hazards: tuple[Hazard, ...]

    @property
    def kinds(self) -> set[str]:
        return {hazard.kind for hazard in self.hazards}


def run_body(
    folder: Path,
    body: str,
    *,
    threads: int = 64,
    blocks: int = 1,
    schedule: str = "lockstep",
    seed: int = 0,
    before: str = "",
) -> Outcome:
    """Runs ``body`` with ``t = threadIdx.x``. ``in`` counts up from 1. A simulator fault raises."""
    source = folder / "small.cu"
    source.write_text(before + ENTRY.format(body=body), encoding="utf-8")
    geometry = Geometry((blocks, 1, 1), (threads, 1, 1))
    spec = KernelSpec("small", source, "", "", lambda _problem, _config: geometry, entry="f")
    compiled = compile_kernel(spec, Config(), dtype=FP32, arch=ARCH)
    device = SimDevice(ARCH, schedule_named(schedule, seed), hazards=True)
    count = blocks * threads
    given = np.arange(1, 4 * count + 1, dtype=np.float32)
    source_address, target = device.allocate(given.nbytes), device.allocate(4 * count)
    device.write(source_address, given.view(np.uint8))
    arguments = tuple(address.to_bytes(8, "little") for address in (source_address, target))
    device.launch(device.load(compiled), Launch(geometry, arguments))
    hazards: tuple[Hazard, ...] = ()
    try:
        device.synchronize()
    except HazardError as error:
        hazards = error.hazards
    return Outcome(device.read(target, 4 * count).view(np.float32), hazards)
