"""The problem: C = alpha * op(A) * op(B) + beta * C, row-major with leading dimensions.

A ``Problem`` is the only description of the mathematics that flows through the stages. It is checked
once, here, so that every later stage can trust it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from gemmsmith.errors import DTypeError, ProblemError

# CUDA kernels take M, N and K as 32-bit signed integers; element counts may exceed that.
MAX_EXTENT = 2**31 - 1


@dataclass(frozen=True)
class DType:
    """An element type: its short name, NumPy type, CUDA C++ spelling and unit roundoff."""

    name: str
    numpy: np.dtype[Any]
    cuda: str
    unit_roundoff: float

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    def __str__(self) -> str:
        return self.name


FP32 = DType("fp32", np.dtype(np.float32), "float", 2.0**-24)
FP16 = DType("fp16", np.dtype(np.float16), "__half", 2.0**-11)
BF16 = DType("bf16", np.dtype(ml_dtypes.bfloat16), "__nv_bfloat16", 2.0**-8)
DTYPES = {d.name: d for d in (FP32, FP16, BF16)}


def dtype_named(name: str) -> DType:
    """The data type called ``name``, or an error that lists the ones there are."""
    try:
        return DTYPES[name]
    except (KeyError, TypeError):
        raise DTypeError(f"unknown data type {name!r}", f"use one of {', '.join(DTYPES)}") from None


def dtype_of(numpy_dtype: np.dtype[Any]) -> DType:
    """The gemmsmith type of a NumPy type; float64 and integers are refused, never converted."""
    for dtype in DTYPES.values():
        if dtype.numpy == numpy_dtype:
            return dtype
    raise DTypeError(
        f"elements of type {numpy_dtype} are not supported",
        f"use one of {', '.join(DTYPES)}; convert with .astype(numpy.float32), for example",
    )


@dataclass(frozen=True)
class Problem:
    """One matrix product. Leading dimensions default to the tightest legal ones."""

    m: int
    n: int
    k: int
    dtype: DType = FP32
    out_dtype: DType = FP32
    alpha: float = 1.0
    beta: float = 0.0
    lda: int = field(default=-1)
    ldb: int = field(default=-1)
    ldc: int = field(default=-1)
    trans_a: bool = False
    trans_b: bool = False

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            object.__setattr__(self, name, _checked_extent(name, getattr(self, name)))
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
                raise ProblemError(f"{name} must be a real number, not {value!r}")
            # Kernels take fp32 scalars: what they see is what the reference must see.
            try:
                with np.errstate(over="ignore"):
                    object.__setattr__(self, name, float(np.float32(value)))
            except OverflowError:
                raise ProblemError(f"{name} is an integer too large for any floating-point type") from None
        for name, columns in (("lda", self.a_shape[1]), ("ldb", self.b_shape[1]), ("ldc", self.n)):
            self._resolve_leading(name, columns)

    def _resolve_leading(self, name: str, columns: int) -> None:
        value = getattr(self, name)
        if value == -1:
            object.__setattr__(self, name, max(1, columns))
            return
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ProblemError(f"{name} must be an integer, not {value!r}")
        if value < max(1, columns):
            raise ProblemError(
                f"{name}={value} is smaller than a row of {columns} elements",
                f"rows are stored one after another: {name} must be at least {max(1, columns)}",
            )
        object.__setattr__(self, name, int(value))

    @property
    def a_shape(self) -> tuple[int, int]:
        """Rows and columns of A as stored."""
        return (self.k, self.m) if self.trans_a else (self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, int]:
        """Rows and columns of B as stored."""
        return (self.n, self.k) if self.trans_b else (self.k, self.n)

    @property
    def c_shape(self) -> tuple[int, int]:
        return (self.m, self.n)

    @property
    def layout(self) -> str:
        """'NN', 'NT', 'TN' or 'TT': whether A and B are stored transposed."""
        return ("T" if self.trans_a else "N") + ("T" if self.trans_b else "N")

    @property
    def flops(self) -> int:
        """Multiplications and additions of the product itself: 2·M·N·K."""
        return 2 * self.m * self.n * self.k

    @property
    def compulsory_bytes(self) -> int:
        """The fewest bytes that must move: each input read once, the output written once."""
        inputs = (self.m * self.k + self.k * self.n) * self.dtype.itemsize if self.alpha != 0 else 0
        outputs = self.m * self.n * self.out_dtype.itemsize
        return inputs + outputs * (2 if self.beta != 0 else 1)

    def with_(self, **changes: Any) -> Problem:
        """A copy with some fields changed; leading dimensions not named are made tight again."""
        tight = {name: -1 for name in ("lda", "ldb", "ldc") if name not in changes}
        return replace(self, **(tight | changes))

    def __str__(self) -> str:
        text = f"{self.m}x{self.n}x{self.k} {self.dtype}"
        if self.layout != "NN":
            text += f" {self.layout}"
        if self.alpha != 1 or self.beta != 0:
            text += f" alpha={self.alpha:g} beta={self.beta:g}"
        for name, columns in (("lda", self.a_shape[1]), ("ldb", self.b_shape[1]), ("ldc", self.n)):
            if getattr(self, name) != max(1, columns):
                text += f" {name}={getattr(self, name)}"
        return text


def _checked_extent(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ProblemError(f"{name.upper()} must be an integer, not {value!r}")
    if value < 0:
        raise ProblemError(f"{name.upper()}={value} is negative; extents are 0 or more")
    if value > MAX_EXTENT:
        raise ProblemError(f"{name.upper()}={value} exceeds {MAX_EXTENT}, the largest extent a kernel takes")
    return int(value)


def ceil_div(a: int, b: int) -> int:
    """How many pieces of ``b`` cover ``a``."""
    return -(-a // b)


def geometric_mean(values: list[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(sum(math.log(v) for v in values) / len(values))
