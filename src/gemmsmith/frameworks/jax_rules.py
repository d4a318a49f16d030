"""JAX's conventions for ``jax.numpy.matmul``, without JAX: promotion of types, and exceptions for shapes."""

from __future__ import annotations

from gemmsmith.errors import ProblemError
from gemmsmith.frameworks.shapes import ProductShape, Shape, broadcast, product_shape

COMPUTED = ("float32", "float16", "bfloat16", "int8")
_FLOATS = ("float32", "float16", "bfloat16")


class DepthError(ProblemError, TypeError):
    """Inner extents that differ, for which JAX raises a TypeError."""


def promoted(a: str, b: str) -> str:
    """The type of a product, of types that are computed: integers become floats, two 16-bit floats float32."""
    if a == b:
        return a
    floats = [each for each in (a, b) if each in _FLOATS]
    return floats[0] if len(floats) == 1 else "float32"


def checked_shape(a: Shape, b: Shape) -> ProductShape:
    """The shape of a product; raises what JAX raises."""
    if not a or not b:
        raise ProblemError(f"a has shape {a} and b {b}: both need at least one dimension")
    depth = b[0] if len(b) == 1 else b[-2]
    if broadcast(a[:-2], b[:-2]) is None:
        raise ProblemError(f"a has shape {a} and b {b}: the batches {a[:-2]} and {b[:-2]} cannot be broadcast")
    if a[-1] != depth:
        raise DepthError(f"a has shape {a} and b {b}: the inner extents {a[-1]} and {depth} differ")
    return product_shape(a, b)
