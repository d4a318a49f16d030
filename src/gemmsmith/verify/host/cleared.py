"""Host code that sets C to zero for a kernel that adds to it: whether it does so, and for all of C.

The kernel's trials give it a C of their own, so that they cannot see this.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.verdict import Verdict


def not_cleared(spec: KernelSpec, problem: Problem, like: Verdict, free: bool = False) -> Verdict | None:
    """The verdict on host code that clears a part of C alone, or nothing of a C that it allocates, with the facts of
    ``like``; None: it clears all of it, or that is not to be read. ``free``: other shapes may be looked at, too."""
    cleared = getattr(spec.geometry, "not_cleared", None)
    if spec.is_rung or not spec.signature.accumulates or spec.signature.has("D") or cleared is None:
        return None
    found = ((each, why) for each in (_orders(problem) if free else [problem]) if (why := cleared(each)))
    problem, why = next(found, (problem, ""))
    if not why:
        return None
    reason = f"host code: {why}; the kernel adds to what is there, so C is wrong wherever it was not zero before"
    return replace(like, problem=problem, reasons=(reason,), repeat=like.repeat.partition(" --trial ")[0])


def _orders(problem: Problem) -> list[Problem]:
    """The product, then those with M, N and K in other orders: a number of bytes may be enough in some only."""
    return [problem.with_(m=m, n=n, k=k) for m, n, k in permutations((problem.m, problem.n, problem.k))]
