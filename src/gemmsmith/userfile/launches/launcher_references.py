"""Launchers that host code names without calling them: in tables, as arguments of a function that measures them, or in
a macro that lists them.

compare(reference, launch_tiled<Config<128, 128, 8>>);
const Entry entries[] = {{"small", launch_tiled<Small>}, {"large", launch_tiled<Large>}};
#define KERNELS(ENTRY) ENTRY(small, (tiled::launch<64, 8>)) ENTRY(large, (tiled::launch<128, 8>))
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.parts import FunctionSource, SourceFile


def references(
    source: SourceFile, project: Project, name: str, launcher: FunctionSource | None = None
) -> Iterator[tuple[Frame, tuple[str, ...]]]:
    """Where ``source`` names the function template ``name`` with its arguments and does not call it.

    With ``launcher``, not where the name belongs to another function of the source or of its headers.
    """
    bodies = [macro.body for macro in source.macros.values() if name in macro.body]
    if name not in source.text and not bodies:
        return
    for function in source.functions:
        # Inside a template the arguments are mostly its own, which would have to be followed through every caller.
        generic = function.template or function.scope.rsplit("::", 1)[-1] in source.class_templates
        if function.name != name and not generic:
            for start, owner, template in _named(function.body, name):
                frame = Frame(source, project, function, start)
                if not belongs_elsewhere(owner, launcher, frame):
                    yield frame, template
    for text in (*source.variables.values(), *source.constants.values(), *bodies):
        for _, owner, template in _named(text, name):
            frame = Frame(source, project)
            if not belongs_elsewhere(owner, launcher, frame):
                yield frame, template


def belongs_elsewhere(owner: str, launcher: FunctionSource | None, frame: Frame) -> bool:
    """Whether ``owner::name`` is another function of that name: one whose namespaces or classes end so."""
    if launcher is None or not owner or _ends(launcher.scope, owner):
        return False
    return any(_ends(f.scope, owner) for s in frame.sources for f in s.functions if f.name == launcher.name)


def _ends(scope: str, owner: str) -> bool:
    return f"::{scope}".endswith(f"::{owner}")


def _named(text: str, name: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    for match in re.finditer(rf"((?:\b\w+\s*::\s*)*+)\b{re.escape(name)}\s*<(?!<)", text):
        end = _closing(text, match.end())
        if end and not text[end:].lstrip().startswith("("):
            owner = re.sub(r"\s", "", match[1]).removesuffix("::")
            yield match.start(), owner, tuple(split_template(text[match.end() : end - 1]))


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
