"""From tensors to launches, below autograd: one product of rank 2 or 3, at little cost to the host.

    key of shapes, strides, types ─► CachedCall ─► output, stream, launches       (call/gemm_gpu.py)

A tensor whose strides no kernel takes is copied first. Tensors of the CPU are computed on the simulator.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from gemmsmith.call.api import gemm as plain_gemm
from gemmsmith.call.cache import CACHE
from gemmsmith.call.gemm_gpu import CachedCall, relaunch
from gemmsmith.call.key import call_key, options_key
from gemmsmith.frameworks.torch.types import check_device
from gemmsmith.kernel.slots import ALIGNMENT_CLASS
from gemmsmith.run.tensors import has_kernel_layout

_LOW = ALIGNMENT_CLASS - 1


def product(a: Tensor, b: Tensor, out_dtype: torch.dtype, precision: str = "", deterministic: bool = True,
            device: str = "", out: Tensor | None = None, bias: Tensor | None = None) -> Tensor:  # fmt: skip
    """a · b + bias, of tensors with rank 2 or 3 that were checked; records no gradients."""
    if not a.is_cuda or device:
        return _on_cpu(a, b, out_dtype, precision, deterministic, device, out, bias)
    key = _key(a, b, out_dtype, precision, deterministic, out, bias)
    call: CachedCall | None = CACHE.get(key)
    if call is not None:
        beside, target = (0 if each is None else each.data_ptr() for each in (bias, out))
        result = relaunch(call, a.data_ptr(), b.data_ptr(), 0, beside, target, out)
        if result is not None:
            return result
    return _first(key, a, b, out_dtype, precision, deterministic, out, bias)


def cached_product(a: Tensor, b: Tensor, out_dtype: torch.dtype, precision: str, deterministic: bool,
                   bias: Tensor | None) -> CachedCall | None:  # fmt: skip
    """The call that ``product`` made for such tensors, unless it had to copy some of them."""
    found: CachedCall | None = CACHE.get(_key(a, b, out_dtype, precision, deterministic, None, bias))
    return found


def _key(a: Tensor, b: Tensor, out_dtype: torch.dtype, precision: str, deterministic: bool, out: Tensor | None,
         bias: Tensor | None) -> tuple[Any, ...]:  # fmt: skip
    key: tuple[Any, ...] = (out_dtype, precision, deterministic, a.dtype, a.shape, a.stride(), b.shape, b.stride(),
                            a.data_ptr() & _LOW, b.data_ptr() & _LOW, a.device)  # fmt: skip
    if bias is not None:
        key += ("bias", bias.data_ptr() & _LOW, bias.shape, bias.stride(), bias.dtype)
    if out is not None:
        key += ("out", out.data_ptr() & _LOW, out.shape, out.stride(), out.dtype)
    return key


def _first(key: tuple[Any, ...], a: Tensor, b: Tensor, out_dtype: torch.dtype, precision: str, deterministic: bool,
           out: Tensor | None, bias: Tensor | None) -> Tensor:  # fmt: skip
    """The first call with this key: checked, chosen, compiled; the next ones find it under ``key``."""
    with torch.no_grad():
        left, right = kernel_layout(a), kernel_layout(b)
        offset = None if bias is None else bias.contiguous()
        result: Tensor = plain_gemm(left, right, bias=offset, out_dtype=out_dtype, out=out, precision=precision,
                                    deterministic=deterministic)  # fmt: skip
        if left is a and right is b and offset is bias:
            options = options_key(1, 0, "", "", out_dtype, precision, deterministic, None, None)
            known, _ = call_key((a, b, None, bias, out), options or ())
            call = CACHE.get(known)
            if call is not None:
                CACHE.put(key, call)
    return result


def kernel_layout(value: Tensor) -> Tensor:
    """The tensor itself where kernels take its strides; else a copy."""
    return value if has_kernel_layout(tuple(value.shape), value.stride()) else value.contiguous()


def full_gemm(a: Tensor, b: Tensor, c: Tensor | None, **options: Any) -> Tensor:
    """``gemm`` with all its options, below autograd."""
    device = options.pop("device", "")
    with torch.no_grad():
        tensors = {"a": kernel_layout(a), "b": kernel_layout(b)}
        if c is not None:
            tensors["c"] = c if c.is_contiguous() else c.contiguous()
        bias = options.pop("bias", None)
        if bias is not None:
            tensors["bias"] = bias.contiguous()
        check_device(a, device)
        if a.is_cuda:
            result: Tensor = plain_gemm(**tensors, **options)
            return result
        arrays: dict[str, Any] = {name: to_numpy(value) for name, value in tensors.items()}
        return from_numpy(plain_gemm(**arrays, **options))


def _on_cpu(a: Tensor, b: Tensor, out_dtype: torch.dtype, precision: str, deterministic: bool, device: str,
            out: Tensor | None, bias: Tensor | None) -> Tensor:  # fmt: skip
    result = full_gemm(a, b, None, bias=bias, out_dtype=out_dtype, precision=precision, deterministic=deterministic,
                       device=device)  # fmt: skip
    return result if out is None else out.copy_(result)


def to_numpy(value: Tensor) -> np.ndarray[Any, Any]:
    """A tensor of the CPU as an array of the same elements; NumPy has no bfloat16 of its own."""
    value = value.detach()
    is_bf16 = value.dtype is torch.bfloat16
    found: np.ndarray[Any, Any] = value.view(torch.int16).numpy() if is_bf16 else value.numpy()
    return found.view(ml_dtypes.bfloat16) if is_bf16 else found


def from_numpy(value: np.ndarray[Any, Any]) -> Tensor:
    """The reverse of ``to_numpy``."""
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)
