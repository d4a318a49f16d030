"""Occupancy: values computed by hand or published, invariants, waves, curves."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gemmsmith.errors import UsageError
from gemmsmith.explain.occupancy import RESOURCES, Occupancy, curve, default_values, occupancy, steps, waves
from gemmsmith.gpus import GPU, gpu_named, gpus

KB = 1024
every_gpu = pytest.mark.parametrize("gpu", gpus(), ids=lambda g: g.name)
any_gpu = st.sampled_from(gpus())
threads_ = st.integers(1, 1024)
registers_ = st.integers(0, 255)
smem_ = st.integers(0, 227 * KB)
barriers_ = st.integers(0, 16)


def at(name: str, threads: int, registers: int, smem: int = 0, **more: int) -> Occupancy:
    return occupancy(gpu_named(name), threads=threads, registers=registers, static_smem=smem, **more)


# GPU, threads, registers, shared memory; then blocks, warps, limiters.
BY_HAND = [
    # siboehm.com/articles/22/CUDA-MMM, kernel 3 on an A6000: 32 warps of 48, one block by threads and by registers.
    ("RTX A6000", 1024, 37, 8192, 1, 32, ("warps", "registers")),
    # 2,048 threads per SM on A100 and Hopper, 1,536 on GeForce: two blocks of 1,024 or one.
    ("A100", 1024, 32, 0, 2, 64, ("warps", "registers")),
    ("H100", 1024, 32, 0, 2, 64, ("warps", "registers")),
    ("RTX 4090", 1024, 32, 0, 1, 32, ("warps",)),
    # One register more than 65,536 / 2,048 and half of it is gone.
    ("A100", 1024, 33, 0, 1, 32, ("registers",)),
    # The usual GEMM tile: 256 threads with 128 registers.
    ("H200", 256, 128, 32 * KB, 2, 16, ("registers",)),
    ("RTX 3050", 256, 128, 32 * KB, 2, 16, ("registers",)),
    ("A100", 256, 255, 0, 1, 8, ("registers",)),
    # 168 registers are three blocks of 128 threads, 169 are two.
    ("H200", 128, 168, 0, 3, 12, ("registers",)),
    ("H200", 128, 169, 0, 2, 8, ("registers",)),
    # Block slots: 32, 16 and 24.
    ("A100", 32, 16, 0, 32, 32, ("block slots",)),
    ("RTX 3050", 32, 16, 0, 16, 16, ("block slots",)),
    ("RTX 4090", 32, 16, 0, 24, 24, ("block slots",)),
    ("RTX 4090", 64, 16, 0, 24, 48, ("warps", "block slots")),
    # With the largest shared memory per block, by the tuning guides, one block fits.
    ("RTX A6000", 128, 32, 99 * KB, 1, 4, ("shared memory",)),
    ("A100", 128, 32, 163 * KB, 1, 4, ("shared memory",)),
    ("H100", 128, 32, 227 * KB, 1, 4, ("shared memory",)),
    ("B200", 128, 32, 227 * KB, 1, 4, ("shared memory",)),
    # 228 KB hold two blocks of 113 KB because each takes 1 KB more; 100 KB do not hold two of 50 KB.
    ("H200", 128, 32, 113 * KB, 2, 8, ("shared memory",)),
    ("H200", 128, 32, 113 * KB + 1, 1, 4, ("shared memory",)),
    ("RTX 3050", 128, 32, 49 * KB, 2, 8, ("shared memory",)),
    ("RTX 3050", 128, 32, 50 * KB, 1, 4, ("shared memory",)),
    # Five warps: each of four SM partitions allocates registers for 7 warps of 72, so 28 / 5.
    ("A100", 160, 72, 0, 5, 25, ("registers",)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "threads", "registers", "smem", "blocks", "warps", "limiters"), BY_HAND)
def test_values_by_hand(
    name: str, threads: int, registers: int, smem: int, blocks: int, warps: int, limiters: tuple[str, ...]
) -> None:
    found = at(name, threads, registers, smem)
    assert (found.blocks_per_sm, found.warps_per_sm, found.limiters) == (blocks, warps, limiters)
    assert found.fraction == warps / (gpu_named(name).threads_per_sm / 32)


def test_the_published_arithmetic_is_in_the_sentence() -> None:
    why = at("RTX A6000", 1024, 37, 8192).why
    assert why.startswith("Warps and registers allow 1 block per SM: ")
    for number in ("37 registers × 32 lanes = 1,184, rounded up to 1,280", "48 warps / 32 per block = 1"):
        assert number in why
    shared = {limit.resource: limit for limit in at("RTX A6000", 1024, 37, 8192).limits}["shared memory"]
    assert shared.blocks == 11  # as the article has it: 102,400 / 9,216
    assert shared.arithmetic == "8,192 B + 1,024 B reserved = 9,216 B per block, and 102,400 B / 9,216 B = 11"


@pytest.mark.parametrize(("barriers", "blocks"), [(0, 32), (1, 32), (2, 32), (3, 21), (16, 4)])
def test_barriers_limit_from_hopper_on(barriers: int, blocks: int) -> None:
    assert at("H200", 32, 16, barriers=barriers).blocks_per_sm == blocks
    assert at("A100", 32, 16, barriers=barriers).blocks_per_sm == 32
    assert ("barriers" in at("H200", 32, 16, barriers=barriers).limiters) == (barriers >= 2)


@pytest.mark.parametrize(
    ("threads", "registers", "smem", "limiters", "reason"),
    [
        (1025, 32, 0, ("warps",), "1,025 threads exceed the limit of 1,024"),
        (128, 256, 0, ("registers",), "256 registers exceed the limit of 255"),
        (1024, 65, 0, ("registers",), "rounded up to 2,304 per warp, 32 warps need 73,728, and an SM has 65,536"),
        # 25 warps of 2,560 are 64,000 and would fit; the launch check counts whole rows of four.
        (800, 80, 0, ("registers",), "25 warps (counted as 28) need 71,680"),
        (128, 32, 232_449, ("shared memory",), "232,449 B of shared memory exceed the limit of 232,448 B"),
        (1056, 300, 300_000, ("warps", "registers", "shared memory"), "1,056 threads"),
    ],
)
def test_a_block_that_does_not_fit(
    threads: int, registers: int, smem: int, limiters: tuple[str, ...], reason: str
) -> None:
    found = at("H200", threads, registers, smem)
    assert (found.blocks_per_sm, found.warps_per_sm, found.fraction, found.fits) == (0, 0, 0.0, False)
    assert found.limiters == limiters
    assert found.why.startswith("A block does not fit: ")
    assert reason in found.why


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"threads": 0}, "threads is 0"), ({"threads": -32}, "threads is -32"), ({"registers": -1}, "registers is -1"),
        ({"static_smem": -1}, "static smem is -1"), ({"dynamic_smem": -1}, "dynamic smem is -1"),
        ({"barriers": 17}, "barriers is 17"), ({"threads": 1.5}, "an integer"), ({"registers": True}, "an integer"),
    ],
)  # fmt: skip
def test_impossible_values_are_refused(change: dict[str, int], words: str) -> None:
    numbers = {"threads": 128, "registers": 32, "static_smem": 0, "dynamic_smem": 0, "barriers": 0}
    with pytest.raises(UsageError, match=words):
        occupancy(gpu_named("H200"), **(numbers | change))


@given(any_gpu, threads_, registers_, smem_, barriers_)
def test_the_result_is_consistent(gpu: GPU, threads: int, registers: int, smem: int, barriers: int) -> None:
    found = occupancy(gpu, threads=threads, registers=registers, static_smem=smem, barriers=barriers)
    warps = -(-threads // 32)
    assert found.warps_per_sm == found.blocks_per_sm * warps
    assert 0 <= found.fraction <= 1
    blocks = {limit.resource: limit.blocks for limit in found.limits}
    assert found.blocks_per_sm == min(b for b in blocks.values() if b is not None)
    assert found.limiters == tuple(name for name, b in blocks.items() if b == found.blocks_per_sm)
    # The resident blocks fit on the SM, by plain multiplication.
    assert found.blocks_per_sm * (smem + gpu.reserved_smem_per_block) <= gpu.smem_per_sm
    assert found.warps_per_sm * 32 * registers <= gpu.registers_per_sm
    assert found.blocks_per_sm <= gpu.blocks_per_sm


@given(any_gpu, threads_, registers_, registers_, smem_)
def test_more_registers_never_raise_occupancy(gpu: GPU, threads: int, one: int, other: int, smem: int) -> None:
    few, many = sorted((one, other))
    held = [occupancy(gpu, threads=threads, registers=r, static_smem=smem).blocks_per_sm for r in (few, many)]
    assert held[0] >= held[1]


@given(any_gpu, threads_, registers_, smem_, smem_)
def test_more_shared_memory_never_raises_occupancy(
    gpu: GPU, threads: int, registers: int, one: int, other: int
) -> None:
    few, many = sorted((one, other))
    held = [occupancy(gpu, threads=threads, registers=registers, static_smem=s).blocks_per_sm for s in (few, many)]
    assert held[0] >= held[1]


@given(any_gpu, threads_, threads_, registers_, smem_)
def test_more_threads_never_raise_the_blocks(gpu: GPU, one: int, other: int, registers: int, smem: int) -> None:
    few, many = sorted((one, other))
    held = [occupancy(gpu, threads=t, registers=registers, static_smem=smem).blocks_per_sm for t in (few, many)]
    assert held[0] >= held[1]


@given(any_gpu, threads_, registers_, smem_, st.data())
def test_static_and_dynamic_shared_memory_count_the_same(
    gpu: GPU, threads: int, registers: int, smem: int, data: st.DataObject
) -> None:
    static = data.draw(st.integers(0, smem))
    whole = occupancy(gpu, threads=threads, registers=registers, static_smem=smem)
    split = occupancy(gpu, threads=threads, registers=registers, static_smem=static, dynamic_smem=smem - static)
    assert (whole.limits, whole.why) == (split.limits, split.why)


# GPU, grid, blocks per SM; then waves, full waves, tail blocks, tail utilisation, efficiency, imbalance.
GRIDS = [
    ("H200", 132, 1, 1.0, 1, 0, 1.0, 1.0, 1.0),
    ("H200", 133, 1, 133 / 132, 1, 1, 1 / 132, 133 / 264, 264 / 133),
    ("H200", 1024, 2, 1024 / 264, 3, 232, 232 / 264, 1024 / 1056, 1056 / 1024),
    ("H200", 133, 2, 133 / 264, 0, 133, 133 / 264, 133 / 264, 264 / 133),
    ("A100", 216, 2, 1.0, 1, 0, 1.0, 1.0, 1.0),
    ("A100", 109, 1, 109 / 108, 1, 1, 1 / 108, 109 / 216, 216 / 109),
    ("RTX 3050", 1, 1, 0.05, 0, 1, 0.05, 0.05, 20.0),
    ("RTX 4090", 0, 4, 0.0, 0, 0, 1.0, 1.0, 1.0),
]


@pytest.mark.parametrize(("name", "grid", "blocks", "count", "full", "tail", "use", "efficiency", "imbalance"), GRIDS)
def test_waves_by_hand(
    name: str, grid: int, blocks: int, count: float, full: int, tail: int, use: float, efficiency: float,
    imbalance: float,
) -> None:  # fmt: skip
    found = waves(gpu_named(name), grid, blocks)
    assert dataclasses.astuple(found) == (
        grid, gpu_named(name).sms * blocks, count, full, tail, use, efficiency, imbalance
    )  # fmt: skip


@given(any_gpu, st.integers(1, 10**7), st.integers(1, 32))
def test_waves_add_up(gpu: GPU, grid: int, blocks: int) -> None:
    found = waves(gpu, grid, blocks)
    assert found.full_waves * found.capacity + found.tail_blocks == grid
    assert found.tail_blocks < found.capacity == gpu.sms * blocks
    assert 0 < found.tail_utilisation <= 1
    assert 0 < found.efficiency <= 1 <= found.imbalance
    assert (found.efficiency == 1) == (grid % found.capacity == 0)
    assert found.waves == pytest.approx(found.full_waves + found.tail_blocks / found.capacity)


@pytest.mark.parametrize(("grid", "blocks"), [(-1, 1), (10, 0)])
def test_waves_without_blocks_are_refused(grid: int, blocks: int) -> None:
    with pytest.raises(UsageError):
        waves(gpu_named("H200"), grid, blocks)


NUMBERS = {"threads": 256, "registers": 64, "static_smem": 8 * KB, "dynamic_smem": 8 * KB}


@every_gpu
@pytest.mark.parametrize("resource", RESOURCES)
def test_a_curve_is_the_function_at_each_value(gpu: GPU, resource: str) -> None:
    values = [1, 33, 64, 250, 255] if resource != "smem" else [0, 4 * KB, 16 * KB, 90 * KB]
    points = curve(gpu, resource, values, **NUMBERS)
    assert [p.value for p in points] == values
    for point in points:
        change = {"static_smem": point.value, "dynamic_smem": 0} if resource == "smem" else {resource: point.value}
        assert point.occupancy.limits == occupancy(gpu, **(NUMBERS | change)).limits


@every_gpu
@pytest.mark.parametrize("resource", RESOURCES)
def test_default_values_miss_no_step(gpu: GPU, resource: str) -> None:
    """A value in between is allocated as the next larger one."""
    values = default_values(gpu, resource)
    upper = {p.value: p.occupancy.blocks_per_sm for p in curve(gpu, resource, **NUMBERS)}
    every = range(1, values[-1] + 1, 1 if resource != "smem" else 37)
    known = sorted(upper)
    for point in curve(gpu, resource, every, **NUMBERS):
        above = known[bisect_left(known, point.value)]
        assert point.occupancy.blocks_per_sm == upper[above], point.value


def test_steps_of_the_register_curve() -> None:
    found = steps(curve(gpu_named("H200"), "registers", threads=1024, registers=0, static_smem=0))
    assert [(s.first, s.last, s.occupancy.blocks_per_sm) for s in found] == [(1, 32, 2), (33, 64, 1), (65, 255, 0)]
    assert [s.occupancy.limiters[0] for s in found] == ["warps", "registers", "registers"]


@given(any_gpu, st.sampled_from(RESOURCES), threads_, registers_, st.integers(0, 48 * KB))
def test_steps_cover_the_whole_curve(gpu: GPU, resource: str, threads: int, registers: int, smem: int) -> None:
    values = default_values(gpu, resource)[:: 8 if resource == "smem" else 1]
    assume(len(values) > 1)
    points = curve(gpu, resource, values, threads=threads, registers=registers, static_smem=smem)
    joined = steps(points)
    assert (joined[0].first, joined[-1].last) == (values[0], values[-1])
    for point in points:
        (step,) = [s for s in joined if s.first <= point.value <= s.last]
        assert step.occupancy.blocks_per_sm == point.occupancy.blocks_per_sm
    levels = [(s.occupancy.blocks_per_sm, s.occupancy.warps_per_sm) for s in joined]
    assert all(a != b for a, b in pairwise(levels))


def test_an_unknown_resource_lists_the_valid_ones() -> None:
    with pytest.raises(UsageError) as caught:
        curve(gpu_named("H200"), "cores", **NUMBERS)
    assert "registers, threads or smem" in caught.value.hint
