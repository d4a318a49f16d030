"""The problem: C = act(alpha * op(A) * op(B) + beta * C + bias), row-major with leading dimensions, once or in a batch.

A ``Problem`` is the only description of the product that passes between the stages. It is checked when it is made, so
later stages need not check it again.
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
# fp32 in memory; tensor cores multiply its upper 19 bits. Never called fp32, and used only where it is named.
TF32 = DType("tf32", np.dtype(np.float32), "float", 2.0**-11)
INT8 = DType("int8", np.dtype(np.int8), "signed char", 0.0)
INT32 = DType("int32", np.dtype(np.int32), "int", 0.0)
# Types of users' kernels; no rung takes them, and they have no name on the command line.
UINT8 = DType("uint8", np.dtype(np.uint8), "unsigned char", 0.0)
FP64 = DType("fp64", np.dtype(np.float64), "double", 2.0**-53)
DTYPES = {d.name: d for d in (FP32, FP16, BF16, TF32, INT8, INT32)}
INTEGER_TYPES = (INT8, UINT8, INT32)
# The output types of each input type; the first is the default.
OUTPUTS = {
    FP32: (FP32,), TF32: (FP32,), FP16: (FP32, FP16), BF16: (FP32, BF16), INT8: (FP32, INT32, INT8),
    UINT8: (INT32, FP32), INT32: (INT32,), FP64: (FP64,),
}  # fmt: skip
BIASES = ("", "row", "column")
ACTIVATIONS = ("", "relu", "gelu", "silu")
OWN_ACTIVATIONS = (*ACTIVATIONS, "gelu_tanh")  # that a user's kernel may apply; gelu_tanh is the one with tanh


def arithmetic_of(dtype: DType, tensor_cores: bool) -> str:
    """The arithmetic of an input type: without tensor cores, 16-bit inputs are multiplied in fp32."""
    return dtype.name if tensor_cores or dtype == TF32 else FP32.name


def dtype_named(name: str) -> DType:
    """The data type ``name``; an unknown name raises an error that lists the known ones."""
    try:
        return DTYPES[name]
    except (KeyError, TypeError):
        raise DTypeError(f"unknown data type {name!r}", f"use one of {', '.join(DTYPES)}") from None


def stored_dtype(name: str) -> DType:
    """The data type of a record, which may be one that only users' kernels have."""
    return {d.name: d for d in (UINT8, FP64)}.get(name) or dtype_named(name)


def dtype_of(numpy_dtype: np.dtype[Any]) -> DType:
    """The gemmsmith type of a NumPy type; other types, such as float64, are refused, not converted."""
    for dtype in _OF_ARRAYS:
        if dtype.numpy == numpy_dtype:
            return dtype
    raise DTypeError(
        f"elements of type {numpy_dtype} are not supported",
        f"use one of {', '.join(d.name for d in _OF_ARRAYS)}; convert with .astype(numpy.float32), for example",
    )


# An array of float32 is fp32; TF32 is a way to multiply it and must be named.
_MOST_ROWS = 2**31 - 1  # kernels count rows in 32 bits
_OF_ARRAYS = (FP32, FP16, BF16, INT8, INT32)


