"""Kernels of one name with different parameters. NVRTC is asked for a kernel by its name alone, so that in a copy of
the file only the kernel that is meant keeps it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gemmsmith.userfile.edited import Edited, edited_text
from gemmsmith.userfile.parts import KernelSource
from gemmsmith.userfile.source import read_text
from gemmsmith.userfile.tokens import Text, normalized


def without_overloads(kernel: KernelSource, kernels: Sequence[KernelSource], edited: Edited) -> Edited:
    """Texts in place of files, in which the others of ``kernel``'s name have another; ``edited`` if there are none."""
    others = [k for k in kernels if k.qualified == kernel.qualified and k.parameters != kernel.parameters
              and k.file.resolve() == kernel.file.resolve() and k.line != kernel.line]  # fmt: skip
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
