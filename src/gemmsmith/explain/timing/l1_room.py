"""The lines that L1 has room for, beside what the driver sets aside as shared memory."""

from __future__ import annotations

from gemmsmith.explain.occupancy import Occupancy
from gemmsmith.gpus import GPU
from gemmsmith.problem import ceil_div
from gemmsmith.sim.timing.parameters import GpuParameters
from gemmsmith.sim.wavefronts import LINE

_LEAST = 64  # lines


def l1_lines(gpu: GPU, model: GpuParameters, held: Occupancy) -> int:
    block = held.static_smem + held.dynamic_smem + gpu.reserved_smem_per_block
    return max(_LEAST, (model.sm.l1_bytes - carve_out(gpu, model, block, held.blocks_per_sm)) // LINE)


def carve_out(gpu: GPU, model: GpuParameters, block_bytes: int, blocks: int) -> int:
    """Bytes that are set aside for ``blocks`` blocks on an SM: all that fit, however many the launch has.

    The driver chooses a size for twice as many blocks as long as that leaves about half of L1; not if an SM holds one
    block, nor if it can hold no more.
    """
    each = ceil_div(block_bytes, gpu.smem_unit) * gpu.smem_unit
    need = each * max(1, blocks)
    if 1 < blocks < gpu.blocks_per_sm:
        need = max(need, min(2 * need, model.carve_out_twice_kb * 1024))
    sizes = [kb * 1024 for kb in model.carve_outs_kb if kb * 1024 <= gpu.smem_per_sm]
    return next((size for size in sizes if size >= need), gpu.smem_per_sm)
