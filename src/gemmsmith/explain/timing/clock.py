"""The clock that a launch settles at: the highest one, or the one at which the GPU draws its power limit.

Power is that of an SM at work plus the energy of what it does. Energy goes with the square of the voltage, which goes
with the clock; so at the power limit the clock goes with the third root of what is left for work.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.gpus import GPU
from gemmsmith.sim.timing.parameters import GpuParameters


@dataclass(frozen=True)
class Activity:
    """What the whole GPU does in a launch: FLOPs by unit, warp instructions, bytes."""

    gmma_flops: float = 0.0
    mma_flops: float = 0.0
    ffma_flops: float = 0.0
    instructions: float = 0.0
    shared_bytes: float = 0.0
    l2_bytes: float = 0.0
    dram_bytes: float = 0.0

    def joules(self, model: GpuParameters) -> float:
        """The energy of the work, at the highest clock."""
        return 1e-12 * (
            self.gmma_flops * model.gmma_pj + self.mma_flops * model.mma_pj + self.ffma_flops * model.ffma_pj
            + self.instructions * model.issue_pj + self.shared_bytes * model.shared_pj + self.l2_bytes * model.l2_pj
            + self.dram_bytes * model.dram_pj
        )  # fmt: skip


def clock_mhz(gpu: GPU, model: GpuParameters, activity: Activity, cycles: float) -> float:
    """The clock that work of so many cycles settles at, launched again and again."""
    tensor = activity.gmma_flops > 0 or activity.mma_flops > 0
    highest = min(gpu.boost_mhz, model.tensor_mhz or gpu.boost_mhz) if tensor else float(gpu.boost_mhz)
    if not model.base_watts or cycles <= 0:
        return float(highest)
    seconds = cycles / (gpu.boost_mhz * 1e6)
    work = activity.joules(model) / seconds
    low, high = 0.3, highest / gpu.boost_mhz
    if model.base_watts * high + work * high**3 <= gpu.tdp_watts:
        return float(highest)
    for _ in range(30):
        f = (low + high) / 2
        low, high = (f, high) if model.base_watts * f + work * f**3 < gpu.tdp_watts else (low, f)
    return gpu.boost_mhz * low
