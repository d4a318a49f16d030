"""What torch's FlopCounterMode counts for the operators: two operations for each product of two elements."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

Shape = tuple[int, ...]


def register() -> None:
    ops = torch.ops.gemmsmith
    for operator, count in ((ops.mm, _product), (ops.bmm, _product), (ops.gemm, _product), (ops.addmm, _addmm),
                            (ops.linear, _linear)):  # fmt: skip
        register_flop_formula(operator)(count)


def _product(a: Shape, b: Shape, *_others: Any, **_named: Any) -> int:
    """Of matrices and batches; one operand of gemm may be a matrix for the whole batch."""
    batch = max(math.prod(a[:-2]), math.prod(b[:-2]))
    return 2 * batch * a[-2] * a[-1] * b[-1]


def _addmm(_addend: Shape, a: Shape, b: Shape, *_others: Any, **_named: Any) -> int:
    return _product(a, b)


def _linear(x: Shape, weight: Shape, *_others: Any, **_named: Any) -> int:
    return 2 * math.prod(x) * weight[0]
