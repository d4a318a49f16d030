"""Which kernel of a file is meant: the only one, the one that ``--entry`` names, or the only matrix product."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.errors import SeveralKernelsError, SignatureError
from gemmsmith.userfile.launch_text import launched
from gemmsmith.userfile.parts import KernelSource

_LISTED = 12  # kernels named in a message


@dataclass(frozen=True)
class Entry:
    """A kernel, and the template arguments that ``--entry 'k<64, float>'`` gives."""

    kernel: KernelSource
    template: tuple[str, ...] = ()

    def given(self) -> tuple[tuple[str, str], ...]:
        """The template arguments by name."""
        names = [parameter.name for parameter in self.kernel.template or ()]
        return tuple(zip(names, self.template, strict=False))


def choose_entry(
    path: Path, kernels: Sequence[KernelSource], wanted: str, is_product: Callable[[KernelSource], bool]
) -> Entry:
    """The kernel called ``wanted``; without a name the only kernel, or the only one with a product's signature."""
    if wanted:
        return _named(path, kernels, wanted)
    if not kernels:
        raise SignatureError(f"{path.name} has no __global__ function", "add one, or name another file")
    own = [kernel for kernel in kernels if kernel.file.resolve() == path.resolve()] or list(kernels)
    for group in (own, list(kernels)):
        if len(group) == 1:
            return Entry(group[0])
        products = [kernel for kernel in group if is_product(kernel)]
        if len(products) == 1:
            return Entry(products[0])
        if products:
            break
    raise SeveralKernelsError(f"{path.name} has several kernels: {_names(own)}", "choose one with --entry NAME")


def _named(path: Path, kernels: Sequence[KernelSource], wanted: str) -> Entry:
    plain, _, line = wanted.partition("@")  # of kernels that share a name: the one at a line
    name, template = launched(plain)
    name = re.sub(r"\s", "", name).removeprefix("::")
    found = [kernel for kernel in kernels if ("::" + kernel.qualified).endswith("::" + name)]
    own = [kernel for kernel in found if kernel.file.resolve() == path.resolve()] or found
    own = [kernel for kernel in own if not line or str(kernel.line) == line]
    if not own:
        known = _names(kernels) or "none"
        raise SignatureError(f"{path.name} has no __global__ function named {wanted!r}", f"its kernels: {known}")
    exact = [kernel for kernel in own if kernel.qualified == name]
    spellings = {kernel.qualified for kernel in exact or own}
    if len(spellings) > 1:
        raise SignatureError(f"{wanted!r} names several kernels of {path.name}: {', '.join(sorted(spellings))}",
                             "give the name with its namespace")  # fmt: skip
    kernel = (exact or own)[0]
    if template and len(template) > len(kernel.template or ()) and not any(p.pack for p in kernel.template or ()):
        takes = len(kernel.template or ())
        raise SignatureError(f"{wanted!r} gives {len(template)} template arguments, but {kernel.name} takes {takes}",
                             "give as many as the template has")  # fmt: skip
    return Entry(kernel, template)


def entry_of(kernel: KernelSource, kernels: Sequence[KernelSource]) -> str:
    """The name that means one of ``kernels``: with its line where overloads share it."""
    shared = [k for k in kernels if k.qualified == kernel.qualified and k.parameters != kernel.parameters]
    return f"{kernel.qualified}@{kernel.line}" if shared else kernel.qualified


def _names(kernels: Sequence[KernelSource]) -> str:
    names = list(dict.fromkeys(kernel.qualified for kernel in kernels))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
