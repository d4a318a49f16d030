"""A simple time model: the cycles each resource of an SM needs for a launch; the largest bounds the kernel.

Resources are assumed to overlap perfectly. Waiting for memory is added where barriers stop a whole block and no other
block is resident to fill the time. Latencies are rounded, and some rates were chosen to agree with published times, so
the result is an estimate, not a bound. gpus.toml holds what one SM does per cycle; the counts come from a profile. The
simulator has no caches, so the model makes two assumptions:

* L1 keeps what a block reuses. A block fetches from L2 at most its inputs once (for a square output tile) and at most
  the sectors its requests touch. L2 keeps the rest, so DRAM moves only the compulsory bytes.
* A request occupies L1 for one cycle per cache line. The profile counts sectors, not lines: fully used sectors count
  as four per line, sparsely used sectors as one per line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmsmith.explain.occupancy import Occupancy, Waves
from gemmsmith.explain.profile import CONFLICTS, FFMA, GMMA_WAVEFRONTS, REQUESTS, SECTOR, TENSOR, WARPS, Profile
from gemmsmith.gpus import GPU, SmUnits
from gemmsmith.problem import ceil_div

FMA, ISSUE, LSU, L2, DRAM, LATENCY = (
    "FMA pipe", "instruction issue", "load/store pipe", "L2 cache", "DRAM", "latency"
)  # fmt: skip
_LINE_SECTORS = 4
OPS = ("ld", "st", "ldgsts", "ldsm")


@dataclass(frozen=True)
class Work:
    """The work of a whole launch: warp instructions, requests, wavefronts, cache lines and bytes.

    fma        warp-wide multiply-adds, including those of tensor cores
    tensor     the tensor cores' arithmetic; '' on CUDA cores
    products   warp-wide multiply-adds that tensor cores execute, and their type, where these are known: padding of
               tiles counts, and an fp32 product that is split has several
    wgmma      whether wgmma does them, which mma.sync is slower than on some GPUs
    waits      sequential waits for memory per warp
    together   barriers make the whole block wait, so only other blocks can use the time
    resident   blocks per SM
    imbalance  blocks of the busiest SM over the average
    """

    fma: float
    issued: float
    shared_requests: float
    wavefronts: float
    global_requests: float
    lines: float
    l2_bytes: float
    dram_bytes: float
    waits: float
    wait_cycles: float
    together: bool
    blocks: int
    resident: int
    imbalance: float
    tensor: str = ""
    products: float = 0.0
    product_type: str = ""
    wgmma: bool = False


@dataclass(frozen=True)
class Estimate:
    """Cycles of the busiest SM by resource, and the resulting time; all predicted.

    ``longest`` is the total time in cycles. It exceeds every single resource if waits are not filled by other work.
    """

    gpu: str
    cycles: tuple[tuple[str, float], ...]
    longest: float
    seconds: float
    tflops: float
    origin: str = "predicted"

    @property
    def bound(self) -> str:
        """The resource with the most cycles; waiting counts as a resource of its own."""
        return max(self.cycles, key=lambda item: item[1])[0]

    def of(self, resource: str) -> float:
        return dict(self.cycles)[resource]


def units_of(gpu: GPU) -> SmUnits:
    """The units of a GPU's SM."""
    return gpu.units


