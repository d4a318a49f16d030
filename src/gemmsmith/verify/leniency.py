"""Kernels that compute 0·C: a user's own may, as many tutorials do, and it is noted instead of failed."""

from __future__ import annotations

import re
from collections.abc import Callable

from gemmsmith.kernel.signature import strip_comments
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.verify.guarded_run import UNREAD_C
from gemmsmith.verify.oracles.promises import leaves_c_unread
from gemmsmith.verify.verdict import Verdict

_ZERO = r"[-+]?(?:0\.?0*|\.0+)[fFlL]?(?![\w.])"


def tests_beta(spec: KernelSpec) -> bool:
    """Whether the kernel's text asks whether beta is 0: then it means not to read C there."""
    if not spec.signature.has("beta"):
        return False
    text = strip_comments(str(getattr(getattr(spec.geometry, "facts", None), "reached", "")))
    name = rf"\b{re.escape(spec.signature.named('beta'))}\b"
    number = rf"(?:\(\s*\w+\s*\)\s*|\w+\s*\(\s*)?{_ZERO}"  # also (T)0, T(0) and __float2half(0.f)
    compared = rf"{name}\s*[!=]=\s*{number}|{_ZERO}\s*\)?\s*[!=]=\s*{name}"
    asked = rf"!\s*{name}|\bif\s*\(\s*{name}\s*\)|{name}\s*\?"
    return re.search(f"{compared}|{asked}", text) is not None


def is_lenient(spec: KernelSpec, c: str = "", strict: bool = False, reads_c: bool = False) -> bool:
    """Whether reading C when beta = 0 is only noted: for a user's file with a beta, unless told otherwise
    and unless its comments promise not to.

    ``reads_c``: it has no beta, and reads C nevertheless.
    """
    if spec.is_rung or c or strict or leaves_c_unread(spec):
        return False
    return spec.signature.has("beta") or reads_c


def verify_unused(judge: Callable[[str], Verdict], spec: KernelSpec, c: str) -> Verdict:
    """The verdict, with C filled as told. A user's kernel may load C when beta = 0, if NaN there changes nothing."""
    strictly = judge(c)
    if c != "unset" or spec.is_rung or not any(UNREAD_C in reason for reason in strictly.reasons):
        return strictly
    verdict = judge("nan")
    return verdict if verdict.trusted else strictly


def verify_leniently(
    judge: Callable[[str], Verdict], lenient: bool, c: str = "", spares_c: bool = False
) -> tuple[Verdict, str]:
    """The verdict, and a note where the result is right only if the operands that BLAS does not read hold numbers.

    judge     launches and verifies with C filled as it is told
    spares_c  it does not read C in another launch with beta = 0: it must not in any
    """
    strictly = judge(c or "unset")
    problem = strictly.problem
    unread = problem.alpha == 0 or (problem.beta == 0 and not spares_c) or problem.k == 0
    if strictly.trusted or not lenient or not unread:
        return strictly, ""
    verdict = judge("set")
    return verdict, read_note(strictly) if verdict.trusted else ""


def read_note(strictly: Verdict, change: str = "") -> str:
    """What a failure means that vanishes once C holds numbers. ``change``: what cured it in a copy."""
    told = [f"{fault.title} ({mark.file.rpartition('/')[2]}:{mark.line})"
            for fault in strictly.faults for mark in fault.marks[:1]]  # fmt: skip
    text = "; ".join(told or strictly.reasons[:2])
    if strictly.problem.beta == 0 and not re.search(r"must not be read when (?:alpha|K) = 0", text):
        what = "C is read when beta = 0, where BLAS lets it hold anything, NaN too: test beta first"
    else:
        what = "A or B is read when alpha = 0 or K = 0, where BLAS lets them hold anything, NaN too: test alpha first"
    todo = f"\n  {change}" if change else ""
    return f"{what}.\n  {text}{todo}\n  (--strict makes this a failure)"
