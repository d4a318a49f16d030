"""What comments and names of a user's file promise of its kernel: sums in fp32, and a C that is not read at beta = 0.

Without such words sums in fp16 are judged with the roundoff of fp16, and 0·C is noted, as many tutorials compute it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gemmsmith.kernel.spec import KernelSpec

_COMMENT = re.compile(r"//([^\n]*)|/\*(.*?)\*/", re.S)
_FLOAT = r"(?:fp32|f32|float(?:32)?|single(?:[- ]precision)?)"
_SUMS = re.compile(
    rf"\b{_FLOAT}[\s-]*(?:accum\w*|sums?\b)"
    rf"|\baccum\w*\s+(?:(?:is|are|stays?)\s+)?(?:in|as|into)\s+{_FLOAT}\b"
    rf"|\bsums?\s+(?:(?:is|are)\s+)?(?:kept\s+)?in\s+{_FLOAT}\b",
    re.I,
)
_IN_NAME = re.compile(r"(?:f32|fp32|float)_?acc|acc_?(?:f32|fp32|float)(?![a-z])", re.I)
# Sums in fp16 that go into fp32 now and then are meant so.
_IN_PARTS = re.compile(r"\b(?:chunk|partial|flush|every|fast|approx|two[- ]level|hfma|half2?\s+(?:sum|acc|math))", re.I)
_AT_ZERO = r"beta\s*(?:==?|is)\s*(?:0(?:\.0?f?)?|zero)"
_UNTOUCHED = (
    r"(?:not\s+(?:be\s+)?(?:read|touch|load|initiali|access|reference)\w*|never\s+(?:read|load|touch)\w*"
    r"|need\s*n[o']t|ignored|uninitiali[sz]ed|write[- ]only|may\s+(?:hold|contain|be)|\bNaN)"
)
_UNREAD = re.compile(
    rf"\bBLAS[- ](?:semantics|rules|conventions?)|{_AT_ZERO}[^.;]*{_UNTOUCHED}|{_UNTOUCHED}[^.;]*{_AT_ZERO}", re.I
)
_AROUND = 12  # lines before a kernel that may be about it, where a file has several


def sums_in_float(spec: KernelSpec) -> bool:
    """Whether sums in fp32 are promised."""
    said = _comments(spec)
    promised = _SUMS.search(said) is not None or _IN_NAME.search(spec.entry) is not None
    return promised and _IN_PARTS.search(said) is None


def leaves_c_unread(spec: KernelSpec) -> bool:
    """Whether it is promised that C may hold anything where beta is 0."""
    return spec.signature.has("beta") and _UNREAD.search(_comments(spec)) is not None


def _comments(spec: KernelSpec) -> str:
    """The comments of a user's kernel; of the whole file where it is the only one."""
    kernel = getattr(getattr(spec.geometry, "facts", None), "kernel", None)
    if kernel is None:
        return ""
    if (code := spec.code).count("__global__") <= 1:
        return _said(code)
    lines = code.split("\n")
    last = kernel.line + kernel.head.count("\n") + kernel.body.count("\n") + 1
    return _said("\n".join(lines[max(0, kernel.line - _AROUND) : last]))


@lru_cache(maxsize=32)
def _said(code: str) -> str:
    said = " ".join(line or block for line, block in _COMMENT.findall(code))
    return re.sub(r"[\s*]+", " ", said)
