"""The parameters of the time model: what one SM of an architecture does in a cycle, and how long things take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SmParameters:
    """Cycles of the SM's clock unless said otherwise. ``data/*.toml`` has a source for each value.

    fma ... uniform       cycles that an instruction takes its unit of one sub-core
    mma_fma16, gmma_fma16 multiply-adds of 16-bit numbers a cycle: HMMA on one sub-core, wgmma on the SM
    """

    fma: float = 2.0  # of one half of the pipe; there are two
    fma_halves: int = 2
    imad: float = 2.0
    imad_wide: float = 4.0
    alu: float = 2.0
    half: float = 1.5
    fp64: float = 2.0
    xu: float = 8.0
    uniform: float = 2.0
    register_banks: int = 2
    mma_fma16: float = 2048 / 6.0
    mma_latency: float = 33.0
    gmma_fma16: float = 2048.0
    gmma_latency: float = 60.0
    xu_latency: float = 17.0
    special_register: float = 25.0
    constant: float = 28.0
    # memory units
    mio_issue: float = 2.0
    mio_depth: int = 8
    port_bytes: float = 64.0  # results to registers, per sub-core and cycle
    operand_port: float = 64.0
    lsu_lanes: int = 32
    shared_bytes: float = 128.0
    shared_latency: float = 20.0
    l1_latency: float = 28.0
    l1_bytes: int = 256 * 1024
    l2_latency: float = 245.0  # beyond L1
    l2_bytes_cycle: float = 40.0  # from L2 to one SM, all SMs at work
    dram_latency: float = 420.0  # beyond L2
    copy_latency: float = 30.0
    barrier: float = 12.0
    barrier_warp: float = 2.0
    mbarrier: float = 30.0
    tma_latency: float = 150.0  # beyond L2
    tma_gap: float = 32.0
    tma_bytes_cycle: float = 64.0
    cluster_barrier: float = 190.0
    branch: float = 6.0
    store_bytes_cycle: float = 32.0
