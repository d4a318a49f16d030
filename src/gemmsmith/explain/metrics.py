"""The metrics of a profile: Nsight Compute's names, their meaning, and how simulated counts map to them."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.sim.counters import Counters


@dataclass(frozen=True)
class Metric:
    """One counter by its Nsight Compute name; ``hardware_only`` counters cannot be simulated."""

    name: str
    title: str
    unit: str
    hardware_only: bool = False


_SHARED_WAVES = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_"
_LDSM_CONFLICTS = "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_"
_TENSOR = "sm__inst_executed_pipe_tensor.sum"
_STALLS = ("long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle", "barrier", "math_pipe_throttle",
           "wait", "not_selected", "dispatch_stall", "no_instruction", "branch_resolving", "membar")  # fmt: skip
METRICS = (
    Metric("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "global load requests", "requests"),
    Metric("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "global store requests", "requests"),
    Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "global load sectors", "sectors"),
    Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "global store sectors", "sectors"),
    Metric("smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts.sum", "… of these by cp.async", "sectors"),
    Metric("smsp__sass_inst_executed_op_shared_ld.sum", "shared load requests", "requests"),
    Metric("smsp__sass_inst_executed_op_shared_st.sum", "shared store requests", "requests"),
    Metric("smsp__inst_executed_op_ldgsts.sum", "asynchronous copies", "requests"),
    Metric("smsp__inst_executed_op_ldsm.sum", "ldmatrix requests", "requests"),
    Metric(f"{_SHARED_WAVES}ld.sum", "shared load wavefronts", "wavefronts"),
    Metric(f"{_SHARED_WAVES}st.sum", "shared store wavefronts", "wavefronts"),
    Metric(f"{_SHARED_WAVES}ldgsts.sum", "cp.async wavefronts", "wavefronts"),
    Metric(f"{_SHARED_WAVES}ldsm.sum", "ldmatrix wavefronts", "wavefronts"),
    Metric(f"{_CONFLICTS}ld.sum", "shared load bank conflicts", "wavefronts"),
    Metric(f"{_CONFLICTS}st.sum", "shared store bank conflicts", "wavefronts"),
    Metric("smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum", "cp.async bank conflicts",
           "wavefronts"),
    Metric(_LDSM_CONFLICTS, "… of the load conflicts by ldmatrix", "wavefronts"),
    Metric(_TENSOR, "tensor instructions", "instructions"),
    Metric("sm__inst_executed_pipe_tensor_op_gmma.sum", "… of these wgmma", "instructions"),
    Metric("sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum", "wgmma wavefronts", "wavefronts"),
    Metric("smsp__inst_executed_op_tma_ld.sum", "TMA loads", "requests"),
    Metric("smsp__inst_executed_op_tma_st.sum", "TMA stores", "requests"),
    Metric("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "FFMA, per thread", "instructions"),
    Metric("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum", "FMUL, per thread", "instructions"),
    Metric("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "FADD, per thread", "instructions"),
    Metric("smsp__warps_launched.sum", "warps", "warps"),
    Metric("smsp__inst_executed.sum", "instructions executed", "instructions", hardware_only=True),
    Metric("gpu__time_duration.sum", "time", "ns", hardware_only=True),
    Metric("sm__warps_active.avg.pct_of_peak_sustained_active", "achieved occupancy", "%", hardware_only=True),
    Metric("sm__throughput.avg.pct_of_peak_sustained_elapsed", "SM throughput", "%", hardware_only=True),
    Metric("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "memory throughput", "%",
           hardware_only=True),
    Metric("l1tex__throughput.avg.pct_of_peak_sustained_active", "L1 throughput", "%", hardware_only=True),
    Metric("lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2 throughput", "%", hardware_only=True),
    Metric("dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM throughput", "%", hardware_only=True),
    Metric("sm__inst_executed.avg.per_cycle_active", "instructions per cycle", "1/cycle", hardware_only=True),
    Metric("sm__inst_issued.avg.pct_of_peak_sustained_active", "issue slots busy", "%", hardware_only=True),
    Metric("sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", "FMA pipe", "%", hardware_only=True),
    Metric("sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "tensor pipe", "%", hardware_only=True),
    Metric("l1tex__t_sector_hit_rate.pct", "L1 hit rate", "%", hardware_only=True),
    Metric("lts__t_sector_hit_rate.pct", "L2 hit rate", "%", hardware_only=True),
    Metric("smsp__warps_eligible.avg.per_cycle_active", "eligible warps", "warps", hardware_only=True),
    Metric("smsp__warps_active.avg.per_cycle_active", "active warps", "warps", hardware_only=True),
    *(
        Metric(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio",
               f"stall: {reason.replace('_', ' ')}", "cycles/instruction", hardware_only=True)
        for reason in _STALLS
    ),
)  # fmt: skip
BY_NAME = {metric.name: metric for metric in METRICS}


def simulated(counters: Counters) -> dict[str, int]:
    """The simulated metrics, from a launch's counts."""
    total = dict.fromkeys((m.name for m in METRICS if not m.hardware_only), 0)
    for operation, count in counters.items():
        for name, value in counters.metrics(operation, count).items():
            total[name] += value
    geometry = counters.geometry
    total["smsp__warps_launched.sum"] = -(-geometry.threads // 32) * geometry.blocks
    return total
