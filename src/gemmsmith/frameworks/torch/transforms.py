"""Products under ``torch.func``: grad, vjp, jacrev and vmap, nested in any order.

torch does not differentiate an operator with Python gradients inside these transforms; it does so with an autograd
function that separates its context, whose rule for vmap torch derives from the operators' own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gemmsmith.frameworks.torch.gradients import linear_gradients, product_gradients

_Function: Any = torch.autograd.Function


@dataclass(frozen=True)
class _Options:
    """out_dtype, precision, deterministic, device: one leaf to torch's rules, which count a tuple's elements."""

    values: tuple[Any, ...]

    def later(self) -> _Options:
        """Of the gradients, in their operands' type."""
        return _Options((None, *self.values[1:]))


def mm(a: Tensor, b: Tensor, *options: Any) -> Tensor:
    return _Product.apply("mm", a, b, _Options(options))


def bmm(a: Tensor, b: Tensor, *options: Any) -> Tensor:
    return _Product.apply("bmm", a, b, _Options(options))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    return _Linear.apply(x, weight, bias, _Options(options))


def _sum(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other


class _Product(_Function):  # type: ignore[misc]
    generate_vmap_rule = True

    @staticmethod
    def forward(name: str, a: Tensor, b: Tensor, options: _Options) -> Tensor:
        return getattr(torch.ops.gemmsmith, name)(a, b, *options.values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        ctx.name, a, b, ctx.options = inputs
        ctx.save_for_backward(a, b)
        ctx.save_for_forward(a, b)

    @staticmethod
    def jvp(ctx: Any, _name: None, by_a: Tensor | None, by_b: Tensor | None, _options: None) -> Tensor:
        a, b = ctx.saved_tensors
        return _sum(None if by_a is None else _Product.apply(ctx.name, by_a, b, ctx.options),
                    None if by_b is None else _Product.apply(ctx.name, a, by_b, ctx.options))  # fmt: skip

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b = ctx.saved_tensors
        later = ctx.options.later()
        needs = (True, True)  # the rule for vmap loses which are needed
        return (None, *product_gradients(grad, a, b, needs, lambda x, y: _Product.apply(ctx.name, x, y, later)), None)


class _Linear(_Function):  # type: ignore[misc]
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, options: _Options) -> Tensor:
        return torch.ops.gemmsmith.linear(x, weight, bias, *options.values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        x, weight, bias, ctx.options = inputs
        ctx.has_bias = bias is not None
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)

    @staticmethod
    def jvp(ctx: Any, by_x: Tensor | None, by_weight: Tensor | None, by_bias: Tensor | None, _options: None) -> Tensor:
        x, weight = ctx.saved_tensors
        found = _sum(None if by_x is None else linear(by_x, weight, None, *ctx.options.values),
                     None if by_weight is None else linear(x, by_weight, None, *ctx.options.values))  # fmt: skip
        return found if by_bias is None else found + by_bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        later = ctx.options.later().values
        needs = (True, True, ctx.has_bias)
        return (*linear_gradients(grad, x, weight, needs, lambda p, q: mm(p, q, *later)), None)
