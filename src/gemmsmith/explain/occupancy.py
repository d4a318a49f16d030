"""Occupancy: how many blocks of a kernel are resident per SM, which resource limits them, and how a grid fills the GPU.

Results equal those of NVIDIA's occupancy calculator (``cuda_occupancy.h`` of CUDA 13); the tests compare both. Shared
memory uses the largest L1 carve-out, which is NVIDIA's default. A kernel with more shared memory than a launch may have
by default is assumed to have opted in, as our launches do. Clusters are not considered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gemmsmith.errors import UsageError
from gemmsmith.gpus import GPU, cuda_limits
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import ceil_div

RESOURCES = ("registers", "threads", "smem")


@dataclass(frozen=True)
class Limit:
    """How many blocks per SM one resource allows; None if the block does not use it."""

    resource: str
    blocks: int | None
    arithmetic: str


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks and warps per SM of one kernel.

    ``limiters`` are the resources that allow exactly ``blocks_per_sm``; ``why`` shows their arithmetic in one sentence.
    With zero blocks, a single block does not fit, and ``why`` says what is too large.
    """

    gpu: str
    threads: int
    registers: int
    static_smem: int
    dynamic_smem: int
    barriers: int
    blocks_per_sm: int
    warps_per_sm: int
    fraction: float
    limits: tuple[Limit, ...]
    limiters: tuple[str, ...]
    why: str

    @property
    def fits(self) -> bool:
        return self.blocks_per_sm > 0


@dataclass(frozen=True)
class Waves:
    """How a grid of equal blocks fills a GPU.

    capacity          blocks that run at once
    waves             grid / capacity; the last wave counts as a fraction
    tail_utilisation  how full the last wave is; 1 if all waves are full
    efficiency        the share of block slots used over all waves
    imbalance         blocks of the busiest SM over the average, for an even distribution; 1 is ideal
    """

    grid: int
    capacity: int
    waves: float
    full_waves: int
    tail_blocks: int
    tail_utilisation: float
    efficiency: float
    imbalance: float


@dataclass(frozen=True)
class Point:
    """Occupancy with one resource set to ``value``."""

    value: int
    occupancy: Occupancy


@dataclass(frozen=True)
class Step:
    """A stretch of a curve with constant blocks and warps; ``occupancy`` is the one at its start."""

    first: int
    last: int
    occupancy: Occupancy


def occupancy(
    gpu: GPU, *, threads: int, registers: int, static_smem: int, dynamic_smem: int = 0, barriers: int = 0
) -> Occupancy:
    """Occupancy of a kernel with ``threads`` per block, ``registers`` per thread and shared-memory bytes per block.

    The 1 KB that CUDA reserves per block from sm_80 on is added here. ``barriers`` is ptxas's count (``__syncthreads``
    is one); it matters from sm_90 on.
    """
    _check(threads=threads, registers=registers, static_smem=static_smem, dynamic_smem=dynamic_smem, barriers=barriers)
    warps = ceil_div(threads, gpu.warp_size)
    limits = [
        _warp_limit(gpu, threads, warps),
        Limit("block slots", gpu.blocks_per_sm, f"an SM holds at most {gpu.blocks_per_sm} blocks"),
        _register_limit(gpu, registers, warps),
        _smem_limit(gpu, static_smem + dynamic_smem),
    ]
    if gpu.barriers_per_sm and barriers:
        held = gpu.barriers_per_sm // barriers
        limits.append(Limit("barriers", held, f"{gpu.barriers_per_sm} barriers / {barriers} per block = {held}"))
    blocks = min(limit.blocks for limit in limits if limit.blocks is not None)
    tight = [limit for limit in limits if limit.blocks == blocks]
    return Occupancy(
        gpu=gpu.name,
        threads=threads,
        registers=registers,
        static_smem=static_smem,
        dynamic_smem=dynamic_smem,
        barriers=barriers,
        blocks_per_sm=blocks,
        warps_per_sm=blocks * warps,
        fraction=blocks * warps / gpu.warps_per_sm,
        limits=tuple(limits),
        limiters=tuple(limit.resource for limit in tight),
        why=_why(blocks, tight),
    )


