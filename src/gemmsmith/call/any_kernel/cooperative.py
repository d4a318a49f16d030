"""Cooperative launches: every block must be resident at the same time, so the grid has a largest size."""

from __future__ import annotations

from gemmsmith.call.any_kernel.kernel import LaunchKernel
from gemmsmith.compile.compiled import Resources
from gemmsmith.errors import UsageError
from gemmsmith.gpus import GPU, gpu_named
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import ceil_div
from gemmsmith.run.cuda import CudaDevice, LoadedCubin

_SIMULATED_GPU = "H200"  # whose SMs the simulator's grids fill


def check_cooperative(
    kernel: LaunchKernel, geometry: Geometry, device: CudaDevice | None, loaded: LoadedCubin | None = None
) -> None:
    """Raise unless all blocks are resident at once: on this GPU, or on an H200 for the simulator (no device)."""
    if device is None or loaded is None:
        gpu = gpu_named(_SIMULATED_GPU)
        name, sms, each = gpu.name, gpu.sms, resident_blocks(gpu, kernel.compiled.resources, geometry)
    else:
        name, sms, each = device.name, device.sms, device.resident_blocks(loaded, geometry)
    if geometry.blocks > sms * each:
        raise UsageError(
            f"a cooperative launch of {geometry.blocks:,} blocks: {name} holds {sms * each:,} of {kernel.name} at once "
            f"({sms} SMs × {each} blocks of {geometry.threads} threads)",
            f"launch at most {sms * each:,} blocks; a loop over the grid's stride covers the rest",
        )


def resident_blocks(gpu: GPU, used: Resources, geometry: Geometry) -> int:
    """Blocks per SM, as the driver's occupancy calculator counts them; ``explain/occupancy.py`` has its arithmetic."""
    warps = ceil_div(geometry.threads, gpu.warp_size)
    held = [gpu.warps_per_sm // warps, gpu.blocks_per_sm]
    if used.registers:
        taken = ceil_div(used.registers * gpu.warp_size, gpu.register_unit) * gpu.register_unit
        each = gpu.registers_per_sm // gpu.sm_partitions // taken
        held.append(each * gpu.sm_partitions // warps)
    shared = used.static_smem + geometry.smem + gpu.reserved_smem_per_block
    if shared:
        held.append(gpu.smem_per_sm // (ceil_div(shared, gpu.smem_unit) * gpu.smem_unit))
    if gpu.barriers_per_sm and used.barriers:
        held.append(gpu.barriers_per_sm // used.barriers)
    return min(held)
