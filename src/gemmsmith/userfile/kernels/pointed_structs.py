"""Matrices and sizes behind a pointer to a struct, ``Mat* A``, ``const Dims* d``, and scalars behind one, ``const
float* alpha``. In a copy of the file the kernel takes each by value, and the pointer points to that copy: then check
fills it as any parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gemmsmith.kernel.role_names import scalar_role
from gemmsmith.userfile.files.edited import Edited, edited_text
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.kernels.struct_parameters import pointed_struct, points_to_sizes
from gemmsmith.userfile.text.parts import KernelParameter, KernelSource, SourceFile
from gemmsmith.userfile.text.preprocessor import closing
from gemmsmith.userfile.text.source import read_text
from gemmsmith.userfile.text.tokens import Text, normalized

_COPY = "gemmsmith_"  # before the name of a parameter: a pointer to its copy


def taken_by_value(
    kernel: KernelSource, sources: Sequence[SourceFile], aliases: Mapping[str, str], edited: Edited = ()
) -> Edited:
    """Texts in place of files, in which ``kernel`` takes these by value; ``edited`` itself if it has none.

    A kernel that changes a member has to keep its pointer: others see the change.
    """
    pointed = _pointed(kernel, sources, aliases)
    if not pointed or any(_changes(p.name, kernel.body) for p in pointed):
        return edited
    raw = edited_text(kernel.file, edited)
    known = Text(normalized(read_text(kernel.file) if raw is None else raw))
    text, place = known.text, parameters_at(kernel, known.bare)
    if place is None:
        return edited
    start, end, body, last = place
    listed = text[start:end]
    for parameter in pointed:
        listed, count = re.subn(rf"\*[\w\s]*\b{parameter.name}\b", f" {parameter.name}", listed)
        if count != 1:
            return edited
    outer = "".join(_declared(parameter, f"{_COPY}{parameter.name}", f"&{parameter.name}") for parameter in pointed)
    inner = "".join(_declared(parameter, parameter.name, f"{_COPY}{parameter.name}") for parameter in pointed)
    changed = f"{text[:start]}{listed}{text[end:body]}{{{outer} {{{inner}{text[body + 1 : last]}}}{text[last:]}"
    return (*((file, old) for file, old in edited if file.resolve() != kernel.file.resolve()), (kernel.file, changed))


def by_value_note(kernel: KernelSource, sources: Sequence[SourceFile], aliases: Mapping[str, str]) -> FoundValue:
    """What the report says of such a kernel."""
    pointed = _pointed(kernel, sources, aliases)
    text = f"{kernel.name}({', '.join(f'{p.type} {p.name}' for p in kernel.parameters)})"
    names = ", ".join(p.name for p in pointed)
    return FoundValue(
        f"what {names} {'point' if len(pointed) > 1 else 'points'} to",
        "passed by value",
        f"{kernel.file.name}:{kernel.line}",
        text,
    )


def _pointed(kernel: KernelSource, sources: Sequence[SourceFile], aliases: Mapping[str, str]) -> list[KernelParameter]:
    """The parameters that point to a struct, to sizes, or to alpha or beta: where one of these is an array, neither is
    taken."""
    named = [p for p in kernel.parameters if "*" in p.type and scalar_role(p.name)]
    scalars = named if all(_points_to_scalar(p, kernel.body) for p in named) else []
    return [p for p in kernel.parameters
            if p in scalars or pointed_struct(p.type, sources, aliases)
            or (points_to_sizes(p.type, sources, aliases) and _is_one_object(p.name, kernel.body))]  # fmt: skip


def _is_one_object(name: str, body: str) -> bool:
    """Whether all that is read of what ``name`` points to are members of the one object: no element of an array."""
    used = len(re.findall(rf"\b{name}\b", body))
    return used == len(re.findall(rf"\b{name}\s*->|\(\s*\*\s*{name}\s*\)\s*\.|\*\s*{name}\s*;", body)) > 0


def _points_to_scalar(parameter: KernelParameter, body: str) -> bool:
    """Whether only the one number is read that a pointer points to: not an array of scales."""
    if parameter.type.count("*") != 1 or "const" not in parameter.type:
        return False
    name = re.escape(parameter.name)
    used = len(re.findall(rf"\b{name}\b", body))
    read = len(re.findall(rf"\*\s*{name}\b(?!\s*(?:\[|\+\+))|(?<!&)\b{name}\s*\[\s*0\s*\]", body))
    return used == read > 0


def _declared(parameter: KernelParameter, name: str, value: str) -> str:
    """A pointer of the parameter's type. In a block of its own it may have the parameter's name."""
    kind = re.sub(r"\b(?:__restrict__|__restrict|restrict)\b", "", parameter.type)
    return f" {' '.join(kind.split())} {name} = {value};"


def _changes(name: str, body: str) -> bool:
    """Whether a member of what ``name`` points to, or the pointer itself, is assigned."""
    member = rf"(?:\(\s*\*\s*{name}\s*\)\s*\.|\b{name}\s*->)\s*\w+"
    assigned = r"\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
    return re.search(rf"(?:{member}|\b{name}\b){assigned}|(?:\+\+|--)\s*(?:{member}|{name}\b)", body) is not None


def parameters_at(kernel: KernelSource, code: str) -> tuple[int, int, int, int] | None:
    """Where the kernel's parameters begin and end, and the braces of its body."""
    for found in re.finditer(rf"\b{re.escape(kernel.name)}\s*\(", code):
        if code.count("\n", 0, found.start()) + 1 != kernel.line:
            continue
        end = closing(code, found.end() - 1)
        brace = re.match(r"[^;{}]*\{", code[end:])
        if brace is None:
            continue
        body = end + brace.end() - 1
        return found.end(), end, body, closing(code, body)
    return None
