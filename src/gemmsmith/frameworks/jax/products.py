"""``jax.numpy.matmul`` on our kernels.

    types and shape as JAX has them ─► rank 2 or 3 ─► product with its gradients ─► where it runs (calls.py)

A transposed operand of a gradient is an argument of the product, so that nothing is transposed in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from gemmsmith.call.api import check_options
from gemmsmith.errors import DTypeError, UsageError
from gemmsmith.frameworks.jax.calls import call, check_place
from gemmsmith.frameworks.jax_rules import COMPUTED, checked_shape, promoted
from gemmsmith.problem import Problem, dtype_named
from gemmsmith.run.tensors import dtype_name

_TAKEN = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)  # as jax.numpy.matmul
_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8", "int32": "int32"}


class Options(NamedTuple):
    """Static arguments of a product; ``out`` is the name of the result's type."""

    out: str
    precision: str
    deterministic: bool
    device: str


def matmul(a: Any, b: Any, *, out: Any = None, out_dtype: Any = None, precision: str = "", deterministic: bool = True,
           device: str = "") -> Any:  # fmt: skip
    """``jax.numpy.matmul`` with gradients, also inside ``jax.jit`` and ``jax.vmap``.

    Arguments are those of ``gemmsmith.matmul``. Arrays of JAX cannot be written to, so there is no ``out``.
    """
    if out is not None:
        raise UsageError("JAX's arrays cannot be written to", "leave out= away")
    left, right = _operand("a", a), _operand("b", b)
    check_place((left, right), device)
    kind = promoted(left.dtype.name, right.dtype.name)
    shape = checked_shape(left.shape, right.shape)
    left, right = left.astype(kind), right.astype(kind)
    found = _result_type(kind, out_dtype)
    check_options(dtype_named(dtype_name(kind)), precision, deterministic)
    options = Options("int32" if found == "int8" else found, precision, deterministic, device)
    left = left[None, :] if shape.a_vector else left
    right = right[:, None] if shape.b_vector else right
    if shape.folds or not shape.batch:
        rows = left.size // shape.k if shape.k else _count(left.shape[:-1])
        result = _product(left.reshape(rows, shape.k), right.reshape(shape.k, shape.n), False, False, options)
    else:
        count = _count(shape.batch)
        result = _product(jnp.broadcast_to(left, (*shape.batch, shape.m, shape.k)).reshape(count, shape.m, shape.k),
                          jnp.broadcast_to(right, (*shape.batch, shape.k, shape.n)).reshape(count, shape.k, shape.n),
                          False, False, options)  # fmt: skip
    return result.astype(found).reshape(shape.result)


def _result_type(kind: str, out_dtype: Any) -> str:
    """The name of the result's type: checked here, since an exception inside of XLA is hard to read."""
    if out_dtype is None or out_dtype == "":
        return kind
    dtype, found = dtype_named(dtype_name(kind)), dtype_named(dtype_name(out_dtype))
    Problem(1, 1, 1, dtype, found)
    return _TYPES[found.name]


def _operand(name: str, value: Any) -> Any:
    if not isinstance(value, _TAKEN) and not hasattr(value, "__jax_array__"):
        raise DTypeError(f"{name} is a {type(value).__name__}, not an array", "pass jax.numpy.asarray of it")
    array = jnp.asarray(value)
    if array.dtype.name not in COMPUTED:
        raise DTypeError(f"{name} has elements of type {array.dtype}; gemmsmith computes {', '.join(COMPUTED)}",
                         "use jax.numpy.matmul, or convert it")  # fmt: skip
    return array


def _count(extents: tuple[int, ...]) -> int:
    count = 1
    for each in extents:
        count *= each
    return count


def _product(a: Any, b: Any, trans_a: bool, trans_b: bool, options: Options) -> Any:
    """op(a) · op(b), of matrices or of batches with the same number of them."""
    return _PRODUCT.bind(a, b, trans_a=trans_a, trans_b=trans_b, options=options)


def _result(a: Any, b: Any, trans_a: bool, trans_b: bool, options: Options) -> Any:
    rows, columns = a.shape[-1 if trans_a else -2], b.shape[-2 if trans_b else -1]
    return jax.ShapeDtypeStruct((*a.shape[:-2], rows, columns), jnp.dtype(options.out))


def _abstract(a: Any, b: Any, **given: Any) -> Any:
    result = _result(a, b, **given)
    return type(a)(result.shape, result.dtype)


def _compute(a: Any, b: Any, *, trans_a: bool, trans_b: bool, options: Options) -> Any:
    result = _result(a, b, trans_a, trans_b, options)
    return call(a, b, result, trans_a, trans_b, options.precision, options.deterministic, options.device)


def _gradient_of_a(grad: Any, a: Any, b: Any, *, trans_a: bool, trans_b: bool, options: Options) -> Any:
    kind = a.aval.dtype
    grad, later = grad.astype(kind), options._replace(out=kind.name)
    return _product(b, grad, trans_b, True, later) if trans_a else _product(grad, b, False, not trans_b, later)


def _gradient_of_b(grad: Any, a: Any, b: Any, *, trans_a: bool, trans_b: bool, options: Options) -> Any:
    kind = b.aval.dtype
    grad, later = grad.astype(kind), options._replace(out=kind.name)
    return _product(grad, a, True, trans_a, later) if trans_b else _product(a, grad, not trans_a, False, later)


def _batched(operands: Any, dims: Any, *, trans_a: bool, trans_b: bool, options: Options) -> Any:
    """vmap: one more extent in front, which becomes a part of the batch; of a alone, more rows of one product."""
    (a, b), (along_a, along_b) = operands, dims
    count = a.shape[along_a] if along_a is not None else b.shape[along_b]
    if along_b is None and b.ndim == 2 and not trans_a:
        a = jnp.moveaxis(a, along_a, 0)
        found = _product(a.reshape(-1, a.shape[-1]), b, False, trans_b, options)
        return found.reshape(*a.shape[:-1], found.shape[-1]), 0
    a, b = (jnp.broadcast_to(x, (count, *x.shape)) if along is None else jnp.moveaxis(x, along, 0)
            for x, along in ((a, along_a), (b, along_b)))  # fmt: skip
    outer = a.shape[:-2]
    a, b = (x.reshape(_count(x.shape[:-2]), *x.shape[-2:]) for x in (a, b))
    found = _product(a, b, trans_a, trans_b, options)
    return found.reshape(*outer, *found.shape[-2:]), 0


def _new_primitive() -> Any:
    """A bilinear function: JAX derives gradients of both modes and any order."""
    found = Primitive("gemmsmith_product")
    found.def_impl(_compute)
    found.def_abstract_eval(_abstract)
    ad.defbilinear(found, _gradient_of_a, _gradient_of_b)
    batching.primitive_batchers[found] = _batched
    mlir.register_lowering(found, mlir.lower_fun(_compute, multiple_results=False))
    return found


_PRODUCT = _new_primitive()
