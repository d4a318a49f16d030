"""The shapes of a matrix product of any ranks: NumPy's rule, which torch, JAX and CuPy share.

    (…, m, k) · (…, k, n) ─► (…, m, n)        vectors: (k) · (…, k, n) ─► (…, n),  (…, m, k) · (k) ─► (…, m)

Extents before the last two are a batch and are broadcast. The libraries differ in the exceptions they raise.
"""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, ...]


class ShapesDifferError(ValueError):
    """The operands have no product; the text says why, with their shapes."""


@dataclass(frozen=True)
class ProductShape:
    """A product of operands with ranks 1 to n.

    batch     the broadcast extents before the last two
    a_batch   those of a itself; empty for a matrix or a vector
    a_vector  a has rank 1: one row, which the result does not have
    """

    batch: Shape
    a_batch: Shape
    b_batch: Shape
    m: int
    n: int
    k: int
    a_vector: bool
    b_vector: bool

    @property
    def result(self) -> Shape:
        rows = () if self.a_vector else (self.m,)
        return (*self.batch, *rows, *(() if self.b_vector else (self.n,)))

    @property
    def folds(self) -> bool:
        """b is one matrix for all of a: the batch of a is more rows of one product."""
        return (
            bool(self.a_batch)
            and all(extent == 1 for extent in self.b_batch)
            and len(self.b_batch) <= len(self.a_batch)
        )


def product_shape(a: Shape, b: Shape) -> ProductShape:
    """The product of operands with shapes ``a`` and ``b``; raises ``ShapesDifferError``."""
    if not a or not b:
        raise ShapesDifferError(f"a has shape {a} and b {b}: a matrix product needs at least one extent of each")
    a_vector, b_vector = len(a) == 1, len(b) == 1
    m, k = (1, a[0]) if a_vector else a[-2:]
    depth, n = (b[0], 1) if b_vector else b[-2:]
    if k != depth:
        raise ShapesDifferError(f"a has shape {a} and b {b}: the inner extents {k} and {depth} differ")
    a_batch, b_batch = a[:-2], b[:-2]
    batch = broadcast(a_batch, b_batch)
    if batch is None:
        raise ShapesDifferError(f"a has shape {a} and b {b}: the batches {a_batch} and {b_batch} cannot be broadcast")
    return ProductShape(batch, a_batch, b_batch, m, n, k, a_vector, b_vector)


def broadcast(one: Shape, other: Shape) -> Shape | None:
    """The common shape of two; None where an extent differs and neither is 1."""
    rank = max(len(one), len(other))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True)
    found = []
    for x, y in pairs:
        if x != y and 1 not in (x, y):
            return None
        found.append(y if x == 1 else x)
    return tuple(found)
