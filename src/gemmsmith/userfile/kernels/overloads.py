"""Kernels of one name with different parameters. NVRTC is asked for a kernel by its name alone, so that in a copy of
the file only the kernel that is meant keeps it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from gemmsmith.userfile.files.edited import Edited, edited_text
from gemmsmith.userfile.text.parts import KernelSource
from gemmsmith.userfile.text.source import read_text
from gemmsmith.userfile.text.tokens import Text, normalized


def overloads_of(kernel: KernelSource, kernels: Iterable[KernelSource]) -> list[KernelSource]:
    """The other kernels of its file with its name and other parameters."""
    return [k for k in kernels if k.qualified == kernel.qualified and k.parameters != kernel.parameters
            and k.line != kernel.line and k.file.resolve() == kernel.file.resolve()]  # fmt: skip


def was_overloaded(kernel: KernelSource, kernels: Iterable[KernelSource]) -> bool:
    """Whether others of its name were renamed by ``without_overloads``."""
    return any(k.qualified == f"{kernel.qualified}_{k.line}" and k.file == kernel.file for k in kernels)


def may_take(kernel: KernelSource, arguments: Sequence[str], type_of: Callable[[str], str]) -> bool:
    """Whether a launch with these arguments may be one of this overload: by their number and the types of pointers."""
    required = sum(1 for parameter in kernel.parameters if not parameter.default)
    if not required <= len(arguments) <= len(kernel.parameters):
        return False
    generic = {parameter.name for parameter in kernel.template or ()}
    for parameter, text in zip(kernel.parameters, arguments, strict=False):
        own, given = _pointed(parameter.type), _pointed(type_of(text))
        if own and given and own != given and own not in generic:
            return False
    return True


def _pointed(kind: str) -> str:
    """What a pointer points to, by its plain name; empty for what is no pointer, or is not known."""
    bare = re.sub(r"\b(?:const|volatile|__restrict__|__restrict|struct)\b|&|\s", "", kind)
    return bare[:-1].rsplit("::", 1)[-1] if bare.endswith("*") else ""


def without_overloads(kernel: KernelSource, kernels: Sequence[KernelSource], edited: Edited) -> Edited:
    """Texts in place of files, in which the others of ``kernel``'s name have another; ``edited`` if there are none."""
    others = overloads_of(kernel, kernels)
    if not others:
        return edited
    raw = edited_text(kernel.file, edited)
    known = Text(normalized(read_text(kernel.file) if raw is None else raw))
    lines, bare = known.text.split("\n"), known.bare.split("\n")
    for other in others:
        named = re.search(rf"\b{re.escape(other.name)}\b", bare[other.line - 1])
        if named is None:
            return edited
        text = lines[other.line - 1]
        lines[other.line - 1] = f"{text[: named.end()]}_{other.line}{text[named.end() :]}"
    changed = (kernel.file, "\n".join(lines))
    return (*((file, text) for file, text in edited if file.resolve() != kernel.file.resolve()), changed)
