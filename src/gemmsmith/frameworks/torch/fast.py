"""Products of plain tensors that were computed before: found by shapes, strides and types, before anything is checked.

    key ─► CachedCall ─► output, stream, launch

What is looked up has passed every check that depends on the key; the caller has made sure that no mode is active.
Whatever is not found, or cannot have a key, goes the long way, which leaves its call here (``keep``).

A key costs as much as a launch. So calls that were found are also kept by the identity of their second operand, mostly
a weight, with a guard of torch's compiler (``hinted``): one call in C++ compares types, shapes, strides, devices,
dispatch keys (which tell modes, transforms, autocast and negated views) and whether gradients are recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
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

_HINTS = ("hints of torch",)
_MOST_HINTS, _MOST_PER_OPERAND = 1024, 4  # training and evaluation, with two numbers of rows
_Guards: Any = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "TensorGuards", None)


@dataclass(frozen=True, slots=True)
class Hint:
    """A call that was found, for tensors that pass ``check``.

    recorded   gradients are recorded
    alignment  of the operands' addresses, by the bits below ALIGNMENT_CLASS
    """

    check: Callable[..., bool]
    call: CachedCall
    recorded: bool
    alignment: tuple[int, ...]


def hinted(name: Any, *operands: Tensor) -> Hint | None:
    """The hint for these operands, None where there is none. ``name`` is made of the function, its options and the
    identity of an operand, which may be another object by now: the guard decides."""
    hints = found(_HINTS)
    if hints is None:
        return None
    for hint in hints.get(name, ()):
        if hint.check(*operands):
            for tensor, low in zip(operands, hint.alignment, strict=True):
                if tensor.data_ptr() & _LOW != low:
                    break
            else:
                return hint  # type: ignore[no-any-return]
    return None


def remember(name: Any, call: CachedCall, recorded: bool, *operands: Tensor) -> None:
    """Keep a hint. No mode, transform or autocast may be active."""
    if _Guards is None:
        return
    hints: dict[Any, tuple[Hint, ...]] | None = found(_HINTS)
    if hints is None or len(hints) >= _MOST_HINTS:
        hints = {}
        CACHE.put(_HINTS, hints)
    guard = _Guards(*operands, dynamic_dims_sizes=None, dynamic_dims_strides=None)
    hint = Hint(guard.check, call, recorded, tuple(each.data_ptr() & _LOW for each in operands))
    hints[name] = (hint, *hints.get(name, ())[: _MOST_PER_OPERAND - 1])


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
