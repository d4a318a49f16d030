"""vmap over the operators: a batch more in front of the operands, which is a product of higher rank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def register(library: torch.library.Library) -> None:
    for name, rule in RULES.items():
        torch.library.register_vmap(f"gemmsmith::{name}", rule, lib=library)


def _product(_info: Any, in_dims: tuple[Any, ...], a: Tensor, b: Tensor, *options: Any) -> tuple[Tensor, int]:
    """mm and bmm."""
    return _matmul(_front(a, in_dims[0]), _front(b, in_dims[1]), options), 0


def _addmm(_info: Any, in_dims: tuple[Any, ...], addend: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1,
           *options: Any) -> tuple[Tensor, int]:  # fmt: skip
    result = _matmul(_front(a, in_dims[1]), _front(b, in_dims[2]), options)
    if in_dims[0] is not None:
        addend = addend.movedim(in_dims[0], 0)
        while addend.dim() < 3:
            addend = addend.unsqueeze(1)
    batch = max(each.shape[0] for each in (result, addend) if each.dim() == 3)
    return (alpha * result + beta * addend).expand(batch, *result.shape[-2:]), 0


def _linear(_info: Any, in_dims: tuple[Any, ...], x: Tensor, weight: Tensor, bias: Tensor | None = None,
            *options: Any) -> tuple[Tensor, int]:  # fmt: skip
    if in_dims[1] is None and (bias is None or in_dims[2] is None):
        return torch.ops.gemmsmith.linear(x.movedim(in_dims[0], 0), weight, bias, *options), 0
    size = _info.batch_size
    x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x.expand(size, *x.shape)
    weight = _front(weight, in_dims[1])
    rows = x.reshape(size, -1, x.shape[-1])
    result = _matmul(rows, weight.mT, options).reshape(*x.shape[:-1], weight.shape[-2])
    if bias is not None:
        offset = _front(bias, in_dims[2])
        if in_dims[2] is not None:
            offset = offset.reshape(size, *[1] * (result.dim() - 2), -1)
        result = result + offset
    return result, 0


def _gemm(info: Any, in_dims: tuple[Any, ...], a: Tensor, b: Tensor, c: Tensor | None = None, alpha: Any = 1,
          beta: Any = 0, bias: Tensor | None = None, activation: str = "", out_dtype: Any = None,
          *options: Any) -> tuple[Tensor, int]:  # fmt: skip
    rank = max(a.dim() - (in_dims[0] is not None), b.dim() - (in_dims[1] is not None))
    kind = out_dtype or torch.float32
    result = _matmul(_ranked(a, in_dims[0], rank), _ranked(b, in_dims[1], rank), (kind, *options))
    result = result if alpha == 1 else alpha * result
    if c is not None and beta != 0:
        result = result + beta * _front(c, in_dims[2])
    if bias is not None:
        result = result + _ranked(bias, in_dims[5], rank)
    result = result.expand(info.batch_size, *result.shape[-rank:])
    functions: dict[str, Any] = {"relu": torch.relu, "gelu": torch.nn.functional.gelu,
                                 "silu": torch.nn.functional.silu}  # fmt: skip
    return functions[activation](result) if activation else result, 0


RULES = {"mm": _product, "bmm": _product, "addmm": _addmm, "linear": _linear, "gemm": _gemm}


def _front(value: Tensor, dim: int | None) -> Tensor:
    return value if dim is None else value.movedim(dim, 0)


def _ranked(value: Tensor, dim: int | None, rank: int) -> Tensor:
    """With the batch in front and ``rank`` dimensions behind it."""
    if dim is None:
        return value
    value = value.movedim(dim, 0)
    return value.reshape(value.shape[0], *[1] * (rank + 1 - value.dim()), *value.shape[1:])


def _matmul(a: Tensor, b: Tensor, options: tuple[Any, ...]) -> Tensor:
    from gemmsmith.frameworks.torch.composed import composed

    ops = torch.ops.gemmsmith
    return composed(a, b, lambda x, y: ops.mm(x, y, *options), lambda x, y: ops.bmm(x, y, *options))