def waves(gpu: GPU, grid: int, blocks_per_sm: int) -> Waves:
    """How ``grid`` blocks fill ``gpu`` with ``blocks_per_sm`` resident per SM."""
    if blocks_per_sm < 1:
        raise UsageError("no block of this kernel fits on an SM, so it has no waves")
    if grid < 0:
        raise UsageError(f"a grid of {grid} blocks is negative")
    capacity = gpu.sms * blocks_per_sm
    full, tail = divmod(grid, capacity)
    rounds = full + (tail > 0)
    return Waves(
        grid=grid,
        capacity=capacity,
        waves=grid / capacity,
        full_waves=full,
        tail_blocks=tail,
        tail_utilisation=tail / capacity if tail else 1.0,
        efficiency=grid / (rounds * capacity) if rounds else 1.0,
        imbalance=ceil_div(grid, gpu.sms) * gpu.sms / grid if grid else 1.0,
    )


def launched_blocks(gpu: GPU, geometry: Geometry, persistent: bool, blocks_per_sm: int) -> int:
    """The launched grid: one block per tile; for a persistent kernel at most what ``gpu`` holds, in whole clusters."""
    if not persistent or blocks_per_sm < 1:
        return geometry.blocks
    cluster = math.prod(geometry.cluster)
    return min(geometry.blocks, gpu.sms * blocks_per_sm // cluster * cluster)


def curve(
    gpu: GPU,
    resource: str,
    values: Iterable[int] | None = None,
    *,
    threads: int,
    registers: int,
    static_smem: int,
    dynamic_smem: int = 0,
    barriers: int = 0,
) -> tuple[Point, ...]:
    """Occupancy for each of ``values`` of one resource, with the others fixed.

    ``resource`` is 'registers' (per thread), 'threads' (per block) or 'smem' (static and dynamic bytes per block). The
    default ``values`` are every register count, every whole number of warps, every allocation unit of shared memory.
    """
    if resource not in RESOURCES:
        raise UsageError(f"unknown resource {resource!r}", f"use {', '.join(RESOURCES[:-1])} or {RESOURCES[-1]}")
    points = []
    for value in default_values(gpu, resource) if values is None else values:
        at = {"threads": threads, "registers": registers, "static_smem": static_smem, "dynamic_smem": dynamic_smem}
        if resource == "smem":
            at["static_smem"] = min(static_smem, value)
            at["dynamic_smem"] = value - at["static_smem"]
        else:
            at[resource] = value
        points.append(Point(value, occupancy(gpu, **at, barriers=barriers)))
    return tuple(points)


def default_values(gpu: GPU, resource: str) -> range:
    """All values of a resource at which occupancy can change, up to the limit per block."""
    if resource == "registers":
        return range(1, gpu.registers_per_thread + 1)
    if resource == "threads":
        return range(gpu.warp_size, gpu.threads_per_block + 1, gpu.warp_size)
    return range(0, gpu.smem_per_block + 1, gpu.smem_unit)


def steps(points: Sequence[Point]) -> tuple[Step, ...]:
    """Merge a curve's points with equal blocks and warps; each result but the first begins at a step."""
    runs: list[Step] = []
    for point in points:
        here = point.occupancy
        if runs and _level(runs[-1].occupancy) == _level(here):
            runs[-1] = Step(runs[-1].first, point.value, runs[-1].occupancy)
        else:
            runs.append(Step(point.value, point.value, here))
    return tuple(runs)


def _level(result: Occupancy) -> tuple[int, int]:
    return result.blocks_per_sm, result.warps_per_sm


def _check(**amounts: int) -> None:
    for name, amount in amounts.items():
        words = name.replace("_", " ")
        least = 1 if name == "threads" else 0
        if isinstance(amount, bool) or not isinstance(amount, int):
            raise UsageError(f"{words} must be an integer, not {amount!r}")
        if amount < least:
            raise UsageError(f"{words} is {amount}; it must be at least {least}")
    if amounts["barriers"] > cuda_limits().barriers_per_block:
        raise UsageError(f"barriers is {amounts['barriers']}; a block has at most {cuda_limits().barriers_per_block}")


def _warp_limit(gpu: GPU, threads: int, warps: int) -> Limit:
    if threads > gpu.threads_per_block:
        return Limit("warps", 0, f"{threads:,} threads exceed the limit of {gpu.threads_per_block:,} per block")
    held = gpu.warps_per_sm // warps
    return Limit("warps", held, f"{gpu.warps_per_sm} warps / {warps} per block = {held}")


def _register_limit(gpu: GPU, registers: int, warps: int) -> Limit:
    """Each SM partition allocates registers per warp, in units; a block's warps spread over all partitions."""
    name = "registers"
    if registers > gpu.registers_per_thread:
        return Limit(name, 0, f"{registers} registers exceed the limit of {gpu.registers_per_thread} per thread")
    if registers == 0:
        return Limit(name, None, "none used")
    exact = registers * gpu.warp_size
    taken = _rounded(exact, gpu.register_unit)
    text = f"{registers} registers × {gpu.warp_size} lanes = {_and_rounded(exact, taken)} per warp"
    # The driver refuses a launch as if every partition held as many warps as the fullest one.
    even = _rounded(warps, gpu.sm_partitions)
    if taken * even > gpu.registers_per_sm:
        padded = f"{warps} warps" + (f" (counted as {even})" if even != warps else "")
        return Limit(name, 0, f"{text}, {padded} need {taken * even:,}, and an SM has {gpu.registers_per_sm:,}")
    share = gpu.registers_per_sm // gpu.sm_partitions
    each = share // taken
    held = each * gpu.sm_partitions // warps
    return Limit(name, held, f"{text}, so each of {gpu.sm_partitions} partitions holds {share:,} / {taken:,} = {each} "
                             f"warps, and {each * gpu.sm_partitions} warps / {warps} per block = {held}")  # fmt: skip


def _smem_limit(gpu: GPU, asked: int) -> Limit:
    name, reserved = "shared memory", gpu.reserved_smem_per_block
    exact = asked + reserved
    taken = _rounded(exact, gpu.smem_unit)
    if taken == 0:
        return Limit(name, None, "none used")
    added = f"{asked:,} B + {reserved:,} B reserved = " if reserved else ""
    text = f"{added}{_and_rounded(exact, taken)} B per block"
    if taken > gpu.smem_per_block + reserved:
        return Limit(name, 0, f"{asked:,} B of shared memory exceed the limit of {gpu.smem_per_block:,} B per block")
    held = gpu.smem_per_sm // taken
    return Limit(name, held, f"{text}, and {gpu.smem_per_sm:,} B / {taken:,} B = {held}")


def _rounded(amount: int, unit: int) -> int:
    return ceil_div(amount, unit) * unit


def _and_rounded(exact: int, taken: int) -> str:
    return f"{taken:,}" if exact == taken else f"{exact:,}, rounded up to {taken:,}"


def _why(blocks: int, tight: Sequence[Limit]) -> str:
    reasons = "; ".join(limit.arithmetic for limit in tight)
    if blocks == 0:
        return f"A block does not fit: {reasons}."
    *most, last = (limit.resource for limit in tight)
    names = f"{', '.join(most)} and {last}" if most else last
    # 'shared memory' is the only singular name.
    verb = "allows" if names == "shared memory" else "allow"
    return f"{names.capitalize()} {verb} {blocks} block{'s' if blocks > 1 else ''} per SM: {reasons}."
