"""Products of plain tensors that were computed before: found by shapes, strides and types, before anything is checked.

    key ─► CachedCall ─► output, stream, launch

What is looked up has passed every check that depends on the key; the caller has made sure that no mode is active.
Whatever is not found, or cannot have a key, goes the long way, which leaves its call here (``keep``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gemmsmith.call.cache import CACHE
from gemmsmith.call.gemm_gpu import CachedCall, allocator
from gemmsmith.frameworks.torch.launch import cached_product
from gemmsmith.kernel.slots import ALIGNMENT_CLASS

_LOW = ALIGNMENT_CLASS - 1
Options = tuple[Any, ...]
"""out_dtype, precision, deterministic, device"""


def product_key(a: Tensor, b: Tensor, options: Options) -> tuple[Any, ...]:
    """Everything that a · b depends on except addresses beyond their alignment."""
    return (a.shape, b.shape, a.stride(), b.stride(), a.dtype, b.dtype, a.device, b.device, a.data_ptr() & _LOW,
            b.data_ptr() & _LOW, options)  # fmt: skip


def linear_key(x: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> tuple[Any, ...]:
    """The same for x · weightᵀ + bias."""
    key = ("linear", x.shape, weight.shape, x.stride(), weight.stride(), x.dtype, weight.dtype, x.device,
           weight.device, x.data_ptr() & _LOW, weight.data_ptr() & _LOW, options)  # fmt: skip
    if bias is None:
        return key
    return (*key, bias.shape, bias.stride(), bias.dtype, bias.device, bias.data_ptr() & _LOW)


found = CACHE.peek


def put(key: tuple[Any, ...], call: CachedCall) -> None:
    CACHE.put(key, call)


def run(call: CachedCall, a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """The result of a call that was found."""
    out = call.new_output()
    addresses = (a.data_ptr(), b.data_ptr(), out.data_ptr(), 0 if bias is None else bias.data_ptr())
    if call.new_workspace is None:
        call.executor.run(addresses, 0, call.stream(), None)
    else:
        held = call.new_workspace()
        call.executor.run(addresses, held.data_ptr(), call.stream(), None)
    return out


def keep(key: tuple[Any, ...], a: Tensor, b: Tensor, options: Options, bias: Tensor | None, result: Tensor) -> None:
    """Remember the call that computed ``result`` from tensors on a GPU, where nothing was copied or converted."""
    if not a.is_cuda or result.dtype is torch.int8 or not math.prod(result.shape):
        return
    rows = a
    if a.dim() != b.dim():
        if not a.is_contiguous() or b.dim() != 2:
            return
        rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
    call = cached_product(rows, b, result.dtype, options[1], options[2], bias)
    if call is not None:
        shape = tuple(result.shape)
        CACHE.put(key, replace(call, shape=shape, new_output=allocator(torch, shape, result.dtype, result.device)))
