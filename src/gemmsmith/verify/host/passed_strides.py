"""Leading dimensions and batch strides that host code passes: one extent where another is meant makes rows, or the
matrices of a batch, overlap.

The trials give a kernel strides of their own, so that they cannot see this.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.verdict import Verdict

_LEADING = ("lda", "ldb", "ldc")


def overlapping_rows(spec: KernelSpec, problem: Problem, like: Verdict) -> Verdict | None:
    """The verdict on a launch that passes less than a row is long, or than a matrix has elements, for ``problem`` with
    M, N and K in some order; with the facts of ``like``. None: it passes none, or what it passes is not known."""
    passed = getattr(spec.geometry, "passed_strides", None)
    extents = (problem.m, problem.n, problem.k)
    if spec.is_rung or passed is None or len(set(extents)) < len(extents):
        return None
    for m, n, k in permutations(extents):
        tried = problem.with_(m=m, n=n, k=k)
        needed = {"lda": tried.a_shape[1], "ldb": tried.b_shape[1], "ldc": tried.n,
                  "strideA": m * k, "strideB": k * n, "strideC": m * n}  # fmt: skip
        for role, (value, text, place) in passed(spec.signature, tried).items():
            if value < needed[role]:
                what = "rows have" if role in _LEADING else f"a matrix {role[-1]} of the batch has"
                reason = (f"host code: the launch at {place} passes {text} = {value} as {spec.signature.named(role)}, "
                          f"where {what} {needed[role]} elements, so that they overlap")  # fmt: skip
                return replace(like, problem=tried, reasons=(reason,), repeat=like.repeat.partition(" --trial ")[0])
    return None
