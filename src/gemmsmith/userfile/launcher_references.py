"""Launchers that host code names without calling them: in tables, or as arguments of a function that measures them.

compare(reference, launch_tiled<Config<128, 128, 8>>);
const Entry entries[] = {{"small", launch_tiled<Small>}, {"large", launch_tiled<Large>}};
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.userfile.host_frame import Frame
from gemmsmith.userfile.launch_text import split_template
from gemmsmith.userfile.parts import SourceFile
from gemmsmith.userfile.project import Project


def references(source: SourceFile, project: Project, name: str) -> Iterator[tuple[Frame, tuple[str, ...]]]:
    """Where ``source`` names the function template ``name`` with its arguments and does not call it."""
    if name not in source.text:
        return
    for function in source.functions:
        # Inside a template the arguments are mostly its own, which would have to be followed through every caller.
        generic = function.template or function.scope.rsplit("::", 1)[-1] in source.class_templates
        if function.name != name and not generic:
            for start, template in _named(function.body, name):
                yield Frame(source, project, function, start), template
    for text in (*source.variables.values(), *source.constants.values()):
        for _, template in _named(text, name):
            yield Frame(source, project), template


def _named(text: str, name: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    for match in re.finditer(rf"\b{re.escape(name)}\s*<(?!<)", text):
        end = _closing(text, match.end())
        if end and not text[end:].lstrip().startswith("("):
            yield match.start(), tuple(split_template(text[match.end() : end - 1]))


def _closing(text: str, start: int) -> int:
    """Where the list that begins at ``start`` has ended; 0 if it does not, or is no list of template arguments."""
    depth = 1
    for place, char in enumerate(text[start:], start):
        depth += (char == "<") - (char == ">")
        if depth == 0:
            return place + 1
        if char in ";{}":
            return 0
    return 0