def work_of(profile: Profile, gpu: GPU, held: Occupancy, filled: Waves) -> Work:
    """The work of a simulated launch on ``gpu``."""
    units, blocks = units_of(gpu), profile.geometry.blocks
    warps = max(1.0, profile.value(WARPS))
    problem = profile.problem
    by_tma = profile.tma("load", "sectors") + profile.tma("store", "sectors")
    sectors = profile.sectors("ld") + profile.sectors("st")
    each = math.sqrt(problem.m * problem.n / max(1, blocks))
    inputs = blocks * 2 * each * problem.k * problem.dtype.itemsize
    outputs = problem.m * problem.n * problem.out_dtype.itemsize
    copies = profile.value(REQUESTS["ldgsts"])
    if profile.tma("load", "requests"):
        waits, wait_cycles = 0.0, float(units.l2_latency)  # mbarriers wait for k-tiles that were requested ahead
    elif profile.barriers:
        # Two barriers per k-tile: one until it has arrived, one until its readers are done. A single barrier means that
        # the copy overlaps the previous k-tile's arithmetic; asynchronous copies awaited at once still need two.
        ahead = copies and profile.barriers < 1.5 * max(1.0, profile.loop_trips)
        waits, wait_cycles = (0.0 if ahead else profile.barriers / warps / 2), float(units.l2_latency)
    else:
        waits, wait_cycles = profile.loop_trips / warps, float(units.l1_latency)
    tensor = problem.dtype.name if profile.value(TENSOR) > 0 else ""
    done = profile.tensor_work
    scalar = dict(profile.machine_mix).get("multiply-add", profile.value(FFMA) / 32)
    return Work(
        fma=problem.flops / 64 if tensor else scalar,
        issued=sum(count for _, count in profile.machine_mix),
        shared_requests=sum(_known(profile.value(REQUESTS[op])) for op in OPS),
        wavefronts=sum(_known(profile.wavefronts(op)) for op in OPS) + _known(profile.value(GMMA_WAVEFRONTS)),
        global_requests=profile.requests("ld") + profile.requests("st") - copies,
        lines=sum(lines_of(profile, op) for op in ("ld", "st")),
        l2_bytes=min(SECTOR * sectors, inputs + outputs) + SECTOR * by_tma,
        dram_bytes=float(problem.compulsory_bytes),
        waits=waits,
        wait_cycles=wait_cycles,
        together=profile.barriers > 0,
        blocks=blocks,
        resident=held.blocks_per_sm,
        imbalance=filled.imbalance,
        tensor=tensor,
        products=done.multiply_adds / 32 if done is not None and tensor else 0.0,
        product_type=done.dtype if done is not None and tensor else "",
        wgmma=done is not None and done.wgmma,
    )


def lines_of(profile: Profile, op: str) -> float:
    """Cache lines that global requests touch, estimated from the use of each sector."""
    used = profile.packed_per_sector[0 if op == "ld" else 1]
    if math.isnan(used):
        return 0.0
    together = min(_LINE_SECTORS, max(1.0, used * _LINE_SECTORS / SECTOR))
    return max(profile.requests(op), profile.sectors(op) / together)


def conflicts_of(profile: Profile) -> float:
    """Wavefronts caused by bank conflicts."""
    return sum(profile.value(name) for name in CONFLICTS.values())


def _known(value: float) -> float:
    """The count; 0 if the profile predates this counter."""
    return 0.0 if math.isnan(value) else value


def _arithmetic(work: Work, gpu: GPU, units: SmUnits) -> float:
    """Cycles that the multiply-adds of the whole launch take on one SM."""
    if not work.tensor:
        return work.fma * 32 / units.fma_lanes
    flops = gpu.required_peak(work.product_type or work.tensor) * 1e6 / gpu.boost_mhz / gpu.sms  # of one SM per cycle
    return (work.products or work.fma) * 64 / (flops * (1.0 if work.wgmma else units.mma_share))


def estimate(work: Work, gpu: GPU, flops: int) -> Estimate:
    """The estimated time of ``work`` on ``gpu`` at its boost clock."""
    units = units_of(gpu)
    slow = 32 / units.lsu_lanes
    share = work.imbalance / gpu.sms
    hertz = gpu.boost_mhz * 1e6
    cycles = {
        FMA: _arithmetic(work, gpu, units) * share,
        ISSUE: work.issued / units.issue * share,
        LSU: (max(work.shared_requests * slow, work.wavefronts) + max(work.global_requests * slow, work.lines)) * share,
        L2: work.l2_bytes / units.l2_bytes * share,
        DRAM: work.dram_bytes / (gpu.dram_gbs * 1e9) * hertz,
    }
    # A block slot runs its blocks in sequence: each waits for memory, then at best has the SM to itself.
    busiest = max(1, ceil_div(work.blocks, gpu.sms))
    alone = max(cycles[name] for name in (FMA, ISSUE, LSU, L2)) / busiest
    rounds = busiest / max(1, min(work.resident, busiest))
    cycles[LATENCY] = rounds * work.waits * work.wait_cycles
    serialized = cycles[LATENCY] + (rounds * alone if work.together and work.waits else 0.0)
    longest = max(*cycles.values(), serialized)
    seconds = longest / hertz
    return Estimate(gpu.name, tuple(cycles.items()), longest, seconds, flops / seconds / 1e12 if seconds else 0.0)
