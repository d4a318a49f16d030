"""NumPy's conventions: ``numpy.matmul``'s result types, promotion, shapes and errors, on the simulator.

    operands ─► types and shape as numpy.matmul has them ─► rank 2 or 3, kernels' strides ─► gemm ─► result type, out

Values differ from NumPy's by rounding: 16-bit products accumulate in fp32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from gemmsmith.call.api import gemm
from gemmsmith.errors import DTypeError, ProblemError
from gemmsmith.frameworks.shapes import ProductShape, Shape, ShapesDifferError, broadcast, product_shape
from gemmsmith.problem import dtype_named
from gemmsmith.run.tensors import dtype_name, has_kernel_layout

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
COMPUTED = tuple(np.dtype(each) for each in (np.float32, np.float16, ml_dtypes.bfloat16, np.int8))


def matmul(a: Any, b: Any, *, out: Any = None, out_dtype: Any = None, precision: str = "",
           deterministic: bool = True, device: str = "") -> Any:  # fmt: skip
    """``numpy.matmul`` on the simulator, which is where arrays of the host are multiplied."""
    del device
    left, right = _operand("a", a), _operand("b", b)
    # bfloat16 has no loop of its own in numpy.matmul: it gives float32, as the tensor cores do.
    loop = np.matmul.resolve_dtypes((left.dtype, right.dtype, None))[2]
    found = dtype_named(dtype_name(out_dtype)).numpy if out_dtype is not None else loop
    target = _target(out, found)
    try:
        shape = product_shape(left.shape, right.shape)
    except ShapesDifferError as error:
        raise ProblemError(str(error)) from None
    if target is not None:
        _check_target(target, shape)
    operands = (left, right)
    if not left.dtype == right.dtype == BFLOAT16:
        operands = (left.astype(loop, copy=False), right.astype(loop, copy=False))
    computed = np.dtype(np.int32) if found == np.int8 else found  # int8 results wrap around
    result = _product(*operands, shape, lambda x, y: gemm(x, y, out_dtype=computed, precision=precision,
                                                          deterministic=deterministic))  # fmt: skip
    result = _wrapped((a, b), result.astype(found, copy=False))
    if target is not None:
        target[...] = result
        return out[0] if isinstance(out, tuple) else out
    return result[()] if result.ndim == 0 and type(result) is np.ndarray else result


def _operand(name: str, value: Any) -> Array:
    """``value`` as an array, in native byte order; raises for types that are not computed."""
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(f"{name} is a masked array, and its mask would be ignored",
                         "fill it with .filled(0), or use numpy.matmul")  # fmt: skip
    array = np.asarray(value)
    native = array.dtype.newbyteorder("=")
    if native not in COMPUTED:
        raise DTypeError(
            f"{name} has elements of type {array.dtype}; gemmsmith computes {', '.join(map(str, COMPUTED))}",
            "use numpy.matmul, or convert it",
        )
    return array.astype(native, copy=False)


def _target(out: Any, found: np.dtype[Any]) -> Array | None:
    """Where the result goes; numpy converts to types of the same kind."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if out is None:
        return None
    if not isinstance(out, np.ndarray):
        raise DTypeError(f"out is a {type(out).__name__}, not an array")
    if not out.flags.writeable:
        raise ProblemError("out is read-only", "pass a writeable array")
    if not np.can_cast(found, out.dtype, "same_kind"):
        raise DTypeError(f"out has elements of type {out.dtype}, and the product {found}",
                         "numpy converts results within one kind of types only")  # fmt: skip
    return out


def _check_target(out: Array, shape: ProductShape) -> None:
    """Its batch may be larger than the product's, which is then repeated, and may lack leading extents of 1."""
    rank = len(shape.result) - len(shape.batch)
    batch, own = out.shape[: out.ndim - rank], out.shape[out.ndim - rank :]
    lacking = max(0, len(shape.batch) - len(batch))
    fits = set(shape.batch[:lacking]) <= {1} and broadcast(shape.batch[lacking:], batch) == batch
    if out.ndim < rank or own != shape.result[len(shape.batch) :] or not fits:
        raise ProblemError(f"out has shape {out.shape}, and the product {shape.result}")


def _product(a: Array, b: Array, shape: ProductShape, gemm: Callable[[Array, Array], Array]) -> Array:
    """The product by one call of ``gemm`` with operands of rank 2 or 3."""
    a = a[None, :] if shape.a_vector else a
    b = b[:, None] if shape.b_vector else b
    if not shape.batch:
        result = gemm(kernel_layout(a), kernel_layout(b))
    elif shape.folds:
        rows = math.prod(shape.a_batch) * shape.m
        result = gemm(kernel_layout(a.reshape(rows, shape.k)), kernel_layout(b.reshape(shape.k, shape.n)))
    else:
        result = gemm(*(kernel_layout(batched(x, shape.batch)) for x in (a, b)))
    return result.reshape(shape.result)


def batched(operand: Array, batch: Shape) -> Array:
    """An operand of rank 3 for a batch, or the matrix that is used for all of it."""
    own = operand.shape[:-2]
    if all(extent == 1 for extent in own) and any(extent != 1 for extent in batch):
        return operand.reshape(operand.shape[-2:])
    whole = operand if own == batch else np.broadcast_to(operand, (*batch, *operand.shape[-2:]))
    return whole.reshape(math.prod(batch), *operand.shape[-2:])


def kernel_layout(operand: Array) -> Array:
    """The operand itself where kernels take its strides; else a copy."""
    size = operand.itemsize
    whole = all(stride % size == 0 for stride in operand.strides) and operand.ctypes.data % size == 0
    if whole and has_kernel_layout(operand.shape, tuple(stride // size for stride in operand.strides)):
        return operand
    return operand.copy(order="C")  # also of contiguous ones whose elements are not aligned


def _wrapped(operands: tuple[Any, Any], result: Array) -> Array:
    """As the subclass of an operand, such as numpy.matrix, the one with the highest priority first."""
    subclasses = [x for x in operands if isinstance(x, np.ndarray) and type(x) is not np.ndarray]
    if not subclasses:
        return result
    first = max(subclasses, key=lambda x: float(getattr(x, "__array_priority__", 0)))
    wrapped: Array = first.__array_wrap__(result, None, False)
    return wrapped
