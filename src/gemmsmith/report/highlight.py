"""Syntax highlighting for CUDA C++: escaped HTML spans for comments, directives, keywords, numbers and strings."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

_WORDS = (
    "alignas|auto|bool|break|case|class|const|constexpr|continue|do|double|else|enum|extern|false|float|float2|float4|for|"
    "if|inline|int|long|namespace|reinterpret_cast|return|short|sizeof|static|static_assert|static_cast|struct|switch|"
    "template|true|typename|union|unsigned|using|void|volatile|while|half|__half|__nv_bfloat16"
)
_CUDA = r"__\w+__|threadIdx|blockIdx|blockDim|gridDim|__syncthreads|__fmaf_rn"
_TOKENS = re.compile(
    rf"(?P<c>//.*$|/\*.*?\*/)|(?P<p>^\s*\#.*$)|(?P<s>\"(?:\\.|[^\"\\])*\")|(?P<g>\b(?:{_CUDA})\b)"
    rf"|(?P<k>\b(?:{_WORDS})\b)|(?P<n>\b\d[\w.]*\b)"
)


def highlight(lines: Sequence[str]) -> list[Markup]:
    """Each line as HTML. A block comment may span several lines."""
    made, inside = [], False
    for row in lines:
        if inside:
            end = row.find("*/")
            if end < 0:
                made.append(_span("c", row))
                continue
            made.append(_span("c", row[: end + 2]) + _line(row[end + 2 :]))
            inside = False
            continue
        start = _open_comment(row)
        if start >= 0:
            made.append(_line(row[:start]) + _span("c", row[start:]))
            inside = True
        else:
            made.append(_line(row))
    return made


def _open_comment(row: str) -> int:
    """Where a block comment starts that does not end on this line; -1 if none does."""
    at = row.rfind("/*")
    return at if at >= 0 and "*/" not in row[at:] and "//" not in row[:at] else -1


def _line(row: str) -> Markup:
    parts: list[Markup] = []
    kind, words, done = "", "", 0
    for found in _TOKENS.finditer(row):
        between = row[done : found.start()]
        if found.lastgroup == kind and not between.strip():  # "const float" is one span
            words += between + found[0]
        else:
            parts += [_span(kind, words), escape(between)]
            kind, words = found.lastgroup or "", found[0]
        done = found.end()
    return Markup("").join([*parts, _span(kind, words), escape(row[done:])])


def _span(kind: str, words: str) -> Markup:
    return Markup("") if not words else Markup('<span class="{}">{}</span>').format(kind, words)
