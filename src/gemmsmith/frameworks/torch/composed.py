"""``matmul`` of any ranks from products of rank 2 and 3, by views that torch differentiates."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gemmsmith.errors import TensorShapeError

Product = Callable[[Tensor, Tensor], Tensor]


def composed(a: Tensor, b: Tensor, mm: Product, bmm: Product) -> Tensor:
    """The product; ``mm`` is called with matrices, ``bmm`` with batches of rank 3."""
    check_shapes(a, b)
    if a.dim() == 2 and b.dim() == 2:
        return mm(a, b)
    if a.dim() == 1:
        return composed(a.unsqueeze(0), b, mm, bmm).squeeze(-1 if b.dim() == 1 else -2)
    if b.dim() == 1:
        return composed(a, b.unsqueeze(1), mm, bmm).squeeze(-1)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.dim() == 2:  # one matrix for all of a: its batch is more rows
        return mm(_rows(a), b).reshape(*a.shape[:-1], n)
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = 1
    for extent in batch:
        count = count * extent
    result = bmm(a.expand(*batch, m, k).reshape(count, m, k), b.expand(*batch, k, n).reshape(count, k, n))
    return result.reshape(*batch, m, n)


def _rows(a: Tensor) -> Tensor:
    count = 1
    for extent in a.shape[:-1]:
        count = count * extent
    return a.reshape(count, a.shape[-1])


def check_shapes(a: Tensor, b: Tensor) -> None:
    """Raise what torch raises, a RuntimeError, where there is no product."""
    if a.dim() == 0 or b.dim() == 0:
        raise TensorShapeError(f"a has shape {_shape(a)} and b {_shape(b)}: both need at least one dimension")
    depth = b.shape[0] if b.dim() == 1 else b.shape[-2]
    if a.shape[-1] != depth:
        raise TensorShapeError(
            f"a has shape {_shape(a)} and b {_shape(b)}: the inner extents {a.shape[-1]} and {depth} differ"
        )
    if a.dim() > 2 and b.dim() > 2:
        for x, y in zip(reversed(a.shape[:-2]), reversed(b.shape[:-2]), strict=False):
            if x != y and x != 1 and y != 1:
                raise TensorShapeError(f"a has shape {_shape(a)} and b {_shape(b)}: {x} and {y} cannot be broadcast")


def _shape(value: Tensor) -> tuple[int, ...]:
    return tuple(value.shape)
