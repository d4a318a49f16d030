"""Arrays of pointers, one for each matrix of a batch, for kernels that take ``float** A`` as cublasSgemmBatched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import Addresses
from gemmsmith.problem import Problem
from gemmsmith.run.device import Device


@contextmanager
def pointer_tables(device: Device, signature: Signature, problem: Problem, matrices: Addresses) -> Iterator[Addresses]:
    """What the kernel is passed: the addresses of the matrices, or of tables of them, which are freed afterwards."""
    steps = (problem.stride_a * problem.dtype.itemsize, problem.stride_b * problem.dtype.itemsize,
             problem.stride_c * problem.out_dtype.itemsize, problem.stride_c * problem.out_dtype.itemsize)  # fmt: skip
    roles = ("A", "B", signature.output, "C" if signature.has("D") else "bias")
    passed: list[int] = []
    tables: list[int] = []
    try:
        for role, first, step in zip(roles, matrices, steps, strict=True):
            if not first or not signature.takes_table(role):
                passed.append(first)
                continue
            table = (np.uint64(first) + np.arange(problem.batch, dtype=np.uint64) * np.uint64(step)).view(np.uint8)
            passed.append(device.allocate(max(8, table.nbytes)))
            tables.append(passed[-1])
            device.write(passed[-1], table)
        yield Addresses(*passed)
    finally:
        for address in tables:
            device.free(address)
