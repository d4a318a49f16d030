"""The key of a tuned shape, and how operands are aligned."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmsmith.gpus import cuda_limits
from gemmsmith.problem import BF16, FP16, FP32, Problem

KIND = "16-bit"  # fp16 and bf16 cost the same, so one is tuned for both
# Tuned with kernels whose results may differ between runs. Versions that do not know this kind ignore it.
_FASTEST_KIND = "16-bit fastest"
_ROW = cuda_limits().vector_bytes  # a tensor map needs rows that start on multiples of this
_SECTOR = cuda_limits().sector_bytes  # TMA is slow unless rows start on multiples of this
Addresses = tuple[int, int, int]


@dataclass(frozen=True, order=True)
class ShapeKey:
    """Class of input types, bytes per output, layout and extents; ordered as in the shipped table."""

    kind: str
    out_bytes: int
    layout: str
    m: int
    n: int
    k: int
    batch: int = 1

    def __str__(self) -> str:
        many = f"{self.batch} of " if self.batch != 1 else ""
        return f"{many}{self.m}x{self.n}x{self.k} {self.kind} to {self.out_bytes} bytes {self.layout}"


def is_16_bit(problem: Problem) -> bool:
    return problem.dtype.name in (FP16.name, BF16.name)


def shape_key(problem: Problem, precision: str = "") -> ShapeKey:
    """The key of a problem; that of fp32 products has their precision in place of the inputs' type."""
    kind = (precision or FP32.name) if problem.dtype == FP32 else KIND
    return ShapeKey(kind, problem.out_dtype.itemsize, problem.layout, problem.m, problem.n, problem.k, problem.batch)


def contiguous(key: ShapeKey) -> Problem:
    """The problem of that shape with contiguous matrices, which is what was tuned."""
    return Problem(key.m, key.n, key.k, BF16, FP32 if key.out_bytes == 4 else BF16, batch=key.batch,
                   trans_a=key.layout[0] == "T", trans_b=key.layout[1] == "T")  # fmt: skip


def fastest(key: ShapeKey) -> ShapeKey:
    """The key of the same shape where results may differ between runs; those of fp32 kernels never do."""
    return replace(key, kind=_FASTEST_KIND) if key.kind == KIND else key


def deterministic(key: ShapeKey) -> ShapeKey:
    """The reverse of ``fastest``."""
    return replace(key, kind=KIND) if is_fastest(key) else key


def is_16_bit_key(key: ShapeKey) -> bool:
    return key.kind in (KIND, _FASTEST_KIND)


def is_fastest(key: ShapeKey) -> bool:
    return key.kind == _FASTEST_KIND


def unaligned(problem: Problem, addresses: Addresses | None = None) -> int:
    """Which matrices no tensor map can describe: bit 0 for A and bit 1 for B, which must be copied; bit 2 for C.

    Without addresses, matrices are taken to be aligned allocations. A single row needs no aligned leading dimension;
    neither does a vector along k, however it is stored. Rows of a 16-bit C must also end on 16 bytes; a 32-bit C needs
    no map.
    """
    return _unaligned(problem, *_starts(problem, addresses))


def alignment(problem: Problem, addresses: Addresses | None = None) -> int:
    """The alignment that predictions depend on: ``unaligned``, and bit 3 for A and bit 4 for B where rows are half
    aligned: they start on 16 bytes, but not all on 32."""
    a, b, c = _starts(problem, addresses)
    half = (8 if a % _SECTOR == _ROW else 0) | (16 if b % _SECTOR == _ROW else 0)
    return _unaligned(problem, a, b, c) | half


def alignment_if_tight(problem: Problem) -> int:
    """``alignment`` of contiguous operands of this shape, which is what was tuned."""
    return alignment(problem.with_())


def _starts(problem: Problem, addresses: Addresses | None) -> tuple[int, int, int]:
    """For A, B and C a number that is a multiple of 2^i exactly where all rows start on multiples of 2^i."""
    size, size_c = problem.dtype.itemsize, problem.out_dtype.itemsize
    vector_a, vector_b = (problem.m == 1, problem.n == 1) if is_16_bit(problem) else (False, False)
    a = 0 if problem.a_shape[0] == 1 or (vector_a and problem.lda == 1) else problem.lda * size
    b = 0 if problem.b_shape[0] == 1 or (vector_b and problem.ldb == 1) else problem.ldb * size
    c = problem.n * size_c | (problem.ldc * size_c if problem.m > 1 else 0)
    if problem.batch > 1:
        a |= problem.stride_a * size
        b |= problem.stride_b * size
        c |= problem.stride_c * size_c
    if addresses is not None:
        a |= addresses[0]
        b |= addresses[1]
        c |= addresses[2]
    return a, b, c


def _unaligned(problem: Problem, a: int, b: int, c: int) -> int:
    is_16_bit_c = problem.out_dtype.itemsize == 2
    return (1 if a % _ROW else 0) | (2 if b % _ROW else 0) | (4 if c % _ROW and is_16_bit_c else 0)
