"""The text of a kernel as rules on its decisions read it: ``op == OP_T`` as ``op == 1``, and what the device functions
decide that it passes its parameters to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gemmsmith.errors import UsageError
from gemmsmith.userfile.host.values import Scope, evaluate_int
from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.parts import Enumeration, FunctionSource, KernelSource

_NAME = r"[A-Za-z_]\w*(?:\s*::\s*\w+)*"
_COMPARED = re.compile(
    rf"((?<=[=!]=)\s*|\bcase\s+)({_NAME}|\([^()]*(?:\([^()]*\)[^()]*)*\)(?=:))|()(?<![\w.:])({_NAME})(?=\s*[=!]=)"
)
_DEEPEST = 2  # device functions that call others


def with_numbers(text: str, scope: Scope) -> str:
    """``text`` where constants of the file that something is compared with are numbers."""

    def number(match: re.Match[str]) -> str:
        try:
            return f"{match[1] or ''}{evaluate_int(match[2] or match[4], scope)}"
        except (UsageError, RecursionError):
            return match[0]

    return _COMPARED.sub(number, text)


def enumerated(kernel: KernelSource, enums: Mapping[str, Enumeration]) -> str:
    """A switch over the values of each parameter that has a type of ``enums``: it is never anything else."""
    found = ((p.name, enums.get(re.sub(r"\b(?:const|enum)\b", "", p.type).strip())) for p in kernel.parameters)
    cases = ((name, each.values) for name, each in found if each is not None and name)
    return "".join(
        f"\nswitch ({name}) {{ {' '.join(f'case ({value}):' for value in values)} }}" for name, values in cases
    )


def with_called(kernel: KernelSource, functions: Iterable[FunctionSource]) -> str:
    """The kernel's body, followed by those of the device functions that take its parameters as they are, with the same
    names for them."""
    named = {function.name: function for function in functions if function.device}
    own = {parameter.name for parameter in kernel.parameters if "*" not in parameter.type}
    return _expanded(kernel.body, own, named, _DEEPEST)


def _expanded(body: str, own: set[str], named: dict[str, FunctionSource], depth: int) -> str:
    parts, bodies, last = [], [], 0
    for match in re.finditer(r"(?<![\w.])(\w+)\s*(?:<[^;<>(){}]*>)?\s*\(", body) if depth else ():
        function = named.get(match[1])
        end = _closing(body, match.end())
        if function is None or match.start() < last or end < 0:
            continue
        arguments = split_template(body[match.end() : end])
        taken = {p.name: text for p, text in zip(function.parameters, arguments, strict=False) if text in own}
        if not taken:
            continue
        renamed = function.body
        for name, text in taken.items():
            renamed = re.sub(rf"(?<![\w.]){re.escape(name)}\b", text, renamed)
        bodies.append(_expanded(renamed, own, named, depth - 1))
        parts += [body[last : match.end()], ", ".join("0" if text in own else text for text in arguments)]
        last = end
    return "\n".join(("".join((*parts, body[last:])), *dict.fromkeys(bodies)))


def _closing(text: str, start: int) -> int:
    """Where the parenthesis closes that is open at ``start``; -1 if it does not."""
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return -1
