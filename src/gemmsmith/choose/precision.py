"""The values of ``precision=``, and which kernels satisfy which (docs/precision.md).

    ieee       CUDA cores: every operation an fma, rounded to nearest; infinities, NaN and subnormals follow IEEE 754
    fp32       as accurate as cuBLAS in fp32, within a margin, by any method
    fp32-fast  within verification's gate for fp32 products, with fewer products
    tf32       TF32 on tensor cores: the same as dtype='tf32'

What a rung satisfies follows from its specification. Nothing is known about a user's file, so it satisfies none.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gemmsmith.errors import DTypeError, UnsupportedError, UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import FP32, TF32, DType, dtype_named

PRECISIONS = ("ieee", "fp32", "fp32-fast", "tf32")
DEFAULT = "fp32"
# 'fp32' in figures (docs/precision.md): the largest component of |Ĉ−C|/(|A||B|) is at most FP32_MARGIN times cuBLAS's,
# or FP32_FLOOR of verification's gate if that is more: with small K or few outputs, cuBLAS's error may be small by
# luck. Three quarters of the gate are at least 12·2**−24: tensor cores truncate at most 8·2**−24 of |A||B| when they
# add 64 of k in four steps, and a loop of K fma, used for small products, errs by up to 1.4·√K on growing sums.
FP32_MARGIN, FP32_FLOOR = 1.1, 0.75
_NAMED = 3  # rungs named in a hint, the highest
# Products of narrower types are exact in fp32: only sums are rounded.
_OF_NARROW_TYPES = ("ieee", "fp32")
# Kernels that compute fp32 products from narrower ones, by KernelSpec.arithmetic.
_SPLIT: Mapping[str, tuple[str, ...]] = MappingProxyType({"bf16x6": ("fp32", "fp32-fast"), "fp16x3": ("fp32-fast",)})


def precision_named(name: object) -> str:
    """``name``, if it is a precision; '' means that none was asked for."""
    if isinstance(name, str) and (name == "" or name in PRECISIONS):
        return name
    raise UsageError(f"unknown precision {name!r}", f"use one of {', '.join(PRECISIONS)}")


def input_dtype(precision: str, dtype: str, operands: DType) -> str:
    """The ``dtype`` that precision and dtype ask for together; raises where they contradict each other or the operands.

    dtype     as the caller named it; '' is the operands' own
    operands  their stored type: fp32 for TF32, which is a way to multiply
    """
    if precision_named(precision) == "":
        return dtype
    if operands not in (FP32, TF32):
        if precision not in _OF_NARROW_TYPES:
            raise DTypeError(
                f"precision={precision!r} is for fp32 operands, and these are {operands}",
                f"use {' or '.join(map(repr, _OF_NARROW_TYPES))}, or leave precision out",
            )
        return dtype
    if dtype and (precision == TF32.name) != (dtype_named(dtype) == TF32):
        raise UsageError(f"precision={precision!r} and dtype={dtype!r} contradict each other", "leave one of them out")
    return TF32.name if precision == TF32.name else dtype


def promises(spec: KernelSpec, dtype: DType) -> tuple[str, ...]:
    """The precisions that a kernel satisfies for operands of a type; none where it does not take them."""
    if not spec.is_rung or dtype not in spec.dtypes:
        return ()
    if dtype == TF32:
        return (TF32.name,)
    if dtype != FP32:
        return ("fp32",) if spec.tensor_cores else _OF_NARROW_TYPES
    if spec.arithmetic or spec.tensor_cores:
        return _SPLIT.get(spec.arithmetic, ())
    return ("ieee", "fp32", "fp32-fast")


def check_promise(spec: KernelSpec, dtype: DType, precision: str) -> None:
    """Raise unless the kernel satisfies the precision; '' asks for none."""
    kept = promises(spec, dtype)
    if precision_named(precision) == "" or precision in kept:
        return
    if not spec.is_rung:
        raise UnsupportedError(
            f"{spec.name} is your own file: its arithmetic is not known, so precision={precision!r} "
            "cannot be promised", "leave precision out; gemmsmith accuracy measures its errors",
        )  # fmt: skip
    what = f"it keeps {', '.join(kept)}" if kept else f"it does not take {dtype}"
    able = " or ".join([other.name for other in rungs() if precision in promises(other, dtype)][-_NAMED:])
    raise UnsupportedError(
        f"{spec.name} does not keep precision={precision!r} for {dtype} operands: {what}",
        f"use {able}, or give only one of kernel and precision" if able else f"no rung keeps it for {dtype}",
    )
