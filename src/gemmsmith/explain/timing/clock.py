"""The clock that a launch settles at: the highest one, or the one at which the GPU draws its power limit.

Power is that of an SM at work plus the energy of what it does. Energy of an SM goes with the square of the voltage,
which goes with the clock. That of L2 and DRAM, which have clocks of their own, does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.gpus import GPU
from gemmsmith.sim.timing.parameters import GpuParameters

_LOWEST = 0.59  # of the boost clock: no kernel of the records runs more slowly (h200_cycles.json: 1,168 MHz)


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
        """The energy of the work of SMs, at the highest clock."""
        return 1e-12 * (
            self.gmma_flops * model.gmma_pj + self.mma_flops * model.mma_pj + self.ffma_flops * model.ffma_pj
            + self.instructions * model.issue_pj + self.shared_bytes * model.shared_pj
        )  # fmt: skip

    def memory_joules(self, model: GpuParameters) -> float:
        """That of L2 and DRAM, at any clock of the SMs."""
        return 1e-12 * (self.l2_bytes * model.l2_pj + self.dram_bytes * model.dram_pj)


def clock_mhz(gpu: GPU, model: GpuParameters, activity: Activity, cycles: float, least_us: float = 0.0) -> float:
    """The clock that work of so many cycles settles at, launched again and again.

    ``least_us``: what it takes at any clock of the SMs, since L2 or DRAM bound it.
    """
    tensor = activity.gmma_flops > 0 or activity.mma_flops > 0
    highest = min(gpu.boost_mhz, model.tensor_mhz or gpu.boost_mhz) if tensor else float(gpu.boost_mhz)
    if not model.base_watts or cycles <= 0:
        return float(highest)
    work, memory = activity.joules(model), activity.memory_joules(model)

    def watts(f: float) -> float:
        seconds = max(cycles / (f * gpu.boost_mhz), least_us) * 1e-6
        return model.base_watts * f + (work * f * f + memory) / seconds

    low, high = _LOWEST, highest / gpu.boost_mhz
    if watts(high) <= gpu.tdp_watts:
        return float(highest)
    for _ in range(30):
        f = (low + high) / 2
        low, high = (f, high) if watts(f) < gpu.tdp_watts else (low, f)
    return gpu.boost_mhz * low
