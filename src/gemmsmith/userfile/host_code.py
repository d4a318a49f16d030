"""Blank out the host code of a user's file, so that a ``.cu`` file with a ``main`` compiles unchanged.

NVRTC compiles device code only. Functions at file scope without ``__global__``, ``__device__`` or ``constexpr`` are
host code, and so are variables of host types. They are replaced by blank lines, so that line numbers stay the same.
"""

from __future__ import annotations

import re

# Marks of a definition that is kept; a struct, namespace or `extern "C" {` is kept as well, and searched.
_DEVICE = re.compile(r"\b(__global__|__device__|__constant__|__shared__|__managed__|constexpr)\b")
_CONTAINER = re.compile(r"\b(namespace\b[\w\s:]*|extern\s*\"C\"\s*)$")
_TYPE = re.compile(r"^\s*(template\s*<[^{}]*>\s*)?(typedef\s+)?(struct|class|union|enum)\b")
_HOST_VARIABLE = re.compile(r"\b(std\s*::|cublas\w*_t\b|cuda(Event|Stream|Error|DeviceProp)\w*\b)|<<<")

# A preprocessor line with its continuations, or any single character other than a newline.
_OTHER = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*|[^\n]", re.M)


def without_host_code(text: str) -> str:
    """``text`` with host functions and host variables at file scope blanked."""
    return _blank(text, _host_spans(text))


def _host_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each piece of host code."""
    code = _hide(text)
    spans: list[tuple[int, int]] = []
    start = position = 0
    while position < len(code):
        char = code[position]
        if char == "{":
            head = code[start:position]
            if _CONTAINER.search(head.rstrip() + " ") or _CONTAINER.search(head.rstrip()):
                start = position = position + 1  # look inside
                continue
            end = _closing(code, position)
            is_function = "(" in head and _TYPE.match(head) is None
            if is_function and _DEVICE.search(head) is None and "=" not in head.split("(")[0]:
                spans.append((start + _leading(head), end))
                start = position = end
                continue
            if not is_function and _HOST_VARIABLE.search(code[position:end]) and not _DEVICE.search(code[position:end]):
                end = code.find(";", end) + 1 or len(code)  # a type with host members
                spans.append((start + _leading(head), end))
                start = end
            position = end
            if is_function:
                start = position
        elif char == ";":
            if _HOST_VARIABLE.search(code[start:position]) and _DEVICE.search(code[start:position]) is None:
                spans.append((start + _leading(code[start:position]), position + 1))
            start = position = position + 1
        elif char == "}":
            start = position = position + 1
        else:
            position += 1
    return spans


def _leading(code: str) -> int:
    """Blanks before the first word, such as hidden comments and preprocessor lines."""
    return len(code) - len(code.lstrip())


def _hide(text: str) -> str:
    """``text`` with comments, literals and preprocessor lines replaced by blanks of the same length."""
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/|extern\s*\"C\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*",
        re.S | re.M,
    )
    return pattern.sub(
        lambda m: m.group() if m.group().startswith("extern") else re.sub(r"[^\n]", " ", m.group()), text
    )


def _closing(code: str, opening: int) -> int:
    """Just past the brace that closes the one at ``opening``; the end of the text if there is none."""
    depth = 0
    for position in range(opening, len(code)):
        depth += (code[position] == "{") - (code[position] == "}")
        if depth == 0:
            return position + 1
    return len(code)


def _blank(text: str, spans: list[tuple[int, int]]) -> str:
    parts, last = [], 0
    for start, end in spans:
        # Preprocessor lines stay, so that every #if keeps its #endif.
        kept = _OTHER.sub(lambda m: m.group() if "#" in m.group() and len(m.group()) > 1 else "", text[start:end])
        parts += [text[last:start], kept]
        last = end
    return "".join([*parts, text[last:]])
