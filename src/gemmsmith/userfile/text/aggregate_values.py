"""Members of a struct that is initialised by a list: ``constexpr Config config = {128, 64}``, then ``config.BN``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.declared import Variable
from gemmsmith.userfile.text.parts import SourceFile

_LIST = re.compile(r"([\w:]*)\s*(?:\{(.*)\}|(?<=\w)\((.*)\))", re.S)  # {1, 2}, Config{1, 2}, read as Config(1, 2)
_DESIGNATED = re.compile(r"\.\s*(\w+)\s*=\s*(.*)", re.S)


def member_text(variable: Variable, member: str, sources: Sequence[SourceFile]) -> str:
    """The text that initialises a member, by its name or its place; empty where there is none."""
    match = _LIST.fullmatch(variable.value.strip())
    if match is None:
        return ""
    parts = split_template(match[2] if match[2] is not None else match[3])
    kind = _element(re.sub(r"\b(?:const|constexpr|static|struct)\b", " ", variable.type).strip())
    called = match[1].rsplit("::", 1)[-1]
    kind = kind if kind != "auto" else called
    if match[3] is not None and called != kind:
        return ""  # a function's call
    if any(f.name == kind == f.scope.rsplit("::", 1)[-1] for source in sources for f in source.functions):
        return ""  # its constructor says what the values are
    fields = next((source.class_fields[kind] for source in sources if kind in source.class_fields), ())
    return listed_values(parts, [field.name for field in fields]).get(member, "")


def listed_values(parts: Sequence[str], fields: Sequence[str]) -> dict[str, str]:
    """The texts of a list's elements by the names of the class's members: in their order, or designated."""
    named = {found[1]: found[2] for part in parts if (found := _DESIGNATED.fullmatch(part.strip()))}
    return named or {name: part.strip() for name, part in zip(fields, parts, strict=False)}


def _element(kind: str) -> str:
    """The last name of a type, or of the elements of a container of it."""
    kind = re.sub(r"\[[^\]]*\]", "", kind).strip()
    match = re.fullmatch(r"(?:std::)?(?:vector|array|initializer_list)\s*<\s*([\w:]+).*", kind, re.S)
    return (match[1] if match is not None else kind.rstrip("&* ")).rsplit("::", 1)[-1]
