"""A product of row-major arrays given by address: what a custom call knows of its operands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gemmsmith.call.api import plan_request
from gemmsmith.call.cache import CACHE
from gemmsmith.call.gpu_executor import GpuExecutor, executor_for
from gemmsmith.call.request import Operands
from gemmsmith.kernel.slots import ALIGNMENT_CLASS
from gemmsmith.problem import DTYPES
from gemmsmith.run.tensors import Matrix, dtype_name


@dataclass(frozen=True)
class Operand:
    """A contiguous array on a GPU: address, shape, and the library's name of its type."""

    address: int
    shape: tuple[int, ...]
    dtype: str


def launch(a: Operand, b: Operand, out: Operand, trans_a: bool, trans_b: bool, precision: str, deterministic: bool,
           ordinal: int, stream: int, *, wait: bool = False) -> None:  # fmt: skip
    """op(a) · op(b) into ``out``, on ``stream``; extents before the last two are a batch, the same for all."""
    if not math.prod(out.shape):
        return
    key = ("addresses", a.shape, b.shape, a.dtype, out.dtype, trans_a, trans_b, precision, deterministic, ordinal,
           *(each.address % ALIGNMENT_CLASS for each in (a, b, out)))  # fmt: skip
    executor: GpuExecutor | None = CACHE.get(key)
    if executor is None:
        left, right = _matrix("a", a, trans_a, ordinal), _matrix("b", b, trans_b, ordinal)
        target = _matrix("out", out, False, ordinal)
        request = plan_request(left, right, target, precision, deterministic)
        executor = executor_for(request, Operands(left, right, None, None, target))
        CACHE.put(key, executor)
    device, nbytes = executor.device, executor.workspace_bytes
    workspace = device.allocate_in_order(nbytes, stream) if nbytes else 0
    try:
        executor.run((a.address, b.address, out.address, 0), workspace, stream, None)
    finally:
        if nbytes:
            device.free_in_order(workspace, stream)
    if wait:
        device.wait_for(stream)


def _matrix(name: str, operand: Operand, transposed: bool, ordinal: int) -> Matrix:
    *batch, rows, cols = operand.shape
    kind: Any = DTYPES[dtype_name(operand.dtype)]
    leading = max(1, cols)
    count = math.prod(batch) if batch else None
    stride = rows * leading if count is not None and count > 1 else 0
    if transposed:
        rows, cols = cols, rows
    return Matrix(name, operand, operand.address, rows, cols, leading, transposed, kind, ordinal, count, stride)
