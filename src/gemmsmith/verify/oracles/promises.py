"""What comments and names of a user's file promise of its kernel: sums in fp32, a C that is not read at beta = 0, any
size.

Without such words sums in fp16 are judged with the roundoff of fp16, and 0·C is noted, as many tutorials compute it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.text.parts import KernelSource
from gemmsmith.verify.formula.documented import documented

_COMMENT = re.compile(r"//([^\n]*)|/\*(.*?)\*/", re.S)
_FLOAT = r"(?:fp32|f32|float(?:32)?|single(?:[- ]precision)?)"
_SUMS = re.compile(
    rf"\b{_FLOAT}[\s-]*(?:accum\w*|sums?\b)"
    rf"|\baccum\w*\s+(?:(?:is|are|stays?)\s+)?(?:in|as|into)\s+{_FLOAT}\b"
    rf"|\bsums?\s+(?:(?:is|are)\s+)?(?:kept\s+)?in\s+{_FLOAT}\b"
    rf"|\b(?:summed|summation|added(?:\s+up)?)\s+(?:is\s+)?(?:in|as|into)\s+{_FLOAT}\b",
    re.I,
)
_IN_NAME = re.compile(r"(?:f32|fp32|float)_?acc|acc_?(?:f32|fp32|float)(?![a-z])", re.I)
# Sums in fp16 that go into fp32 now and then are meant so.
_OFTEN = r"every\s+(?:\d|few|k\b|\w+\s+(?:tiles?|steps?|iterations?))"
_IN_PARTS = re.compile(
    rf"\b(?:chunk|partial|flush|{_OFTEN}|fast|approx|two[- ]level|hfma|half2?\s+(?:sum|acc|math))", re.I
)
_AT_ZERO = r"beta\s*(?:==?|is)\s*(?:0(?:\.0?f?)?|zero)"
_UNTOUCHED = (
    r"(?:not\s+(?:be\s+)?(?:read|touch|load|initiali|access|reference)\w*|never\s+(?:read|load|touch)\w*"
    r"|need\s*n[o']t|ignored|uninitiali[sz]ed|write[- ]only|may\s+(?:hold|contain|be)|\bNaN"
    r"|(?:does|do)\s*(?:n't|\s+not)\s+matter|irrelevant)"
)
_UNREAD = re.compile(
    rf"\bBLAS[- ](?:semantics|rules|conventions?)|{_AT_ZERO}[^.;]*{_UNTOUCHED}|{_UNTOUCHED}[^.;]*{_AT_ZERO}", re.I
)
_NAN = r"\bNaNs?\b"
_KEPT = r"(?:propagat|preserv|kept\b|survive|pass(?:es|ed)?\s+through|stays?\s+NaN)"
_GIVES = r"\b(?:gives?|yields?|produces?|results?\s+in|becomes?|stays?)\b"
_NANS = re.compile(rf"{_NAN}[^.;]*{_KEPT}|{_KEPT}[^.;]*{_NAN}|{_NAN}[^.;]*{_GIVES}[^.;]*{_NAN}", re.I)
# Two parts of bf16 have 16 bits: no such name.
_PARTS = re.compile(
    r"(?<![a-z0-9])(?:3x_?tf32|tf32_?x_?3|[69]x_?bf16|bf16_?x_?[69]|[23]x_?fp16|fp16_?x_?[23])(?!\d)"
    r"|error[- _]?correct", re.I
)  # fmt: skip
_ACCURATE = re.compile(
    rf"\b(?:accura\w+|precision)\s+of\s+(?:an?\s+)?{_FLOAT}\b|\b{_FLOAT}[\s-]+(?:level\s+|like\s+)?accura"
    rf"|\b(?:emulat|recover)\w*\s+(?:full\s+)?{_FLOAT}\b",
    re.I,
)
_SIZE = r"(?:sizes?|shapes?|dimensions?|extents?)"
_NUMBER = r"number\s+of\s+(?P<axes>(?:rows|columns)(?:\s+and\s+(?:rows|columns))?)"
_MAY_BE = (
    r"(?:itself\s+)?(?:(?:is|are|may\s+be|can\s+be)\s+)?(?:arbitrary|anything|unrestricted|free(?!\s+(?:of|to|from)))\b"
)
_AXES = {"rows": r"^m$|row|height", "columns": r"^n$|col|width"}
_STATEMENT = re.compile(r"[.;:()]")
_NO_MULTIPLE = re.compile(
    r"\b(?:need\s*n[o']t|do(?:es)?\s*(?:n't|\s+not)\s+(?:have|need)\s+to|not\s+(?:necessarily|required\s+to))\s+(?:be\s+)?"
    r"(?:an?\s+|exact\s+)?(?:multiples?|divisible)",
    re.I,
)
_NO_ALIGNMENT = re.compile(r"\b(?:no|without)\s+(?:\w+\s+)?(?:alignment|padding|multiples?|restrictions?)\b[^,]*", re.I)
_BATCHES = r"(?:batch(?:es)?|products|matrices|problems|gemms|heads)\b"
_ANY_BATCH = re.compile(
    rf"\b(?:any|arbitrary|unlimited)\s+(?:number\s+of\s+(?:\w+\s+)?)?{_BATCHES}"
    rf"|\bbatch\w*\s+(?:\w+\s+){{0,2}}(?:is|are|may\s+be|can\s+be)\s+(?:arbitrary|anything|unlimited|unrestricted)",
    re.I,
)
_FITS = re.compile(
    r"\b(?:any(?:thing|\s+(?:total\s+)?size)?|arbitrary|whatever|everything|all\s+sizes?)\s+(?:\w+\s+){0,2}"
    r"fits?\s+(?:in(?:to)?|on)\s+(?:\w+\s+)?(?:memory|GPU|device|card)\b",
    re.I,
)
_MISSING = re.compile(r"\b(?:not|no|without|only|unless|except|cannot|can't|doesn't|don't|if)\b", re.I)
_LESS = re.compile(r"\b(?:los\w+|less|lower|below|than|instead|worse|compar\w+)\b", re.I)
_AROUND = 12  # lines before a kernel that may be about it, where a file has several


def sums_in_float(spec: KernelSpec) -> bool:
    """Whether sums in fp32 are promised."""
    said = _comments(spec)
    promised = _SUMS.search(said) is not None or _IN_NAME.search(spec.entry) is not None
    return promised and _IN_PARTS.search(said) is None


def keeps_float(spec: KernelSpec) -> bool:
    """Whether a kernel says that its products are as accurate as those of fp32: it splits its operands into parts."""
    said = [each for each in _STATEMENT.split(_comments(spec)) if not (_MISSING.search(each) or _LESS.search(each))]
    return any(_PARTS.search(each) or _ACCURATE.search(each) for each in (spec.entry, *said))


def leaves_c_unread(spec: KernelSpec) -> bool:
    """Whether it is promised that C may hold anything where beta is 0."""
    return spec.signature.has("beta") and _UNREAD.search(_comments(spec)) is not None


def says_any_batch(spec: KernelSpec) -> bool:
    """Whether it is promised that a batch may have any number of products."""
    said = (each for each in _STATEMENT.split(_comments(spec)))
    matches = ((each, _ANY_BATCH.search(each)) for each in said)
    return any(match is not None and not _MISSING.search(each[: match.start()]) for each, match in matches)


def says_all_of_memory(spec: KernelSpec) -> bool:
    """Whether it is promised that matrices may be as large as memory: "anything that fits in memory"."""
    matches = ((each, _FITS.search(each)) for each in _STATEMENT.split(_comments(spec)))
    return any(match is not None and not _MISSING.search(each[: match.start()]) for each, match in matches)


def keeps_nan(spec: KernelSpec) -> bool:
    """Whether it is promised that NaN propagates, through an activation too."""
    return _says_nan_is_kept(_comments(spec))


def says_nan_is_kept(code: str, kernel: KernelSource) -> bool:
    """The same of a kernel that a formula describes."""
    return _says_nan_is_kept(_own_comments(code, kernel))


def _says_nan_is_kept(comments: str) -> bool:
    said = (each for each in re.split(r"[.;:]", comments) if not _MISSING.search(each))
    return any(_NANS.search(each) for each in said)


def takes_any(code: str, kernel: KernelSource | None, names: Sequence[str]) -> frozenset[str]:
    """The extents of these names that a comment says may be anything: "any M and N", "arbitrary sizes", "any number of
    rows", "m, k, n are arbitrary", "m and n are free"; not those of which it asks for multiples in general words."""
    own = {name: name.rpartition(".")[2].lower() for name in names}
    listed = "|".join(map(re.escape, own.values()))
    some = rf"\b(?:{listed})\b(?:(?:\s*(?:,|/|and|or|x|×)\s*|\s+)(?:and\s+)?(?:{listed})\b)*"
    promise = re.compile(
        rf"\b(?:any|arbitrary)\s+(?:(?P<all>(?:\w+\s+)?{_SIZE}\b)|{_NUMBER}|(?P<some>{some}))"
        rf"|(?P<named>{some})\s+{_MAY_BE}",
        re.I,
    )
    found, said = set[str](), set[str]()
    for clause in _STATEMENT.split(_own_comments(code, kernel)):
        if _NO_MULTIPLE.search(clause) is not None:
            words = set(re.findall(r"\w+", clause.lower()))
            found |= {name for name, short in own.items() if short in words} or set(own)
            continue
        clause = _NO_ALIGNMENT.sub("", clause)
        match = promise.search(clause)
        if match is None or _MISSING.search(clause[: match.start()]) or _MISSING.search(clause[match.end() :]):
            continue
        axes = [_AXES[axis] for axis in re.findall(r"rows|columns", (match["axes"] or "").lower())]
        listed_names = set(re.findall(r"\w+", (match["some"] or match["named"] or "").lower()))
        found |= {name for name, short in own.items() if match["all"] or short in listed_names
                  or any(re.search(axis, short) for axis in axes)}  # fmt: skip
        said |= {name for name, short in own.items() if match["named"] and short in listed_names}
    asked = {name for name in found if documented(_NO_MULTIPLE.sub("", code), [name]).multiple > 1}
    return frozenset(found - (asked - said))


def _comments(spec: KernelSpec) -> str:
    """The comments of a user's kernel; of the whole file where it is the only one."""
    kernel = getattr(getattr(spec.geometry, "facts", None), "kernel", None)
    return "" if kernel is None else _own_comments(spec.code, kernel)


def _own_comments(code: str, kernel: KernelSource | None) -> str:
    if kernel is None or code.count("__global__") <= 1:
        return _said(code)
    lines = code.split("\n")
    last = kernel.line + kernel.head.count("\n") + kernel.body.count("\n") + 1
    return _said("\n".join(lines[max(0, kernel.line - _AROUND) : last]))


@lru_cache(maxsize=32)
def _said(code: str) -> str:
    said = " ".join(line or block for line, block in _COMMENT.findall(code))
    return re.sub(r"[\s*]+", " ", said)
