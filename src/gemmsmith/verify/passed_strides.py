"""Leading dimensions that host code passes: one of M, N and K where another is meant makes rows overlap.

The trials give a kernel leading dimensions of their own, so that they cannot see this.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.verdict import Verdict


def overlapping_rows(spec: KernelSpec, problem: Problem, like: Verdict) -> Verdict | None:
    """The verdict on a launch that passes an extent which is less than a row is long, for ``problem`` with M, N and K
    in some order; with the facts of ``like``. None: it passes none, or what it passes is not known."""
    passed = getattr(spec.geometry, "passed_leading", None)
    extents = (problem.m, problem.n, problem.k)
    if spec.is_rung or passed is None or len(set(extents)) < len(extents):
        return None
    for m, n, k in permutations(extents):
        tried = problem.with_(m=m, n=n, k=k)
        needed = {"lda": tried.a_shape[1], "ldb": tried.b_shape[1], "ldc": tried.n}
        for role, (value, text, place) in passed(spec.signature, tried).items():
            if value in (m, n, k) and value < needed[role]:
                reason = (f"host code: the launch at {place} passes {text} = {value} as {spec.signature.named(role)}, "
                          f"where rows have {needed[role]} elements, so that they overlap")  # fmt: skip
                return replace(like, problem=tried, reasons=(reason,), repeat=like.repeat.partition(" --trial ")[0])
    return None
