"""The gradients of products, which are products again, with layouts of their own.

``mm`` and ``bmm`` are passed in: the functions of eager mode, or the operators while a graph is traced. Gradients have
the types of their operands; where the result is wider than they are, the incoming gradient is rounded to theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Product = Callable[[Tensor, Tensor], Tensor]
Pair = tuple[Tensor | None, Tensor | None]


def product_gradients(grad: Tensor, a: Tensor, b: Tensor, needs: tuple[bool, ...], product: Product) -> Pair:
    """Of a · b with rank 2 or 3: grad · bᵀ and aᵀ · grad."""
    grad = grad.to(a.dtype)
    return (product(grad, b.mT) if needs[0] else None, product(a.mT, grad) if needs[1] else None)


def linear_gradients(grad: Tensor, x: Tensor, weight: Tensor, needs: tuple[bool, ...],
                     mm: Product) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """Of x · weightᵀ + bias, where x has any rank: grad · weight, gradᵀ · x, and the sum over rows."""
    rows = grad.reshape(-1, weight.shape[0]).to(x.dtype)
    by_x = mm(rows, weight).reshape(x.shape) if needs[0] else None
    by_weight = mm(rows.transpose(0, 1), x.reshape(-1, weight.shape[1])) if needs[1] else None
    return by_x, by_weight, rows.sum(0) if needs[2] else None


def reduced(grad: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of something that was broadcast."""
    return grad if grad.shape == shape else grad.sum_to_size(shape)


def before_activation(grad: Tensor, activation: str, result: Tensor, value: Callable[[], Tensor]) -> Tensor:
    """The gradient at the input of an activation; ``value`` computes that input again, where the result does not
    determine the derivative."""
    if activation == "":
        return grad
    if activation == "relu":
        return grad * (result > 0)
    z = value()
    if activation == "gelu":
        slope = torch.special.ndtr(z) + z * torch.exp(-0.5 * z * z) * (2 * math.pi) ** -0.5
    else:
        share = torch.sigmoid(z)
        slope = share * (1 + z * (1 - share))
    return (grad * slope).to(grad.dtype)
