"""A, B and C of a product as its author has them: M × K, K × N and M × N, whatever their layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import DType, Problem
from gemmsmith.trace.recording.device import Shape, flat

_SWAPPED = {"A": "B", "B": "A"}


def is_column_major(spec: KernelSpec) -> bool:
    """Whether the kernel is a user's for column-major matrices. Its problem is then the transposed, row-major one."""
    return not spec.is_rung and spec.signature.column_major


def product_shapes(
    spec: KernelSpec, problem: Problem, at: Addresses, named: Callable[[str], str]
) -> Iterator[tuple[int, Shape]]:
    """Where each matrix is, and how it is named and laid out; A before B before C."""
    swapped = is_column_major(spec)

    def matrix(address: int, name: str, role: str, rows: int, columns: int, leading: int, transposed: bool, kind: DType,
               stride: int) -> tuple[int, Shape]:  # fmt: skip
        nbytes = ((max(1, problem.batch) - 1) * stride + (columns if transposed else rows) * leading) * kind.itemsize
        steps = (1, leading) if transposed else (leading, 1)
        if swapped:
            rows, columns, steps, role = columns, rows, (steps[1], steps[0]), _SWAPPED.get(role, role)
        return address, Shape(named(name), rows, columns, *steps, kind.itemsize, kind.name, role, nbytes=nbytes)

    a = matrix(at.a, "A", "A", problem.m, problem.k, problem.lda, problem.trans_a, problem.dtype, problem.stride_a)
    b = matrix(at.b, "B", "B", problem.k, problem.n, problem.ldb, problem.trans_b, problem.dtype, problem.stride_b)
    outs = [(spec.signature.output, at.c, "C")]
    if spec.signature.has("D") and at.bias:  # D is the output, and C is added to it
        outs.append(("C", at.bias, ""))
    results = [matrix(address, name, role, problem.m, problem.n, problem.ldc, False, problem.out_dtype,
                      problem.stride_c) for name, address, role in outs]  # fmt: skip
    yield from (b, a) if swapped else (a, b)
    yield from results
    if problem.bias:
        yield at.bias, flat("bias", problem.bias_length, problem.out_dtype.itemsize, problem.out_dtype.name)
