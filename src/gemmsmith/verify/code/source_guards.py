"""What the source of a kernel says about its guards: comparisons with M, N and K, beside the ends of loops."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gemmsmith.kernel.signature import strip_comments
from gemmsmith.kernel.spec import KernelSpec

_HEAD = re.compile(r"[\s}]*(?:else\s+)?if\s*\(.*\)\s*\{?\s*$")
_LOOP_HEAD = re.compile(r"\b(?:for|while)\s*\([^{}]*?\)\s*(?=[{\n\w])")
# Names and values, each of ``int r = e >> 3, k = e & 7``.
_ASSIGNED = re.compile(r"\b(\w+)\s*[-+*]?=(?!=)(?=([^;=]*?)(?:,\s*\w+\s*=|[;=]|$))")
_THREAD = re.compile(r"\bthreadIdx\b")
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
_SIDE = r"([^;?{}<>=&|!]*)"  # of a comparison: up to the next operator that binds less


def without_loop_heads(text: str) -> str:
    """The code without what tells how long its loops go on."""
    return _LOOP_HEAD.sub(" ", text)


def is_compared_with(spec: KernelSpec, axis: str) -> bool:
    """Whether something is compared with an extent."""
    facts = getattr(spec.geometry, "facts", None)
    return _compares(spec, axis, str(getattr(facts, "reached", "")))


def lines_with(spec: KernelSpec, axis: str) -> list[int]:
    """The lines of the kernel's own text that compare something with an extent."""
    kernel = getattr(getattr(spec.geometry, "facts", None), "kernel", None)
    if kernel is None:
        return []
    first, last = kernel.line, kernel.line + kernel.head.count("\n") + kernel.body.count("\n") + 1
    lines = strip_comments(spec.code).split("\n") if kernel.file == spec.source else []
    return [n for n, text in enumerate(lines, 1) if first <= n <= last and _compares(spec, axis, text + "\n")]


def with_statements(spec: KernelSpec, guards: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """The extent and line of each guard, and the line after an ``if (…)`` that ends its own: what it guards."""
    kernel = getattr(getattr(spec.geometry, "facts", None), "kernel", None)
    lines = strip_comments(spec.code).split("\n") if kernel is not None and kernel.file == spec.source else []
    found = set(guards)
    heads = {line for _, line in found if 0 < line < len(lines) and _HEAD.match(lines[line - 1])}
    return tuple(sorted(found | {(axis, line + 1) for axis, line in found if line in heads}))


def masks_k(spec: KernelSpec) -> bool:
    """Whether threads compare a k of their own with K: a mask on the last k-tile, which only a ragged K needs. Not told
    of a kernel with one extent for all, which may mean another."""
    facts, signature = getattr(spec.geometry, "facts", None), spec.signature
    names = [signature.named(axis) for axis in "MNK" if signature.has(axis)]
    if facts is None or not signature.has("K") or names.count(signature.named("K")) > 1:
        return False
    return threads_compare(str(facts.reached), signature.named("K"))


def clamps_k(spec: KernelSpec) -> bool:
    """Whether something is K at most: ``min(first + length, K)``, the end of the last part of K."""
    facts, signature = getattr(spec.geometry, "facts", None), spec.signature
    if facts is None or not signature.has("K"):
        return False
    return _at_most(re.escape(signature.named("K"))).search(str(facts.reached)) is not None


def _at_most(name: str) -> re.Pattern[str]:
    inside = r"(?:[^;,()]|\([^()]*\))*"
    return re.compile(rf"\bmin\s*\(\s*(?:{inside},\s*{name}\s*\)|{name}\s*,)|[<>]=?\s*{name}\s*\?[^;?:]*:\s*{name}\b"
                      rf"|[<>]=?\s*{name}\s*\?\s*{name}\s*:")  # fmt: skip


def counts_whole_tiles(spec: KernelSpec, axis: str) -> bool:
    """Whether the kernel looks at an extent in whole tiles alone (``tile < M / 16``), as a grid rounded down."""
    text = str(getattr(getattr(spec.geometry, "facts", None), "reached", ""))
    name, divided = re.escape(spec.signature.named(axis)), r"\s*(?:/|>>)\s*\w"
    compared = re.search(rf"[<>]=?\s*{name}\b(?!{divided})|\b{name}\s*(?:[<>]=?(?![<>])|==)", text)
    return re.search(rf"(?<![-+*/%]\s)\b{name}{divided}", text) is not None and compared is None


def _compares(spec: KernelSpec, axis: str, text: str) -> bool:
    name = re.escape(spec.signature.named(axis))
    return re.search(rf"<=?\s*{name}\b|\b{name}\s*>=?(?!>)", without_loop_heads(text)) is not None


def threads_compare(text: str, name: str) -> bool:
    """Whether ``text`` compares what depends on threadIdx with ``name``, but for the heads of loops."""
    own, text = _own_names(text), without_loop_heads(text)

    def depends(side: str) -> bool:
        return _THREAD.search(side) is not None or any(word in own for word in _NAME.findall(side))

    below = re.findall(rf"{_SIDE}<\s*{re.escape(name)}\b(?!\s*[-+*/%])", text)
    above = re.findall(rf"{_SIDE}>=\s*{re.escape(name)}\b(?!\s*[-+*/%])", text)
    return any(depends(side.rpartition("if")[2]) for side in (*below, *above))


def _own_names(text: str) -> set[str]:
    """Variables that are computed from threadIdx, or from others that are."""
    found: set[str] = set()
    assigned = _ASSIGNED.findall(text)
    while True:
        more = {name for name, value in assigned
                if _THREAD.search(value) or any(word in found for word in _NAME.findall(value))}  # fmt: skip
        if more <= found:
            return found
        found |= more