@dataclass(frozen=True)
class Problem:
    """One matrix product, or a batch of them. Leading dimensions and strides default to the smallest legal ones.

    batch       how many products; stride_a, stride_b and stride_c are the elements from one matrix to the next.
                A stride of 0 uses one A or B for all products.
    bias        '', 'row' (one value per row of C) or 'column' (one per column), in the output's type
    own_bias    of a user's kernel: each product of a batch has a bias of its own; they follow one another
    activation  '', 'relu', 'gelu' (with erf) or 'silu', applied after the bias and before the conversion to the output
    own_scalars  of a user's kernel: int32 results with any integer alpha and beta, where ``gemm`` has 1 and 0 or 1; and
                 gelu_tanh, GELU by its approximation with tanh
    """

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
    batch: int = 1
    stride_a: int = -1
    stride_b: int = -1
    stride_c: int = -1
    bias: str = ""
    activation: str = ""
    own_bias: bool = field(default=False, repr=False)
    own_scalars: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "batch"):
            object.__setattr__(self, name, _checked_extent(name, getattr(self, name)))
        self._check_types()
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
                raise ProblemError(f"{name} must be a real number, not {value!r}")
            # Kernels take fp32 scalars (of fp64, fp64 ones), so the reference must use the rounded values too.
            try:
                with np.errstate(over="ignore"):
                    kept = np.float64(value) if self.dtype == FP64 else np.float32(value)
                    object.__setattr__(self, name, float(kept))
            except OverflowError:
                raise ProblemError(f"{name} is an integer too large for any floating-point type") from None
        for name, columns in (("lda", self.a_shape[1]), ("ldb", self.b_shape[1]), ("ldc", self.n)):
            self._resolve_leading(name, columns)
        for operand, shape in (("a", self.a_shape), ("b", self.b_shape), ("c", self.c_shape)):
            self._resolve_stride(operand, shape)

    def _check_types(self) -> None:
        known = OUTPUTS.get(self.dtype)
        if known is None:
            raise DTypeError(f"{self.dtype} is not an input type", f"use one of {', '.join(d.name for d in OUTPUTS)}")
        if self.out_dtype not in known:
            raise DTypeError(f"{self.dtype} inputs give {' or '.join(d.name for d in known)}, not {self.out_dtype}")
        activations = OWN_ACTIVATIONS if self.own_scalars else ACTIVATIONS
        for name, value, legal in (("bias", self.bias, BIASES), ("activation", self.activation, activations)):
            if value not in legal:
                raise ProblemError(f"unknown {name} {value!r}", f"use one of {', '.join(filter(None, legal))}")
        free = self.dtype != INT8 or self.own_scalars
        if self.out_dtype == INT32 and free and not self._has_integer_scalars():
            raise ProblemError("int32 results have an integer alpha and beta", "leave out the fraction")
        if (
            self.out_dtype == INT32
            and not free
            and (self.alpha != 1 or self.beta not in (0, 1) or self.activation in ("gelu", "silu"))
        ):
            raise ProblemError("int32 results have alpha 1, beta 0 or 1 and no activation but relu",
                               "ask for fp32 results, or convert afterwards")  # fmt: skip

    def _has_integer_scalars(self) -> bool:
        scalars = (self.alpha, self.beta)
        return self.activation in ("", "relu") and all(isinstance(x, (int, float)) and x % 1 == 0 for x in scalars)

    def _resolve_stride(self, operand: str, shape: tuple[int, int]) -> None:
        name = f"stride_{operand}"
        value, leading = getattr(self, name), getattr(self, f"ld{operand}")
        if value == -1 or self.batch <= 1:  # a single product has no next one
            object.__setattr__(self, name, shape[0] * leading if self.batch > 1 else 0)
            return
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ProblemError(f"{name} must be an integer, not {value!r}")
        span = (shape[0] - 1) * leading + shape[1] if shape[0] and shape[1] else 0
        if value < span and not (value == 0 and operand != "c"):
            raise ProblemError(
                f"{name}={value} is smaller than a matrix of {span} elements",
                "the matrices of a batch must not overlap; a stride of 0 uses one A or B for all",
            )
        object.__setattr__(self, name, int(value))

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
    def copies(self) -> tuple[int, int, int]:
        """How many matrices A, B and C have: the batch, or one that is used for the whole batch."""
        a, b = (1 if stride == 0 else self.batch for stride in (self.stride_a, self.stride_b))
        return a, b, self.batch

    @property
    def folded(self) -> Problem:
        """A batch that shares one B, where the rows of all A and of all C follow one another: one product of batch * M
        rows. Any other problem as it is."""
        one_below_another = self.stride_a == self.m * self.lda and self.stride_c == self.m * self.ldc
        if (
            self.batch <= 1
            or self.stride_b != 0
            or self.trans_a
            or self.bias == "row"
            or self.own_bias
            or not one_below_another
        ):
            return self
        rows = self.batch * self.m
        if rows > _MOST_ROWS:
            return self
        return replace(self, m=rows, batch=1, stride_a=-1, stride_b=-1, stride_c=-1)

    @property
    def has_epilogue(self) -> bool:
        return bool(self.bias or self.activation)

    @property
    def bias_length(self) -> int:
        return {"": 0, "row": self.m, "column": self.n}[self.bias]

    @property
    def biases(self) -> int:
        """How many biases a batch has: one for all products, or one for each."""
        return self.batch if self.own_bias else 1

    @property
    def layout(self) -> str:
        """'NN', 'NT', 'TN' or 'TT': whether A and B are stored transposed."""
        return ("T" if self.trans_a else "N") + ("T" if self.trans_b else "N")

    @property
    def flops(self) -> int:
        """Multiplications and additions: 2·M·N·K per product."""
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def compulsory_bytes(self) -> int:
        """The least memory traffic in bytes: every input read once, the output written once."""
        a, b, c = self.copies
        inputs = (a * self.m * self.k + b * self.k * self.n) * self.dtype.itemsize if self.alpha != 0 else 0
        outputs = c * self.m * self.n * self.out_dtype.itemsize
        return (
            inputs + outputs * (2 if self.beta != 0 else 1) + self.biases * self.bias_length * self.out_dtype.itemsize
        )

    def with_(self, **changes: Any) -> Problem:
        """A copy with some fields changed; leading dimensions and strides not given get their smallest legal values.

        A matrix that is used for the whole batch remains so.
        """
        tight = {name: -1 for name in ("lda", "ldb", "ldc", "stride_c") if name not in changes}
        for name in ("stride_a", "stride_b"):
            if name not in changes and (getattr(self, name) != 0 or self.batch <= 1):
                tight[name] = -1
        return replace(self, **(tight | changes))

    @property
    def single(self) -> Problem:
        """One product of the batch."""
        return replace(self, batch=1, stride_a=-1, stride_b=-1, stride_c=-1, own_bias=False)

    def __str__(self) -> str:
        text = f"{self.batch} of " if self.batch != 1 else ""
        text += f"{self.m}x{self.n}x{self.k} {self.dtype}"
        if (self.out_dtype != FP32 and self.out_dtype != self.dtype) or self.out_dtype in (FP16, BF16, INT8):
            text += f" to {self.out_dtype}"
        if self.layout != "NN":
            text += f" {self.layout}"
        if self.alpha != 1 or self.beta != 0:
            text += f" alpha={self.alpha:g} beta={self.beta:g}"
        for name, columns in (("lda", self.a_shape[1]), ("ldb", self.b_shape[1]), ("ldc", self.n)):
            if getattr(self, name) != max(1, columns):
                text += f" {name}={getattr(self, name)}"
        text += f" with a bias for each {self.bias}" if self.bias else ""
        return text + (f" and {self.activation}" if self.activation else "")


def _checked_extent(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ProblemError(f"{name.upper()} must be an integer, not {value!r}")
    if value < 0:
        raise ProblemError(f"{name.upper()}={value} is negative; extents are 0 or more")
    if value > MAX_EXTENT:
        raise ProblemError(f"{name.upper()}={value} exceeds {MAX_EXTENT}, the largest extent a kernel takes")
    return int(value)


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def geometric_mean(values: list[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(sum(math.log(v) for v in values) / len(values))
