"""``gemm`` on a GPU: a cache of calls under the call key.

    call key ─► CachedCall ─► output, workspace, stream ─► launches at these addresses

Setup costs ten times the launch and depends only on metadata, so it is cached: a repeated call reads the metadata of
its tensors, allocates what it must, and launches.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gemmsmith.call.armed import StartAt
from gemmsmith.call.cache import CACHE
from gemmsmith.call.gpu_executor import GpuExecutor, executor_for, stream_workspace
from gemmsmith.call.key import Key
from gemmsmith.call.request import Operands, Request
from gemmsmith.choose.choice import STAND_IN
from gemmsmith.run.cuda import device_count
from gemmsmith.run.tensors import Matrix, empty_like, matrix, stream_reader


@dataclass(frozen=True, slots=True)
class CachedCall:
    """All that is known of a call before its tensors are.

    armed          the executor's functions that start its launches, by thread
    shape          of the result
    stream         reads torch's current stream
    new_output     allocates the result, where no ``out`` is passed
    new_workspace  None where no workspace is needed
    c_layout       leading dimension and batch stride of C, where it is read
    c_like_out     C has the output's layout, so it may be the output itself
    """

    executor: GpuExecutor
    armed: dict[int, StartAt]
    shape: tuple[int, ...]
    stream: Callable[[], int]
    new_output: Callable[[], Any]
    new_workspace: Callable[[], Any] | None
    a_bytes: int
    b_bytes: int
    c_bytes: int
    bias_bytes: int
    out_bytes: int
    c_layout: tuple[int, int] | None
    c_like_out: bool


def launch_cached(key: Key, addresses: list[int], out: Any) -> Any:
    """The result, where a call with this key has been made before; else None."""
    call: CachedCall | None = CACHE.get(key)
    if call is None:
        return None
    a, b, c, bias, target = addresses
    return relaunch(call, a, b, c, bias, target, out)


def relaunch(call: CachedCall, a: int, b: int, c: int, bias: int, target: int, out: Any) -> Any:
    """The result of a call at these addresses; None where ``out`` may overlap an operand."""
    copied = None
    if call.c_layout is not None and not (c == target and call.c_like_out):
        copied = (c, *call.c_layout)
    if out is None:
        out = call.new_output()
        target = out.data_ptr()
    else:
        end = target + call.out_bytes
        if (
            (target < a + call.a_bytes and a < end)
            or (target < b + call.b_bytes and b < end)
            or (target < bias + call.bias_bytes and bias < end)
            or (copied is not None and target < c + call.c_bytes and c < end)
        ):
            return None  # it may overlap an operand: the full check decides
    workspace, held = 0, None
    if call.new_workspace is not None:
        held = call.new_workspace()
        workspace = held.data_ptr()
    call.executor.run((a, b, target, bias), workspace, call.stream(), copied)
    return out


def launch(request: Request, key: Key = ()) -> Any:
    """The result of a request; with a ``key``, the call is cached under it."""
    a, problem = request.a, request.problem
    out = request.out
    if out is None:
        out = matrix("out", empty_like(a.owner, request.shape, problem.out_dtype))
    if request.empty:
        return out.owner
    operands = Operands(a, request.b, request.c, request.bias, out)
    executor = executor_for(request, operands)
    read_stream = stream_reader(a.owner, a.ordinal)
    stream = read_stream()
    with stream_workspace(executor.device, executor.workspace_bytes, a.owner, stream) as workspace:
        # Nothing is written before everything that can be refused has been.
        if request.spec.is_rung:
            executor.run(operands.addresses, workspace, stream, operands.copied_c)
        else:
            executor.resolved(operands.addresses, workspace, stream, operands.copied_c)()
    if key and request.spec.is_rung and request.source != STAND_IN:
        CACHE.put(key, _cached_call(request, operands, executor, read_stream))
    return out.owner


def _cached_call(request: Request, operands: Operands, executor: GpuExecutor,
                 read_stream: Callable[[], int]) -> CachedCall:  # fmt: skip
    """Of torch tensors, since only these have a key."""
    torch, out, c = sys.modules["torch"], operands.out, operands.c
    device = out.owner.device
    new_workspace = None
    if executor.workspace_bytes:
        new_workspace = allocator(torch, (1, executor.workspace_bytes), torch.int8, device)
    return CachedCall(
        executor=executor,
        armed=executor.armed,
        shape=request.shape,
        stream=read_stream,
        new_output=allocator(torch, request.shape, out.owner.dtype, device),
        new_workspace=new_workspace,
        a_bytes=operands.a.nbytes,
        b_bytes=operands.b.nbytes,
        c_bytes=_nbytes(c),
        bias_bytes=_nbytes(operands.bias),
        out_bytes=out.nbytes,
        c_layout=(c.leading, c.stride) if c is not None else None,
        c_like_out=c is not None and (c.leading, c.stride) == (out.leading, out.stride),
    )


def allocator(torch: Any, shape: tuple[int, ...], dtype: Any, device: Any) -> Callable[[], Any]:
    """A function that allocates a tensor on a GPU.

    torch's own generated code allocates through ``_empty_strided_cuda``, on the current GPU, at a third of the cost of
    ``torch.empty``.
    """
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    fast = getattr(guards, "_empty_strided_cuda", None)
    if fast is None or device_count() != 1:
        return partial(torch.empty, shape, dtype=dtype, device=device)
    strides = tuple(math.prod(max(1, extent) for extent in shape[i + 1 :]) for i in range(len(shape)))
    return partial(fast, shape, strides, dtype)


def _nbytes(operand: Matrix | None) -> int:
    return operand.nbytes if operand is not None else 0
