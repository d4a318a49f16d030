"""Which array a text of host code tells: through casts, variables, members of structs and pointers into it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.kernel.expressions import split
from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.host.host_loops import plain_array
from gemmsmith.userfile.text.syntax import words

_PATH = re.compile(r"[&*\s(]*((?:this\s*->\s*)?[A-Za-z_]\w*(?:\s*(?:\.|->)\s*[A-Za-z_]\w*)*)\s*([<(]?)")
_LISTED = re.compile(r"^\s*(\w*)\s*[({](.*)[)}]\s*$", re.S)  # the members of a struct, in order


def roots_of(text: str, frame: Frame) -> Iterator[str]:
    """The array that a text tells, and those that it is a part of: pa and scratch of ``float* pa = scratch + 64``."""
    seen: set[str] = set()
    while (path := array_in(text)) and path not in seen:
        seen.add(path)
        yield path
        text = _value(path, frame)


def _value(path: str, frame: Frame) -> str:
    """What a variable, or a member of a struct, was set to; empty where that is not known."""
    known = {**frame.locals.variables, **frame.locals.members}
    if path in known:
        return known[path].value
    name, _, member = path.rpartition(".")
    held = frame.locals.variables.get(name)
    if held is None or not member or not (match := _LISTED.search(held.value)):
        return ""
    kinds = [words(re.sub(r"\b(?:const|struct)\b", " ", held.type)), match[1]]
    members = [each.name for source in frame.sources for kind in kinds for each in source.class_fields.get(kind, ())]
    texts = split(match[2])
    return texts[members.index(member)] if member in members and members.index(member) < len(texts) else ""


def array_in(text: str) -> str:
    """The variable at the beginning of a text that tells an array: "ws.a" of ``(float*)ws.a + 8``, "packed" of
    ``packed.data_ptr<float>()``."""
    match = _PATH.match(plain_array(words(text)))
    if match is None:
        return ""
    path = re.sub(r"\s", "", match[1]).replace("->", ".").removeprefix("this.")
    return path.rpartition(".")[0] if match[2] else path
