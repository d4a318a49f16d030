"""The operators' kernels: what runs below autograd, for tensors of a GPU, or of the CPU on the simulator."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gemmsmith.errors import TensorShapeError
from gemmsmith.frameworks.torch.launch import full_gemm, product
from gemmsmith.frameworks.torch.types import check_operands, result_type


def mm(a: Tensor, b: Tensor, out_dtype: Any = None, precision: str = "", deterministic: bool = True,
       device: str = "") -> Tensor:  # fmt: skip
    """a · b, of matrices."""
    check_operands("torch.mm", a, b)
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise _no_product("mm", a, b)
    return typed_product(a, b, result_type(a.dtype, out_dtype), precision, deterministic, device)


def bmm(a: Tensor, b: Tensor, out_dtype: Any = None, precision: str = "", deterministic: bool = True,
        device: str = "") -> Tensor:  # fmt: skip
    """a · b, of batches of rank 3."""
    check_operands("torch.bmm", a, b)
    if a.dim() != 3 or b.dim() != 3 or a.shape[2] != b.shape[1] or a.shape[0] != b.shape[0]:
        raise _no_product("bmm", a, b)
    return typed_product(a, b, result_type(a.dtype, out_dtype), precision, deterministic, device)


def typed_product(a: Tensor, b: Tensor, found: torch.dtype, precision: str, deterministic: bool, device: str,
                  bias: Tensor | None = None) -> Tensor:  # fmt: skip
    """The product in the type of the result; int8 results wrap around, as torch's do."""
    if found is torch.int8:
        return product(a, b, torch.int32, precision, deterministic, device, None, bias).to(torch.int8)
    return product(a, b, found, precision, deterministic, device, None, bias)


def addmm(input: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1, out_dtype: Any = None,  # noqa: A002
          precision: str = "", deterministic: bool = True, device: str = "") -> Tensor:  # fmt: skip
    """beta · input + alpha · a · b; a row that is added to all rows is a bias of the kernel."""
    check_operands("torch.addmm", a, b, input)
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise _no_product("addmm", a, b)
    m, n, found = a.shape[0], b.shape[1], result_type(a.dtype, out_dtype)
    is_row = input.numel() == n and input.dim() <= 2 and input.shape[-1:] == (n,)
    if beta == 1 and is_row and m != 1 and found is input.dtype:
        if alpha == 1:
            return typed_product(a, b, found, precision, deterministic, device, input.reshape(-1))
        return full_gemm(a, b, None, alpha=float(alpha), bias=input.reshape(-1), out_dtype=found, precision=precision,
                         deterministic=deterministic, device=device)  # fmt: skip
    try:
        addend = input.expand(m, n)
    except RuntimeError:
        raise TensorShapeError(f"input has shape {tuple(input.shape)}, and the product {m}x{n}") from None
    if beta == 0:
        return full_gemm(a, b, None, alpha=float(alpha), out_dtype=found, precision=precision,
                         deterministic=deterministic, device=device)  # fmt: skip
    return full_gemm(a, b, addend.to(found).contiguous(), alpha=float(alpha), beta=float(beta), out_dtype=found,
                     precision=precision, deterministic=deterministic, device=device)  # fmt: skip


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: Any = None,  # noqa: A002
           precision: str = "", deterministic: bool = True, device: str = "") -> Tensor:  # fmt: skip
    """input · weightᵀ + bias, where the input has any rank."""
    check_operands("torch.nn.functional.linear", input, weight, *(() if bias is None else (bias,)))
    shape = input.shape
    if weight.dim() != 2 or not shape or shape[-1] != weight.shape[1]:
        raise _no_product("linear", input, weight)
    n = weight.shape[0]
    if bias is not None and bias.shape != (n,):
        raise TensorShapeError(f"bias has shape {tuple(bias.shape)}, and the weight {n} rows")
    found = result_type(input.dtype, out_dtype)
    rows = input if len(shape) == 2 else input.reshape(math.prod(shape[:-1]), shape[-1])
    offset = bias if bias is None or bias.dtype is found else bias.to(found)
    result = typed_product(rows, weight.mT, found, precision, deterministic, device, offset)
    return result if len(shape) == 2 else result.view(*shape[:-1], n)


def gemm(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: Any = 1, beta: Any = 0, bias: Tensor | None = None,
         activation: str = "", out_dtype: Any = None, precision: str = "", deterministic: bool = True,
         device: str = "") -> Tensor:  # fmt: skip
    """act(alpha · a · b + beta · c + bias) of ``gemmsmith.gemm``: fp32 unless ``out_dtype`` says otherwise."""
    check_operands("torch.matmul", a, b)
    return full_gemm(a, b, c if beta != 0 else None, alpha=alpha, beta=beta, bias=bias, activation=activation,
                     out_dtype=out_dtype or torch.float32, precision=precision, deterministic=deterministic,
                     device=device)  # fmt: skip


def _no_product(name: str, a: Tensor, b: Tensor) -> TensorShapeError:
    return TensorShapeError(f"{name} has no product of shapes {tuple(a.shape)} and {tuple(b.shape)}")
