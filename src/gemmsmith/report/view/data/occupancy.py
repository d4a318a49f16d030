"""Occupancy: the kernel's resources, and the limits of every GPU in the table, for sliders that compute it live."""

from __future__ import annotations

from typing import Any

from gemmsmith.gpus import GPU, gpu_named, gpus
from gemmsmith.report.view.model import ViewData, ViewSubject

_DEFAULT = "H200"
# The limits that occupancy depends on (explain/occupancy.py); ``GS.occupancy`` computes from the same.
LIMITS = (
    "warp_size", "threads_per_block", "registers_per_thread", "threads_per_sm", "blocks_per_sm", "barriers_per_sm",
    "registers_per_sm", "register_unit", "sm_partitions", "smem_per_sm", "smem_per_block", "reserved_smem_per_block",
    "smem_unit",
)  # fmt: skip


def build(subject: ViewSubject) -> ViewData | None:
    """Every launch has this view."""
    trace = subject.trace
    used = subject.compiled.resources if subject.compiled is not None else None
    own = subject.gpu or gpu_named(_DEFAULT)
    kernel = {
        "threads": trace.threads, "registers": used.registers if used is not None else trace.registers,
        "static_smem": trace.static_smem, "dynamic_smem": trace.dynamic_smem,
        "barriers": used.barriers if used is not None else 0, "blocks": trace.grid[0] * trace.grid[1] * trace.grid[2],
    }  # fmt: skip
    notice = ("Occupancy falls in steps: one register or byte too many costs a whole block per SM, and all others "
              "between two steps are free. The player varies the registers; the sliders set the rest.")  # fmt: skip
    known = list(gpus())
    if own.name not in {gpu.name for gpu in known}:
        known.append(own)
    return ViewData("Occupancy", notice, {"kernel": kernel, "gpus": [limits_of(gpu) for gpu in known], "gpu": own.name})


def limits_of(gpu: GPU) -> dict[str, Any]:
    return {"name": gpu.name, "arch": gpu.arch, "sms": gpu.sms} | {name: getattr(gpu, name) for name in LIMITS}
