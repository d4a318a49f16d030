"""What two problems must share for the same kernel to be the best for both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmsmith.problem import BF16, FP16, FP32, Problem

KIND = "16-bit"  # fp16 and bf16 cost the same, so what was measured for one serves the other
# What was found where kernels were allowed whose bits may change from run to run; a gemmsmith that does not know this
# kind never asks for it.
_FASTEST_KIND = "16-bit fastest"
_ROW = 16  # bytes: a tensor map takes operands whose rows start on multiples of this
_SECTOR = 32  # bytes: and fetches them slowly unless they start on multiples of this
Addresses = tuple[int, int, int]


@dataclass(frozen=True, order=True)
class ShapeKey:
    """Input types as a class, bytes of an output, layout and extents. Order is that of the shipped table."""

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


def shape_key(problem: Problem) -> ShapeKey:
    """The key of a problem with 16-bit inputs."""
    return ShapeKey(KIND, problem.out_dtype.itemsize, problem.layout, problem.m, problem.n, problem.k, problem.batch)


def contiguous(key: ShapeKey) -> Problem:
    """A problem of that shape whose matrices are contiguous: what was tuned was tuned with these."""
    return Problem(key.m, key.n, key.k, BF16, FP32 if key.out_bytes == 4 else BF16, batch=key.batch,
                   trans_a=key.layout[0] == "T", trans_b=key.layout[1] == "T")  # fmt: skip


def fastest(key: ShapeKey) -> ShapeKey:
    """The key of the same shape where repeated runs need not give the same bits."""
    return replace(key, kind=_FASTEST_KIND)


def deterministic(key: ShapeKey) -> ShapeKey:
    """The reverse of ``fastest``."""
    return replace(key, kind=KIND)


def is_fastest(key: ShapeKey) -> bool:
    return key.kind == _FASTEST_KIND


def unaligned(problem: Problem, addresses: Addresses | None = None) -> int:
    """Which matrices no tensor map can describe: bit 0 for A, bit 1 for B, which must be copied, bit 2 for C.

    Without addresses they are taken to be aligned, as fresh allocations are. One row has no next one to be aligned, and
    a vector along k is one, however it is stored; rows of a 16-bit C must end on 16 bytes as well, and of another no
    map is needed.
    """
    return _unaligned(problem, *_starts(problem, addresses))


def alignment(problem: Problem, addresses: Addresses | None = None) -> int:
    """All that a prediction depends on: what ``unaligned`` tells, and bit 3 for A and bit 4 for B where rows start on
    16 bytes but not all on 32: half aligned."""
    a, b, c = _starts(problem, addresses)
    half = (8 if a % _SECTOR == _ROW else 0) | (16 if b % _SECTOR == _ROW else 0)
    return _unaligned(problem, a, b, c) | half


def alignment_if_tight(problem: Problem) -> int:
    """The same for contiguous operands of this shape: what was tuned was tuned with these."""
    return alignment(problem.with_())


def _starts(problem: Problem, addresses: Addresses | None) -> tuple[int, int, int]:
    """Of A, B and C, a number that is a multiple of a power of two where all rows start on multiples of it."""
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
    of_16_bits = problem.out_dtype.itemsize == 2
    return (1 if a % _ROW else 0) | (2 if b % _ROW else 0) | (4 if c % _ROW and of_16_bits else 0)
