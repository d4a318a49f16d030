"""Products of plain tensors that were computed before: found by shapes, strides and types, before anything is checked.

    key ─► CachedCall ─► output, stream, launch

What is looked up has passed every check that depends on the key; the caller has made sure that no mode is active.
Whatever is not found, or cannot have a key, goes the long way, which leaves its call here (``keep``).

A key costs as much as a launch. So calls that were found are also kept by the identity of their second operand, mostly
a weight, with a guard of torch's compiler (``Hint``): one call in C++ compares types, shapes, strides, devices,
dispatch keys (which tell modes, transforms, autocast and negated views) and whether gradients are recorded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from threading import get_ident
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gemmsmith.call.cache import CACHE
from gemmsmith.call.gemm_gpu import CachedCall, allocator, relaunch
from gemmsmith.errors import LaunchError
from gemmsmith.frameworks.torch.launch import cached_product
from gemmsmith.kernel.slots import ALIGNMENT_CLASS

LOW = ALIGNMENT_CLASS - 1
_DispatchMode: Any = TorchDispatchMode
Recorded = Callable[..., Tensor]
Options = tuple[Any, ...]
"""out_dtype, precision, deterministic, device"""


def product_key(a: Tensor, b: Tensor, options: Options) -> tuple[Any, ...]:
    """Everything that a · b depends on except addresses beyond their alignment."""
    return (a.shape, b.shape, a.stride(), b.stride(), a.dtype, b.dtype, a.device, b.device, a.data_ptr() & LOW,
            b.data_ptr() & LOW, options)  # fmt: skip


def linear_key(x: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> tuple[Any, ...]:
    """The same for x · weightᵀ + bias."""
    key = ("linear", x.shape, weight.shape, x.stride(), weight.stride(), x.dtype, weight.dtype, x.device,
           weight.device, x.data_ptr() & LOW, weight.data_ptr() & LOW, options)  # fmt: skip
    if bias is None:
        return key
    return (*key, bias.shape, bias.stride(), bias.dtype, bias.device, bias.data_ptr() & LOW)


found = CACHE.peek


hints = CACHE.hints
_Guards: Any = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "TensorGuards", None)


@dataclass(frozen=True, slots=True)
class Hint:
    """A call that was found, for tensors that pass ``check`` and are aligned as those it was found for.

    ``hints(name)`` has those of a name: the function, its options, whether gradients are enabled, and the identity of
    an operand, which may be another object by now. ``recorded`` computes it from the operands and ``call`` where
    gradients are recorded; else None. ``check`` ends the process where a tensor is nested: ask ``is_nested`` first.
    """

    check: Callable[..., bool]
    call: CachedCall
    recorded: Recorded | None
    a_low: int
    b_low: int
    other_low: int


def remember(name: Any, call: CachedCall, recorded: Recorded | None, *operands: Tensor,
             given: tuple[Tensor, ...] = ()) -> None:  # fmt: skip
    """Keep a hint for two or three operands. No mode or transform may be active. ``given``: what autocast converted to
    the operands, if it is active; then the type that it converts to is part of the name."""
    if not _guards_can_tell() or any(each.is_neg() for each in (*given, *operands)):
        return
    lows = [each.data_ptr() & LOW for each in operands]
    CACHE.add_hint(name, Hint(_guard(*(given or operands)), call, recorded, *lows, *[0] * (3 - len(lows))))


def _guard(*operands: Tensor) -> Callable[..., bool]:
    found: Callable[..., bool] = _Guards(*operands, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    return found


@cache
def _guards_can_tell() -> bool:
    """Whether this torch's guards exist and tell apart all that hints rely on."""
    if _Guards is None:
        return False

    def under_vmap(_row: Tensor) -> Tensor:
        seen.append(check(sample))
        return _row

    with torch.inference_mode(False), torch.autocast("cpu", enabled=False):
        sample = torch.zeros(2, 3)
        check, seen = _guard(sample), []
        others = (torch._neg_view(sample), sample.mT, sample[:, :2], sample.half(), torch.zeros(2, 3, device="meta"),
                  torch.zeros(2, 3, requires_grad=True), torch.nn.Parameter(sample, requires_grad=False))  # fmt: skip
        seen += [check(each) for each in others]
        with torch.autocast("cpu", torch.bfloat16):
            seen.append(check(sample))
        with _NoMode():
            seen.append(check(sample))
        torch.vmap(under_vmap)(torch.zeros(2, 3))
        return check(sample) and not any(seen)


class _NoMode(_DispatchMode):  # type: ignore[misc]
    """A dispatch mode that is never called."""


def put(key: tuple[Any, ...], call: CachedCall) -> None:
    CACHE.put(key, call)


def run(call: CachedCall, a: int, b: int, bias: int = 0) -> Tensor:
    """The result of a call that was found, for operands at these addresses."""
    out: Tensor = call.new_output()
    start = call.armed.get(get_ident())
    if call.new_workspace is None:
        workspace, held = 0, None
    else:
        held = call.new_workspace()
        workspace = held.data_ptr()
    if start is not None:
        try:
            start(a, b, out.data_ptr(), bias, workspace, call.stream())
        except LaunchError:  # this thread has not used the GPU yet
            pass
        else:
            return out
    call.executor.run((a, b, out.data_ptr(), bias), workspace, call.stream(), None)
    return out


def run_into(call: CachedCall, a: int, b: int, target: int, out: Tensor) -> Tensor | None:
    """The same into ``out``, at ``target``; None where it may overlap an operand: the full check decides."""
    end = target + call.out_bytes
    if (target < a + call.a_bytes and a < end) or (target < b + call.b_bytes and b < end):
        return None
    start = call.armed.get(get_ident())
    if start is None or call.new_workspace is not None:
        found: Tensor | None = relaunch(call, a, b, 0, 0, target, out)
        return found
    try:
        start(a, b, target, 0, 0, call.stream())
    except LaunchError:
        call.executor.run((a, b, target, 0), 0, call.stream(), None)
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
