"""Host code that sets C to zero for a kernel that adds to it: whether it does so for all of C.

The kernel's trials give it a C of their own, so that they cannot see this.
"""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.verdict import Verdict


def not_cleared(spec: KernelSpec, problem: Problem, like: Verdict) -> Verdict | None:
    """The verdict on host code that clears a part of C alone, with the facts of ``like``; None: it clears all of it, or
    there is none to be read."""
    cleared = getattr(spec.geometry, "not_cleared", None)
    if spec.is_rung or not spec.signature.accumulates or cleared is None:
        return None
    why = cleared(problem)
    if not why:
        return None
    reason = f"host code: {why}; the kernel adds to what is there, so that the rest of C keeps what it held"
    return replace(like, problem=problem, reasons=(reason,), repeat=like.repeat.partition(" --trial ")[0])
