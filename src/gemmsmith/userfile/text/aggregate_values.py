"""Members of a struct that is initialised by a list: ``constexpr Config config = {128, 64}``, then ``config.BN``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.declared import Variable
from gemmsmith.userfile.text.parts import SourceFile

_LIST = re.compile(r"([\w:]*)\s*(?:\{(.*)\}|(?<=\w)\((.*)\))", re.S)  # {1, 2}, Config{1, 2}, read as Config(1, 2)
_DESIGNATED = re.compile(r"\.\s*(\w+)\s*=\s*(.*)", re.S)


def member_text(variable: Variable, member: str, sources: Iterable[SourceFile]) -> str:
    """The text that initialises a member, by its name or its place; empty where there is none."""
    match = _LIST.fullmatch(variable.value.strip())
    if match is None:
        return ""
    parts = [part.strip() for part in split_template(match[2] if match[2] is not None else match[3])]
    named = {found[1]: found[2] for part in parts if (found := _DESIGNATED.fullmatch(part))}
    if named:
        return named.get(member, "")
    kind = _element(re.sub(r"\b(?:const|constexpr|static|struct)\b", " ", variable.type).strip())
    kind = kind if kind != "auto" else match[1].rsplit("::", 1)[-1]
    fields = next((source.class_fields[kind] for source in sources if kind in source.class_fields), ())
    place = next((i for i, field in enumerate(fields) if field.name == member), len(parts))
    return parts[place] if place < len(parts) else ""


def _element(kind: str) -> str:
    """The last name of a type, or of the elements of a container of it."""
    kind = re.sub(r"\[[^\]]*\]", "", kind).strip()
    match = re.fullmatch(r"(?:std::)?(?:vector|array|initializer_list)\s*<\s*([\w:]+).*", kind, re.S)
    return (match[1] if match is not None else kind.rstrip("&* ")).rsplit("::", 1)[-1]
