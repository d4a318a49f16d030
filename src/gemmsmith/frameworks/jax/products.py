"""``jax.numpy.matmul`` on our kernels.

    types and shape as JAX has them ─► rank 2 or 3 ─► product with its gradients ─► where it runs (calls.py)

A transposed operand of a gradient is an argument of the product, so that nothing is transposed in memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gemmsmith.errors import DTypeError, UsageError
from gemmsmith.frameworks.jax.calls import call, check_place
from gemmsmith.frameworks.jax_rules import COMPUTED, checked_shape, promoted
from gemmsmith.run.tensors import dtype_name

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
    found = _TYPES[dtype_name(out_dtype)] if out_dtype is not None else kind
    options = Options("int32" if found == "int8" else found, precision, bool(deterministic), device)
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


def _operand(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (list, tuple, str)):
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


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _product(a: Any, b: Any, trans_a: bool, trans_b: bool, options: Options) -> Any:
    """op(a) · op(b), of matrices or of batches with the same number of them."""
    rows, columns = a.shape[-1 if trans_a else -2], b.shape[-2 if trans_b else -1]
    result = jax.ShapeDtypeStruct((*a.shape[:-2], rows, columns), jnp.dtype(options.out))
    return call(a, b, result, trans_a, trans_b, options.precision, options.deterministic, options.device)


def _forward(a: Any, b: Any, trans_a: bool, trans_b: bool, options: Options) -> Any:
    return _product(a, b, trans_a, trans_b, options), (a, b)


def _backward(trans_a: bool, trans_b: bool, options: Options, kept: Any, grad: Any) -> Any:
    a, b = kept
    grad, later = grad.astype(a.dtype), options._replace(out=a.dtype.name)
    by_a = _product(b, grad, trans_b, True, later) if trans_a else _product(grad, b, False, not trans_b, later)
    by_b = _product(grad, a, True, trans_a, later) if trans_b else _product(a, grad, not trans_a, False, later)
    return by_a, by_b


_product.defvjp(_forward, _backward)
