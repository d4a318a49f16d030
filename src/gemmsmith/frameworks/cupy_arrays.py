"""CuPy's conventions: ``cupy.matmul``'s result types and shapes, on the current stream, into ``out``."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from gemmsmith.call.api import gemm
from gemmsmith.errors import DTypeError, ProblemError, UsageError
from gemmsmith.frameworks.shapes import ShapesDifferError, product_shape
from gemmsmith.problem import dtype_named
from gemmsmith.run.tensors import dtype_name, has_kernel_layout

COMPUTED = tuple(np.dtype(each) for each in (np.float32, np.float16, np.int8))


def matmul(a: Any, b: Any, *, out: Any = None, out_dtype: Any = None, precision: str = "", deterministic: bool = True,
           device: str = "") -> Any:  # fmt: skip
    """``cupy.matmul``. CuPy promotes types as NumPy does; its arrays have no bfloat16."""
    cupy = sys.modules["cupy"]
    if device:
        raise UsageError("CuPy's arrays are on a GPU, and the simulator takes NumPy's", "pass cupy.asnumpy(a)")
    left, right = _operand(cupy, "a", a), _operand(cupy, "b", b)
    kind = np.promote_types(left.dtype, right.dtype)
    found = dtype_named(dtype_name(out_dtype)).numpy if out_dtype is not None else kind
    try:
        shape = product_shape(left.shape, right.shape)
    except ShapesDifferError as error:
        raise ProblemError(str(error)) from None
    left, right = left.astype(kind, copy=False), right.astype(kind, copy=False)
    left = left[None, :] if shape.a_vector else left
    right = right[:, None] if shape.b_vector else right
    computed = np.dtype(np.int32) if found == np.int8 else found
    options: dict[str, Any] = {"out_dtype": computed, "precision": precision, "deterministic": deterministic}
    if not shape.batch or shape.folds:
        rows = math.prod(left.shape[:-1])
        pair = (left.reshape(rows, shape.k), right.reshape(shape.k, shape.n))
    else:
        count = math.prod(shape.batch)
        pair = tuple(cupy.broadcast_to(x, (*shape.batch, *x.shape[-2:])).reshape(count, *x.shape[-2:])
                     for x in (left, right))  # fmt: skip
    apart = out is None or not any(cupy.may_share_memory(out, x) for x in (a, b))
    if apart and _direct(out, shape.result, computed) and len(shape.result) == pair[0].ndim:
        return gemm(*(_layout(cupy, x) for x in pair), out=out, **options)
    result = gemm(*(_layout(cupy, x) for x in pair), **options).reshape(shape.result).astype(found, copy=False)
    if out is None:
        return result
    if out.shape != result.shape:
        raise ProblemError(f"out has shape {out.shape}, and the product {result.shape}")
    if not np.can_cast(result.dtype, out.dtype, "same_kind"):
        raise DTypeError(f"out has elements of type {out.dtype}, and the product {result.dtype}")
    out[...] = result
    return out


def _operand(cupy: Any, name: str, value: Any) -> Any:
    if not isinstance(value, cupy.ndarray):
        raise DTypeError(f"{name} is a {type(value).__name__}, not a cupy.ndarray", "pass cupy.asarray of it")
    if value.dtype not in COMPUTED:
        raise DTypeError(f"{name} has elements of type {value.dtype}; gemmsmith computes "
                         f"{', '.join(map(str, COMPUTED))}", "use cupy.matmul, or convert it")  # fmt: skip
    return value if type(value) is cupy.ndarray else value.view(cupy.ndarray)  # of a subclass


def _layout(cupy: Any, value: Any) -> Any:
    strides = tuple(stride // value.itemsize for stride in value.strides)
    return value if has_kernel_layout(value.shape, strides) else cupy.ascontiguousarray(value)


def _direct(out: Any, shape: tuple[int, ...], kind: np.dtype[Any]) -> bool:
    """Whether a kernel may write to ``out``."""
    return out is not None and out.shape == shape and out.dtype == kind and bool(out.flags.c_contiguous)
