"""A row-major product in the terms of a column-major library.

Row-major memory of X is column-major memory of Xᵀ. With swapped operands cuBLAS computes Cᵀ = op(B)ᵀ·op(A)ᵀ in
column-major order, which is C in row-major order; nothing is copied::

    row-major      C  (M×N)  =  op(A) (M×K)  ·  op(B) (K×N)
    column-major   Cᵀ (N×M)  =  first (N×K)  ·  second (K×M)      first = B's memory, second = A's memory
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.problem import Problem


@dataclass(frozen=True)
class Stored:
    """A column-major matrix: rows, columns, leading dimension, and whether the library transposes it."""

    rows: int
    cols: int
    ld: int
    transposed: bool = False


@dataclass(frozen=True)
class ColumnMajor:
    """out (m×n) = op(first) (m×k) · op(second) (k×n); ``first`` is B, ``second`` is A."""

    m: int
    n: int
    k: int
    first: Stored
    second: Stored
    out: Stored


def column_major(problem: Problem) -> ColumnMajor:
    """The same product for a column-major library."""
    a_rows, a_cols = problem.a_shape
    b_rows, b_cols = problem.b_shape
    return ColumnMajor(
        m=problem.n,
        n=problem.m,
        k=problem.k,
        first=Stored(b_cols, b_rows, problem.ldb, problem.trans_b),
        second=Stored(a_cols, a_rows, problem.lda, problem.trans_a),
        out=Stored(problem.n, problem.m, problem.ldc),
    )
