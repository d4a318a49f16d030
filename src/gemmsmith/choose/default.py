"""The preferred rung for a problem where nothing was tuned and nothing is predicted: on the simulator, on GPUs before
and after Hopper, and for types that have no choice of configurations."""

from __future__ import annotations

from collections.abc import Mapping

from gemmsmith.choose.precision import DEFAULT, promises
from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import FP32, TF32, Problem, ceil_div
from gemmsmith.prologue.split_fp16 import LEAST_DEPTH

SIMULATOR, HOPPER = 0, 90  # the first in the place of an architecture; 90 is sm_90
# Fastest first among the rungs that run everywhere; the plain ones come last because they take any layout. Those that
# the ladder does not have are passed over. On the simulator, fewer instructions count.
_PLAIN = ("warp_tile", "mma_pipelined", "warp_tile_mixed", "vectorized", "coalesced")
_ON_GPU = ("simt_best", "async_copy", *_PLAIN)
_SIMULATED = (*_PLAIN, "simt_best")
# fp32 on tensor cores, by architecture. Peaks by data sheet, of six products over those of CUDA cores: 2.7 on sm_80,
# 2.5 on sm_90, 5 on sm_100; 0.7 and less on sm_86 and sm_89. There three products have 1.3 at most, of which too little
# is reached, and CUDA cores are taken; so they are where nothing is known.
_FP16X3 = ("fp32_tensor_fp16x3", "fp32_tensor_bf16x6")
_TENSOR: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "ieee": {},
    "fp32": {90: ("fp32_wgmma_bf16x6",)},
    "fp32-fast": {
        80: _FP16X3,
        90: ("fp32_wgmma_fp16x3", "fp32_wgmma_bf16x6", *_FP16X3),
        100: _FP16X3,
        103: _FP16X3,
        SIMULATOR: _FP16X3,
    },
    "tf32": {},
}
_LAST = ("fp32_tensor_bf16x6",)  # takes every layout, batches and epilogues, where no rung on CUDA cores does
# Of an H200, where fp32 products by wgmma of bf16 parts were timed against cuBLAS: seconds of two launches, and of one
# of k of a wave of 128 x 128 tiles; bytes a number that splitting moves, bytes a second; what CUDA cores reach.
_LAUNCHES, _STEP, _SPLIT_BYTES, _BANDWIDTH = 10e-6, 32e-9, 10, 4e12
_TILE, _SMS = 128, 132
_ONE_LAUNCH, _CUDA_CORES = 5e-6, 48e12
MOST_WORKSPACE = 20 * 2**30  # bytes that a choice may take for copies of operands: a quarter of an H100's memory


def cuda_cores_are_faster(problem: Problem, arch: int) -> bool:
    """Whether an fp32 product has so few tiles, or is so small, that tensor cores do not make up for splitting; or so
    large that there may be no room for parts of it."""
    if arch != HOPPER:
        return False
    p = problem
    numbers = (p.copies[0] * p.m + p.copies[1] * p.n) * p.k
    if numbers * 6 > MOST_WORKSPACE:  # parts have 6 bytes a number
        return True
    waves = ceil_div(ceil_div(p.m, _TILE) * ceil_div(p.n, _TILE) * p.batch, _SMS)
    split = numbers * _SPLIT_BYTES / _BANDWIDTH
    return _ONE_LAUNCH + p.flops / _CUDA_CORES < _LAUNCHES + waves * p.k * _STEP + split


def default_rung(problem: Problem, precision: str = "", arch: int = SIMULATOR) -> KernelSpec:
    """The preferred rung that computes ``problem`` and keeps ``precision``; TF32 operands have but one.

    Without an architecture it is the simulator's.
    """
    asked = TF32.name if problem.dtype == TF32 else precision or DEFAULT
    by_name = {spec.name: spec for spec in rungs()}
    for name in _order(problem, asked, arch):
        spec = by_name.get(name)
        if spec is not None and _runs(spec, arch, problem) and asked in promises(spec, problem.dtype):
            if spec.arithmetic == "fp16x3" and problem.k < LEAST_DEPTH:  # it would be refused
                continue
            return spec
    if precision not in ("", DEFAULT):
        raise UnsupportedError(
            f"no rung computes {problem} with precision={precision!r}",
            "make the operands contiguous row-major, or ask for precision='fp32'",
        )
    raise UnsupportedError(
        f"no rung computes {problem}", "make the operands contiguous row-major, or convert them to fp16, bf16 or fp32"
    )


def _order(problem: Problem, precision: str, arch: int) -> tuple[str, ...]:
    plain = _SIMULATED if arch == SIMULATOR else _ON_GPU
    if problem.dtype != FP32 or cuda_cores_are_faster(problem, arch):
        return (*plain, *_LAST)
    return (*_TENSOR[precision].get(arch, ()), *plain, *_LAST)


def _runs(spec: KernelSpec, arch: int, problem: Problem) -> bool:
    if not spec.takes(problem) or (problem.flops == 0 and spec.tensor_maps is not None):  # a map has no empty dimension
        return False
    if arch == SIMULATOR:
        return spec.simulated
    return spec.min_arch <= arch and spec.arch_specific in (0, arch)
