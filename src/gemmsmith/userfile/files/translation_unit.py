"""Which file to compile for a kernel in a header: the header, or a file that includes it and defines what it uses."""

from __future__ import annotations

import re
from pathlib import Path

from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.text.parts import KernelSource, SourceFile

_HEADERS = frozenset({".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl"})
_WORD = re.compile(r"[A-Za-z_]\w*")
_VECTOR = re.compile(r"\b(?:float|double|u?int|u?short|u?char|half|__half|__nv_bfloat16)[234]\b")
_OPERATOR = "operator"
_MOST = 8  # including files looked at


def translation_unit(project: Project, kernel: KernelSource) -> Path:
    """The user's file; if it is a header that uses names of a file that includes it, that file."""
    path = project.path
    if path.suffix not in _HEADERS:
        return path
    own = project.sources(path)
    used = _used(own, kernel) - _defined(own)
    for file in project.mentioning(path, path.name)[:_MOST] if used else ():
        reached = project.sources(file) if project.read(file) is not None else ()
        if any(source.path.resolve() == path.resolve() for source in reached) and used & _defined(reached):
            return file
    return path


def _used(sources: tuple[SourceFile, ...], kernel: KernelSource) -> set[str]:
    """Names in the kernel and in its file's device functions, but for those that these declare."""
    texts = [kernel.head, kernel.body]
    texts += [f.head + f.body for source in sources for f in source.functions if f.device]
    used: set[str] = set()
    for text in texts:
        declared = set(re.findall(r"[\w>*&]\s+[*&]*(\w+)\s*(?=[=;,()\[{:>])", text)) - set(
            re.findall(r"(\w+)\s*[(*&]", text)
        )
        members = set(re.findall(r"(?:\.|->)\s*(\w+)", text))
        used |= set(_WORD.findall(text)) - declared - members
        if _VECTOR.search(text):  # CUDA has no operators for float4 and its like: files define their own
            used.add(_OPERATOR)
    return used - {p.name for p in kernel.parameters} - {p.name for p in kernel.template or ()}


def _defined(sources: tuple[SourceFile, ...]) -> set[str]:
    """Types, macros, constants and device functions by name."""
    found: set[str] = set()
    for source in sources:
        found |= {*source.aliases, *source.macros, *source.qualified, *source.constants}
        found |= {function.name for function in source.functions if function.device}
        if any(function.name.startswith(_OPERATOR) for function in source.functions):
            found.add(_OPERATOR)
    return found
