"""Whether our kernel is expected to be faster than torch's: rules with their reasons, and measurements.

The rules are few, and each follows from recorded figures (docs/torch.md): torch's 16-bit kernels need rows on 16 bytes,
and its fp32 does not use tensor cores. Anything else is left to torch unless it is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from gemmsmith.choose.default import cuda_cores_are_faster
from gemmsmith.frameworks.torch.types import COMPUTED
from gemmsmith.problem import Problem

_ARCH = 90  # the architecture that the rules were measured on
_ROW_BYTES = 16
_LEAST_ROWS, _LEAST_DEPTH = 64, 256  # of unaligned 16-bit products that were faster in every record
_LEAST_FLOPS = 2 * 1024**3  # of fp32 products: below, splitting costs what tensor cores gain
# Of torch's time: a measured layer is replaced below this. Layers that were 3 to 6 % faster alone made neither a ViT
# nor Llama blocks faster on an H200, when this was 0.97.
FASTER = 0.93
_ROUNDS, _CALLS = 7, 12


@dataclass(frozen=True)
class Verdict:
    """Whether ours is faster, why, and torch's time over ours where that was measured."""

    faster: bool
    why: str
    ratio: float = 0.0


def expected(m: int, n: int, k: int, dtype: torch.dtype, device: torch.device) -> Verdict:
    """For x · weightᵀ with m rows, k inputs and n outputs."""
    if dtype not in COMPUTED:
        return Verdict(False, f"{dtype} is not computed by gemmsmith")
    if device.type != "cuda":
        return Verdict(False, f"the tensors are on {device}")
    if torch.cuda.get_device_capability(device) != (9, 0):
        return Verdict(False, "the rules hold for Hopper GPUs; pass sample inputs to measure")
    if dtype is torch.float32:
        return _expected_fp32(m, n, k)
    size = dtype.itemsize
    if (n * size % _ROW_BYTES or k * size % _ROW_BYTES) and m >= _LEAST_ROWS and k >= _LEAST_DEPTH:
        which = n if n * size % _ROW_BYTES else k
        return Verdict(True, f"rows of {which} elements do not start on {_ROW_BYTES} bytes, where torch is slow")
    return Verdict(False, "no gain is expected; pass sample inputs to measure")


def _expected_fp32(m: int, n: int, k: int) -> Verdict:
    if torch.get_float32_matmul_precision() != "highest" or torch.backends.cuda.matmul.allow_tf32:
        return Verdict(False, "TF32 is allowed, which is faster and less accurate than fp32 on tensor cores")
    if cuda_cores_are_faster(Problem(m, n, k, trans_b=True), _ARCH) or 2 * m * n * k < _LEAST_FLOPS:
        return Verdict(False, "too small for fp32 on tensor cores")
    return Verdict(True, "fp32 on tensor cores (bf16x6), where torch uses CUDA cores")


def measured(ours: Callable[[], Tensor], theirs: Callable[[], Tensor]) -> Verdict:
    """Both called in turns on the current stream; medians, with the host's cost included."""
    for _ in range(3):  # the first two calls of ours may run a stand-in (call/first_call.py)
        ours(), theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for function, found in zip((ours, theirs), times, strict=True):
            found.append(_milliseconds(function))
    mine, other = median(times[0]), median(times[1])
    ratio = other / mine
    figures = f"{mine * 1e3:.1f} µs against {other * 1e3:.1f} of torch"
    faster = mine <= other * FASTER
    return Verdict(faster, f"{'faster' if faster else 'not faster'}: {figures}", round(ratio, 3))


def _milliseconds(function: Callable[[], Tensor]) -> float:
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    first.record()
    for _ in range(_CALLS):
        function()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / _CALLS
