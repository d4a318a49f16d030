"""Which of M, N and K the integers of a kernel are, by its indices: A[row * p + k] has rows of p elements.

Names of one letter tell nothing. Where no meaning of them gives a product, the indices still tell which one was meant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from gemmsmith.kernel.signature import Signature

_SUMS_PRODUCTS = re.compile(r"\+=[^;=]*\*|\bfmaf?\s*\(|\b__fmaf_rn\s*\(")
_INTEGERS = tuple("iIqQhH")
_EXTENTS = ("M", "N", "K")


def extents_by_use(signature: Signature, body: str) -> Signature | None:
    """The signature with the meanings that the indices of A, B and C give; None where they do not tell, or the kernel
    does more with its sums than to store them."""
    unknown = [arg for arg in signature.unknown if arg.code in _INTEGERS]
    if len(unknown) not in (2, 3) or len(unknown) < len(signature.unknown) or signature.fixed or signature.has("D"):
        return None
    if any(signature.has(role) for role in ("M", "N", "K")) or not all(signature.has(role) for role in "ABC"):
        return None
    names = {arg.name for arg in unknown}
    a, b, c = (_row_length(signature.named(role), names, body) for role in "ABC")
    if not (a and b and c) or not _SUMS_PRODUCTS.search(body) or not _stores_sums(signature.named("C"), body):
        return None
    rows = names - {a, c}
    if len(rows) != 1 or b not in (a, c):
        return None
    tied = "NK" if a == c else ""
    roles = {rows.pop(): "M", c: "N"} | ({} if tied else {a: "K"})
    if set(roles) != names:
        return None
    arguments = tuple(replace(arg, role=arg.role or roles[arg.name]) for arg in signature.arguments)
    return replace(signature, arguments=arguments, tied=tied, square=False)


def constants_by_use(signature: Signature, names: Mapping[str, str], body: str) -> dict[str, str]:
    """The constants that set M, N and K, by role, where the indices and the loop over k say otherwise than their names:
    rows of B and C have K elements, rows of A have N, and the sum goes up to N. Else ``names``."""
    rows = {role: signature.named(role) for role in "ABC"}
    if len(set(names.values())) != 3 or not all(rows.values()):
        return dict(names)
    a, b, c = (_row_length(rows[role], names.values(), body) for role in "ABC")
    if not (a and c) or b != c or a == c or _is_summed(names["K"], body) or not _is_summed(a, body):
        return dict(names)
    (left,) = set(names.values()) - {a, c}
    return {"M": left, "N": c, "K": a}


def named_otherwise(signature: Signature, body: str) -> Signature | None:
    """The signature with the meanings that indices and loops give M, N and K, where those differ from what the names
    say; None where they do not, or do not tell."""
    names = {arg.role: arg.name for arg in signature.arguments if arg.role in _EXTENTS and "." not in arg.name}
    if len(names) != len(_EXTENTS) or signature.fixed or signature.tied:
        return None
    roles = {name: role for role, name in constants_by_use(signature, names, body).items()}
    arguments = tuple(replace(arg, role=roles.get(arg.name, arg.role)) for arg in signature.arguments)
    return replace(signature, arguments=arguments) if arguments != signature.arguments else None


def _is_summed(name: str, body: str) -> bool:
    """Whether a loop goes up to a size, or up to how many tiles it has."""
    word = rf"\b{re.escape(name)}\b"
    conditions = " ".join(re.findall(r"\bfor\s*\([^;]*;([^;]*);", body))
    return re.search(word, conditions) is not None or re.search(rf"[={{][^;={{]*{word}[^;]*/", body) is not None


def _row_length(matrix: str, names: Collection[str], body: str) -> str:
    """The one parameter that the index of a matrix is multiplied by; empty if there is none, or several."""
    found: set[str] = set()
    for index in re.findall(rf"(?<![\w.]){re.escape(matrix)}\s*\[([^\[\];]*)\]", body):
        found |= {name for name in names if re.search(rf"\*\s*{name}\b(?!\s*\*)|(?<!\*\s)\b{name}\s*\*", index)}
    return found.pop() if len(found) == 1 else ""


def _stores_sums(matrix: str, body: str) -> bool:
    """Whether C is set to variables alone, and to nothing that is computed from them."""
    stored = re.findall(rf"(?<![\w.]){re.escape(matrix)}\s*\[[^\[\];]*\]\s*\+?=(?!=)\s*([^;]*);", body)
    return bool(stored) and all(re.fullmatch(r"\w+(?:\[[^\[\]]*\])*", text.strip()) for text in stored)
