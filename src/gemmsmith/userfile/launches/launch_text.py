"""Launches in the syntax tree of a function: ``k<<<…>>>(…)``, and launch functions of the runtime and the driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gemmsmith.userfile.launches.driver_launch import driver_launch
from gemmsmith.userfile.text.declared import text_of
from gemmsmith.userfile.text.parts import LaunchText
from gemmsmith.userfile.text.syntax import descend, words
from gemmsmith.userfile.text.ternary import ternary, without_parentheses

if TYPE_CHECKING:
    from tree_sitter import Node

_EVERYWHERE: frozenset[str] = frozenset()
_BY_ARRAY = frozenset({"cudaLaunchKernel", "cudaLaunchCooperativeKernel"})
_INTEGER = (r"(?:std::)?(?:(?:unsigned|signed)(?:\s+(?:int|long(?:\s+long)?(?:\s+int)?))?|int"
            r"|long(?:\s+long)?(?:\s+int)?"
            r"|s?size_t|ptrdiff_t|u?int(?:32|64)_t)")  # fmt: skip
_CAST = re.compile(rf"(?:\(\s*{_INTEGER}\s*\)\s*\(?|(?:static_cast\s*<\s*{_INTEGER}\s*>|{_INTEGER})\s*\()\s*"
                   r"(?P<name>[A-Za-z_][\w.]*)\s*\)?")  # fmt: skip
_BY_CONFIG = frozenset({"cudaLaunchKernelEx", "cudaLaunchKernelExC"})


def launches_in(code: str, body: Node, function: int) -> list[LaunchText]:
    """The launches in the body of the file's function number ``function``."""
    found = []
    for node in descend(body, _EVERYWHERE):
        if node.type != "call_expression":
            continue
        called = node.child_by_field_name("function")
        given = arguments(code, node.child_by_field_name("arguments"))
        chevrons = next((child for child in node.named_children if child.type == "kernel_call_syntax"), None)
        line, start = node.start_point[0] + 1, node.start_byte - body.start_byte - 1
        text = words(text_of(code, node))
        if chevrons is not None:
            kernel, template = launched(text_of(code, called))
            how = tuple(words(text_of(code, child)) for child in chevrons.named_children)
            given = tuple(map(_without_cast, given))
            found.append(LaunchText(kernel, template, how, given, line, function, start, text=text))
            continue
        name = text_of(code, called).split("<")[0].rsplit("::", 1)[-1].strip()
        if name in _BY_ARRAY and len(given) >= 4:
            kernel, template = launched(given[0])
            how = (given[1], given[2], *given[4:6])
            found.append(LaunchText(kernel, template, how, (f"*{given[3]}",), line, function, start, text=text))
        elif name in _BY_CONFIG and len(given) >= 2:
            kernel, template = launched(given[1])
            passed = given[2:] if name == "cudaLaunchKernelEx" else (f"*{given[2]}",)
            found.append(LaunchText(kernel, template, (), passed, line, function, start, given[0].lstrip("&* "), text))
        elif (through := driver_launch(code, name, given)) is not None:
            kernel, how, passed_by = through
            found.append(LaunchText(kernel, (), how, (f"*{passed_by}",), line, function, start, text=text))
    return found


def _without_cast(text: str) -> str:
    """A name that is passed as an integer of another type: ``n`` of ``(unsigned)n`` and of ``static_cast<int>(n)``."""
    match = _CAST.fullmatch(text)
    return match["name"] if match is not None else text


def arguments(code: str, node: Node | None) -> tuple[str, ...]:
    return (
        tuple(words(text_of(code, child)) for child in node.named_children if child.type != "comment") if node else ()
    )


def launched(text: str) -> tuple[str, tuple[str, ...]]:
    """The name and the template arguments of a launched expression, without casts, ``&`` and parentheses; all of
    ``c ? a : b``."""
    text = words(text)
    while True:
        bare = re.sub(r"^\(\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*\)\s*|^[&*]\s*", "", text)
        bare = re.sub(r"^(?:reinterpret|static|const)_cast\s*<[^()]*>\s*(?=\()", "", bare).strip()
        bare = without_parentheses(bare)
        if bare == text:
            break
        text = bare
    if ternary(text) is not None:
        return text, ()
    name, opened, rest = text.partition("<")
    if not opened or not text.endswith(">"):
        return text, ()
    return name.strip().removeprefix("this->"), tuple(split_template(rest[:-1]))


def split_template(text: str) -> list[str]:
    """Split template arguments at commas outside brackets and angle brackets."""
    parts, depth, angle, last = [], 0, 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and char == "<":
            angle += 1
        elif depth == 0 and char == ">" and text[at - 1 : at] != "-":
            angle = max(0, angle - 1)
        elif char == "," and depth == 0 and angle == 0:
            parts.append(text[last:at].strip())
            last = at + 1
    return [part for part in (*parts, text[last:].strip()) if part]
