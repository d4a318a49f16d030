"""Our row-major product, as a library for column-major matrices must be asked for it.

Memory that holds X row by row holds Xᵀ column by column. So cuBLAS, asked for op(B) times op(A) with the operands
swapped, computes Cᵀ = op(B)ᵀ·op(A)ᵀ column by column, which is C row by row; nothing is moved or copied::

    row-major      C  (M×N)  =  op(A) (M×K)  ·  op(B) (K×N)
    column-major   Cᵀ (N×M)  =  first (N×K)  ·  second (K×M)      first = B's memory, second = A's memory
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.problem import Problem


@dataclass(frozen=True)
class Stored:
    """A matrix as column-major memory: its rows, columns, leading dimension, and whether to transpose it."""

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
