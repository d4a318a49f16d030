"""The preferred rung where nothing was tuned and nothing is predicted: on the simulator, on GPUs other than Hopper, and
for types without a choice of configurations."""

from __future__ import annotations

from collections.abc import Mapping

from gemmsmith.choose import simt, split
from gemmsmith.choose.cost_data import MOST_WORKSPACE, measured_gpu
from gemmsmith.choose.key import unaligned
from gemmsmith.choose.precision import DEFAULT, promises
from gemmsmith.compile.target import runs_on
from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import FP32, TF32, Problem
from gemmsmith.prologue.split_fp16 import LEAST_DEPTH

SIMULATOR, HOPPER = 0, 90  # the simulator stands in place of an architecture; 90 is sm_90
# Fastest first; names that the ladder lacks are skipped. The plain rungs come last because they take any layout. On
# sm_75 mma_pipelined does not run, and wmma does. On the simulator, fewer instructions count.
_PLAIN = ("warp_tile", "mma_pipelined", "wmma", "warp_tile_mixed", "vectorized", "coalesced")
_ON_GPU = ("simt_best", "async_copy", *_PLAIN)
_SIMULATED = (*_PLAIN, "simt_best")
# fp32 on tensor cores, by architecture. Ratio of data-sheet peaks, six bf16 products against CUDA cores: 2.7 on sm_80,
# 2.5 on sm_90, 5 on sm_100, but at most 0.7 on sm_86 and sm_89. There three products have 1.3, too little of which is
# reached, so CUDA cores are used; also on architectures that are not listed.
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


def cuda_cores_are_faster(problem: Problem, arch: int, arithmetic: str = "bf16x6") -> bool:
    """Whether an fp32 product is predicted to take longer on tensor cores, after splitting its operands, or is so large
    that they might not fit the memory."""
    if arch != HOPPER:
        return False
    if not problem.flops or split.workspace_bytes(problem) > MOST_WORKSPACE:
        return True
    on_cuda_cores = simt.fastest(problem, measured_gpu().sms, unaligned(problem) & 3, clusters=True)[1]
    return on_cuda_cores < split.seconds(problem, arithmetic)


def default_rung(problem: Problem, precision: str = "", arch: int = SIMULATOR) -> KernelSpec:
    """The preferred rung that computes ``problem`` with ``precision`` on sm_``arch``, or on the simulator.

    Precision does not apply to TF32 operands.
    """
    wanted = TF32.name if problem.dtype == TF32 else precision or DEFAULT
    by_name = {spec.name: spec for spec in rungs()}
    for name in _order(problem, wanted, arch):
        spec = by_name.get(name)
        if spec is not None and _runs(spec, arch, problem) and wanted in promises(spec, problem.dtype):
            if spec.arithmetic == "fp16x3" and problem.k < LEAST_DEPTH:  # it would be refused
                continue
            return spec
    where = f" on sm_{arch}" if arch != SIMULATOR else ""
    if precision not in ("", DEFAULT):
        raise UnsupportedError(
            f"no rung computes {problem} with precision={precision!r}{where}",
            "make the operands contiguous row-major, or ask for precision='fp32'",
        )
    raise UnsupportedError(
        f"no rung computes {problem}{where}",
        "make the operands contiguous row-major, or convert them to fp16, bf16 or fp32",
    )


def _order(problem: Problem, precision: str, arch: int) -> tuple[str, ...]:
    plain = _SIMULATED if arch == SIMULATOR else _ON_GPU
    split_before = _TENSOR[precision].get(arch, ()) if problem.dtype == FP32 else ()
    arithmetic = "fp16x3" if precision == "fp32-fast" and problem.k >= LEAST_DEPTH else "bf16x6"
    if not split_before or cuda_cores_are_faster(problem, arch, arithmetic):
        return (*plain, *_LAST)
    return (*split_before, *plain, *_LAST)


def _runs(spec: KernelSpec, arch: int, problem: Problem) -> bool:
    if not spec.takes(problem) or (problem.flops == 0 and spec.tensor_maps is not None):  # maps of empty matrices
        return False
    return spec.simulated if arch == SIMULATOR else runs_on(spec, arch, problem.dtype)
