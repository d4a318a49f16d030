"""fp16 parts on a GPU that has clusters: both kernels leave the same planes, exponents and verdict, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.fills import Array
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.prologue.split_fp16 import VERDICT_BYTES, fp16_accepted, split_fp16
from gemmsmith.prologue.zero_workspace import FLAG_BYTES
from gemmsmith.run.cuda import LoadedCubin, cuda_device, gpu_available
from gemmsmith.run.device import Launch
from gemmsmith.run.memory import upload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_available() or cuda_device().arch != "sm_90", reason="needs a Hopper GPU"),
]

LAYOUTS = ("NN", "NT", "TN", "TT")
UNTOUCHED = 0xA5


@cache
def loaded(spec: KernelSpec, compiled_for: Problem) -> LoadedCubin:
    device = cuda_device()
    return device.load(compile_for(spec, spec.config(), compiled_for, device.arch))


def left_behind(problem: Problem, addresses: Addresses, clusters: bool) -> Array:
    """The whole workspace after the launches that split A and B."""
    device = cuda_device()
    size = split_fp16(problem, addresses, 0, clusters).nbytes
    workspace = device.allocate(size)
    try:
        device.write(workspace, np.full(size, UNTOUCHED, np.uint8))
        for each in split_fp16(problem, addresses, workspace, clusters).launches:
            device.launch(loaded(each.spec, each.compiled_for), Launch(each.geometry, each.arguments))
        device.synchronize()
        return device.read(workspace, size)
    finally:
        device.free(workspace)


def numbers(count: int, kind: str, dice: np.random.Generator) -> Array:
    """Normal ones; or any patterns: zeros, subnormal and large ones, infinities and NaN if so asked."""
    if kind == "normal":
        return dice.standard_normal(count).astype(np.float32)
    patterns = dice.integers(0, 2**32, count, dtype=np.uint32)
    patterns[dice.random(count) < 0.1] &= np.uint32(0x80000000)
    if kind == "finite":
        patterns[(patterns >> 23) & 255 == 255] &= np.uint32(0x807FFFFF)
    return patterns.view(np.float32)


def compared(problem: Problem, kind: str, offset: int, seed: int) -> bool:
    """Asserts that both kernels leave the same; the verdict."""
    device, dice = cuda_device(), np.random.default_rng(seed)
    many_a, many_b, _ = problem.copies
    sizes = (
        (many_a - 1) * problem.stride_a + problem.a_shape[0] * problem.lda,
        (many_b - 1) * problem.stride_b + problem.b_shape[0] * problem.ldb,
    )
    places = [upload(device, numbers(size + offset, kind, dice)) for size in sizes]
    try:
        addresses = Addresses(places[0] + 4 * offset, places[1] + 4 * offset, 0)
        one, many = (left_behind(problem, addresses, clusters) for clusters in (False, True))
    finally:
        for place in places:
            device.free(place)
    different = np.flatnonzero(one != many)
    assert different.size == 0, (problem, kind, offset, different.size, different[:4])
    exponents = one[FLAG_BYTES : FLAG_BYTES + 4 * (many_a * problem.m + many_b * problem.n)]
    assert not (exponents.view(np.uint32) == 0x01010101 * UNTOUCHED).any(), "every line has one"
    return fp16_accepted(one[:VERDICT_BYTES].tobytes())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 31, 64, 500, 513, 2047, 4096, 4097, 5000, 9000])
def test_ragged_problems(layout: str, k: int) -> None:
    """Fewer numbers than threads, as many as registers hold, more; rows on 16 bytes and not."""
    dice = np.random.default_rng([k, LAYOUTS.index(layout)])
    for i, kind in enumerate(("normal", "finite", "anything", "normal")):
        m, n = (int(x) for x in dice.integers(1, 300, 2))
        tight = Problem(m, n, k, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
        pads = [int(x) for x in dice.integers(0, 5, 2)] if i else [-tight.lda % 4, -tight.ldb % 4]
        p = replace(tight, lda=tight.lda + pads[0], ldb=tight.ldb + pads[1])
        accepted = compared(p, kind, offset=i % 2, seed=i)
        if kind != "normal":
            continue
        assert accepted or k < 500, "sums of so many such numbers are not refused"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_and_operands_for_all_of_them(layout: str) -> None:
    for seed, (batch, stride_a, stride_b) in enumerate(((7, -1, -1), (5, 0, -1), (6, -1, 0))):
        p = Problem(37, 21, 600, trans_a=layout[0] == "T", trans_b=layout[1] == "T", batch=batch, stride_a=stride_a,
                    stride_b=stride_b)  # fmt: skip
        compared(p, "finite", offset=0, seed=seed)


def test_many_blocks_again_and_again() -> None:
    """More clusters than the GPU holds at once, in both places of the grid."""
    for seed in range(3):
        assert compared(Problem(4096, 4096, 4096, trans_a=seed == 1), "normal", offset=0, seed=seed)
