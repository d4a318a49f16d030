"""The parameters of the time model, read from parameters.toml, where each has its source."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from gemmsmith.errors import UnsupportedError
from gemmsmith.gpus import GPU


@dataclass(frozen=True)
class SmParameters:
    """One SM, in cycles.

    fma ... uniform       that an instruction takes its unit of one sub-core; of FMA, one of ``fma_halves``
    register_banks        0: reading registers costs nothing
    bank_slack            reads that may be outstanding before issue stops
    mma_fma16, gmma_fma16 multiply-adds of 16-bit numbers a cycle: HMMA on one sub-core, wgmma on the SM
    mma_narrow_fma16      HMMA with fp16 accumulators, and IMMA; 0: as mma_fma16
    mio_depth             memory instructions of a sub-core that wait for the SM's memory unit
    wavefront             cycles of the data stage that one takes
    port_bytes            results that come to the registers of a sub-core in a cycle, and shared_port_bytes, those of
                          shared memory; operand_port: what goes out
    l2_latency            beyond L1; dram_latency: beyond L2; tma_latency: beyond a load
    l2_bytes_cycle        from L2 to one SM, all SMs at work, each on data of its own; l2_same_bytes_cycle: on the same;
                          l2_tma_bytes_cycle: by TMA, of data that neighbours read too; l2_alone_bytes_cycle: the
                          most that one SM gets while others have no work; 0: no more
    dram_sm_bytes_cycle   to one SM, all SMs at work, from DRAM, beside ``dram_line`` cycles for each line;
                          dram_tma_bytes_cycle: by TMA
    dram_spread           by which lines of DRAM come up to so much earlier or later than ``dram_latency``
    tma_bytes_cycle       loads of one SM by TMA, alone; tma_gap: from one box to the next;
                          bulk_gap: from one bulk copy to the next
    store_sector          of the data stage for a sector that a store writes
    store_bytes_cycle     from one SM, alone; store_all_bytes_cycle: all SMs at work; tma_*: by TMA
    store_line            at least so many cycles for each line of a store, alone; store_all_line: all SMs at work
    fence                 of a MEMBAR that reaches beyond the block
    branch                until the instruction that a branch goes to; branch_any: after one that asks all lanes
    fill                  of the data stage for a sector that arrives in L1; at least one for a line
    copy_sector           of the data stage for a sector of a copy past L1; copy_line: for a line of which it has one;
                          copy_l1: of a copy through L1, beyond a cycle a line; copy_tag: of L1's tags for a line
    generic_latency       of shared memory by a generic address
    gmma_fma_halves       of the FMA pipe that other instructions have while wgmma runs
    mma_dispatch          until the sub-core issues again after a warp's product, if the product takes as long
    dmma_cycles           of a sub-core for 512 multiply-adds of doubles; dmma_latency: beyond them
    """

    fma: float = 2.0
    fma_halves: int = 2
    imad: float = 2.0
    imad_wide: float = 4.0
    alu: float = 2.0
    half: float = 2.0
    fp64: float = 2.0
    xu: float = 8.0
    uniform: float = 2.0
    register_banks: int = 2
    bank_slack: float = 2.0
    mma_fma16: float = 341.0
    mma_narrow_fma16: float = 0.0
    mma_latency: float = 24.0
    gmma_fma16: float = 2048.0
    gmma_latency: float = 60.0
    xu_latency: float = 17.0
    special_register: float = 25.0
    constant: float = 28.0
    mio_issue: float = 2.0
    mio_depth: int = 8
    port_bytes: float = 64.0
    shared_port_bytes: float = 64.0
    operand_port: float = 64.0
    lsu_lanes: int = 32
    shared_bytes: float = 128.0
    wavefront: float = 1.0
    shared_latency: float = 18.0
    l1_latency: float = 26.0
    l1_bytes: int = 262_144
    l2_latency: float = 300.0
    l2_bytes_cycle: float = 35.0
    l2_same_bytes_cycle: float = 67.0
    l2_alone_bytes_cycle: float = 0.0
    l2_tma_bytes_cycle: float = 40.0
    dram_latency: float = 380.0
    dram_sm_bytes_cycle: float = 61.0
    dram_line: float = 1.0
    dram_spread: float = 140.0
    fill: float = 0.5
    generic_latency: float = 21.0
    copy_sector: float = 0.1875
    copy_line: float = 0.59
    copy_l1: float = 1.8
    copy_tag: float = 0.6
    mma_dispatch: float = 0.0
    gmma_fma_halves: int = 1
    dmma_cycles: float = 16.0
    dmma_latency: float = 15.0
    copy_latency: float = 30.0
    barrier: float = 12.0
    barrier_warp: float = 2.0
    mbarrier: float = 30.0
    tma_latency: float = 150.0
    tma_gap: float = 45.0
    bulk_gap: float = 6.8
    tma_bytes_cycle: float = 107.0
    tma_store_bytes_cycle: float = 32.0
    tma_store_all_bytes_cycle: float = 19.2
    tma_store_latency: float = 55.0
    dram_tma_bytes_cycle: float = 64.0
    cluster_barrier: float = 190.0
    fence: float = 590.0
    branch: float = 6.0
    branch_any: int = 22
    store_sector: float = 1.0
    store_bytes_cycle: float = 32.0
    store_all_bytes_cycle: float = 19.0
    store_line: float = 1.0
    store_all_line: float = 2.5


@dataclass(frozen=True)
class GpuParameters:
    """A whole GPU. ``tensor_mhz``: the highest clock while tensor cores work; 0: as otherwise.

    ``drain_us``: from the end of the last block until what it stored has been written.

    ``dependent_us``: from the end of a launch until a dependent one goes on; ``line_reduction_us``: what a reduction
    over lines adds to a launch of a prologue; ``returned_us``: a fallback without PDL whose blocks return at once.

    ``l2_kept``: the share of L2 that stays while other data are read.

    ``large_cluster_sms``: SMs that clusters of four or more can use; 0: all.

    ``*_pj`` are picojoules at the highest clock: per FLOP, per warp instruction, per byte.
    """

    sm: SmParameters
    l2_kept: float
    launch_us: float
    drain_us: float
    dependent_us: float
    line_reduction_us: float
    returned_us: float
    block_us: float
    turnover: float
    cluster_launch_us: float
    cluster_turnover: float
    large_cluster_sms: int
    dram_share: float
    tensor_mhz: float
    base_watts: float
    gmma_pj: float
    mma_pj: float
    ffma_pj: float
    issue_pj: float
    shared_pj: float
    l2_pj: float
    dram_pj: float


@cache
def _tables(name: str = "parameters.toml") -> dict[str, Any]:
    return tomllib.loads((files("gemmsmith.sim.timing") / name).read_text(encoding="utf-8"))


def timed_architectures() -> tuple[int, ...]:
    """Compute capabilities that the model has parameters for."""
    return tuple(sorted(int(name) for name in _tables()["sm"]))


def sources_of(gpu: GPU) -> dict[str, str]:
    """Where each parameter of a GPU comes from, by name."""
    return {name: source for name, (_, source) in _merged(gpu).items()}


def parameters_of(gpu: GPU) -> GpuParameters:
    """The parameters of ``gpu``; raises for an architecture that has none."""
    if gpu.arch not in timed_architectures():
        known = ", ".join(f"sm_{n}" for n in timed_architectures())
        raise UnsupportedError(f"no time is predicted for sm_{gpu.arch} ({gpu.name})", f"times are known for {known}")
    values = {name: value for name, (value, _) in _merged(gpu).items()}
    of_sm = {field.name for field in fields(SmParameters)}
    sm = {name: value for name, value in values.items() if name in of_sm}
    # Tensor cores of GeForce cards are half as fast with fp32 accumulators, and with no others: data sheets say so.
    if gpu.arch in (86, 89):
        sm["mma_narrow_fma16"] = sm["mma_fma16"]
        sm["mma_fma16"] = gpu.required_peak("fp16") * 1e6 / gpu.boost_mhz / gpu.sms / 8
    rest = {name: value for name, value in values.items() if name not in of_sm}
    return GpuParameters(sm=SmParameters(**sm), **rest)


def errors_of(kind: str, gpu: GPU) -> tuple[float, float]:
    """Measured over predicted time of nine kernels in ten: from recorded points on the H200, of ``kind``.

    For other GPUs, from published points. ``errors.toml`` is made from the record by benchmarks/update_docs.py.
    """
    low, high = _tables("errors.toml")[kind if gpu.name == "H200" else "others"]["range"]
    return float(low), float(high)


def _merged(gpu: GPU) -> dict[str, Any]:
    tables = _tables()
    return {**tables["sm"]["90"], **tables["sm"][str(gpu.arch)], **tables["gpu"]["default"],
            **tables["gpu"].get(gpu.name, {})}  # fmt: skip
