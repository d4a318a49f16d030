"""``gemm`` on a GPU: one product, launched now.

    operands ─► looked at, checked, chosen for, prepared ─► output, workspace ─► launch
                └─ kept, for torch tensors like these ──────────────────────┘

All before the launch takes ten times as long as it does, and says the same of tensors that differ in address and values
alone. So it is kept: by types, shapes, strides, device and how addresses are aligned, and by all other arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.call.plan import copy_c, on_its_gpu
from gemmsmith.call.request import Request, place
from gemmsmith.choose.choice import times_forgotten
from gemmsmith.errors import DTypeError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import INT8, Problem
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.run.tensors import current_stream, empty_like, matrix

_ALIGNED = 256  # bytes: beyond that no kernel asks how an address is aligned
_MOST_KEPT = 1024
Key = tuple[Any, ...]
_SEEN: dict[Key, Seen] = {}
# Launches by problem, choice, stream and addresses, with what an id in the key stood for.
_BOUND: dict[Key, tuple[tuple[Problem, KernelSpec, Config], Callable[[int], None]]] = {}


@dataclass(frozen=True)
class Seen:
    """What is known of a product before its tensors are: its operands have no owners and no addresses."""

    request: Request
    device: CudaDevice
    workspace: int  # bytes
    output: tuple[Any, ...]  # shape and torch's type
    sizes: tuple[int, ...]  # bytes of A, B and the bias


def alike(a: Any, b: Any, bias: Any, out: Any, *others: Any) -> Key | None:
    """A key that is the same for torch tensors like these; None for anything else, which is looked at anew."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    key = [times_forgotten(), *others, *map(type, others)]  # types, because True equals 1 and is no number here
    for value in (a, b, bias, out):
        if value is None:
            key.append(None)
        elif type(value) is not torch.Tensor or value.requires_grad or value.layout != torch.strided:
            return None
        else:
            key += (value.dtype, value.shape, value.stride(), value.device, value.data_ptr() % _ALIGNED)
    return tuple(key)


def launched_as_before(key: Key | None, a: Any, b: Any, bias: Any, out: Any) -> Any:
    """The result, where tensors like these have been multiplied before; else None."""
    try:
        seen = _SEEN.get(key) if key is not None else None
    except TypeError:  # an argument that is not hashable is no scalar and no name either: looking at it says so
        return None
    if seen is None:
        return None
    places = (a.data_ptr(), b.data_ptr(), 0 if bias is None else bias.data_ptr())
    if out is not None and _touches(out, zip(places, seen.sizes, strict=True)):
        return None
    torch = sys.modules["torch"]
    result = out if out is not None else torch.empty(seen.output[0], dtype=seen.output[1], device=a.device)
    addresses = Addresses(places[0], places[1], result.data_ptr(), places[2])
    stream = current_stream(a, seen.request.a.ordinal)
    with _workspace(seen.device, seen.workspace, a, stream) as workspace:
        start = _bound(seen.request, seen.device, addresses, workspace, stream)
        on_its_gpu(seen.device, partial(start, 0))()
    return result


def _touches(out: Any, places: Iterator[tuple[int, int]]) -> bool:
    """Whether ``out``, as far as it reaches, may overlap an operand; a closer look tells whether it does."""
    begin = out.data_ptr()
    reach = sum((extent - 1) * step for extent, step in zip(out.shape, out.stride(), strict=True)) + 1
    end = begin + reach * out.element_size()
    return any(begin < place + size and place < end for place, size in places)


def launched(asked: Request, key: Key | None = None) -> Any:
    """The result of what was asked for; with a ``key``, it is kept for tensors like these."""
    problem, a, bias = asked.problem, asked.a, asked.bias
    result = asked.out
    if result is None:
        result = matrix("out", empty_like(a.owner, asked.shape, problem.out_dtype))
    if asked.empty:
        return result.owner
    device = cuda_device(a.ordinal)
    stream = current_stream(a.owner, a.ordinal)
    addresses = Addresses(a.address, asked.b.address, result.address, bias.address if bias else 0)
    nbytes = workspace_bytes(asked.spec, asked.config, problem, addresses)
    with _workspace(device, nbytes, a.owner, stream) as workspace:
        start = _bound(asked, device, addresses, workspace, stream)
        # Nothing is written before all that can be refused has been.
        with device.current():
            if asked.c is not None and place(asked.c) != place(result):
                copy_c(device, problem, asked.c, result, stream)
            start(0)
    if key is not None:
        sizes = tuple(each.nbytes if each is not None else 0 for each in (a, asked.b, bias))
        if len(_SEEN) >= _MOST_KEPT:
            _SEEN.clear()
        _SEEN[key] = Seen(_without_owners(asked), device, nbytes, (asked.shape, result.owner.dtype), sizes)
    return result.owner


def _without_owners(asked: Request) -> Request:
    """What is kept must not keep tensors alive."""
    a, b, bias, out = (each and replace(each, owner=None) for each in (asked.a, asked.b, asked.bias, asked.out))
    assert a is not None
    assert b is not None
    return replace(asked, a=a, b=b, bias=bias, out=out)


def _bound(asked: Request, device: CudaDevice, addresses: Addresses, workspace: int,
           stream: int) -> Callable[[int], None]:  # fmt: skip
    """What launches a product at these addresses. A library's allocator gives the same ones again and again."""
    # Problems and choices are themselves kept, so that the same ones are the same objects; an id alone may be reused.
    mine = (asked.problem, asked.spec, asked.config)
    key = (*map(id, mine), stream, workspace, addresses)
    known, start = _BOUND.get(key, (None, None))
    if start is None or known is None or any(x is not y for x, y in zip(known, mine, strict=True)):
        steps = bind(device, asked.spec, asked.config, asked.problem, addresses, workspace)
        start = device.launcher([steps], stream)
        if asked.source != "given":
            if len(_BOUND) >= _MOST_KEPT:
                _BOUND.clear()
            _BOUND[key] = (mine, start)
    return start


@contextmanager
def _workspace(device: CudaDevice, nbytes: int, like: Any, stream: int) -> Iterator[int]:
    """The address of memory that ``stream`` may use until what is launched inside has ended; 0 where none is needed.

    It comes from the operand's own library where that allocates: its pool gives the memory to later work of the same
    stream only. The driver does the same for others.
    """
    if nbytes == 0:
        yield 0
        return
    try:
        owned = matrix("workspace", empty_like(like, (1, nbytes), INT8))
    except DTypeError:
        address = device.allocate_in_order(nbytes, stream)
        try:
            yield address
        finally:
            device.free_in_order(address, stream)
    else:
        yield owned.address
