"""Which kernel of a file is meant: the only one, the one that ``--entry`` names, or the only matrix product."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.errors import SeveralKernelsError, SignatureError
from gemmsmith.userfile.kernels.conditional_kernel import hidden_kernel
from gemmsmith.userfile.kernels.overloads import overloads_of
from gemmsmith.userfile.launches.launch_text import launched
from gemmsmith.userfile.text.parts import KernelSource

_LISTED = 12  # kernels named in a message
_INTEGER = re.compile(r"\b(?:int|unsigned|size_t|long|u?int\d+_t)\b")
_ARRAYS, _SIZES = 3, 3  # that a kernel of a product takes at least


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
    path: Path, kernels: Sequence[KernelSource], wanted: str, is_product: Callable[[KernelSource], bool],
    has_operands: Callable[[KernelSource], bool] = lambda _: False,
) -> Entry:  # fmt: skip
    """The kernel called ``wanted``; without a name the only kernel, or the only one with a product's signature; else
    the only one that takes what a product does."""
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
        parts = [kernel for kernel in group if _may_begin_a_product(kernel) or has_operands(kernel)]
        if len(parts) == 1:
            return Entry(parts[0])
    raise SeveralKernelsError(f"{path.name} has several kernels: {_names(own)}", "choose one with --entry NAME")


def _may_begin_a_product(kernel: KernelSource) -> bool:
    """Whether a kernel takes three arrays and three sizes or more, as one that leaves partial sums for the next."""
    types = [parameter.type for parameter in kernel.parameters]
    sizes = [each for each in types if "*" not in each and _INTEGER.search(each)]
    return sum("*" in each for each in types) >= _ARRAYS and len(sizes) >= _SIZES


def spelled_entry(kernel: KernelSource, kernels: Sequence[KernelSource]) -> str:
    """The name by which ``--entry`` finds a kernel: of overloads with the line, "gemm:9"."""
    return f"{kernel.qualified}:{kernel.line}" if overloads_of(kernel, kernels) else kernel.qualified


def _named(path: Path, kernels: Sequence[KernelSource], wanted: str) -> Entry:
    at_line = re.fullmatch(r"(.*[^:\s])\s*:\s*(\d+)", wanted.strip())
    if at_line is not None:
        kernels = [kernel for kernel in kernels if kernel.line == int(at_line[2])] or kernels
        wanted = at_line[1]
    name, template = launched(wanted)
    name = re.sub(r"\s", "", name).removeprefix("::")
    found = [kernel for kernel in kernels if ("::" + kernel.qualified).endswith("::" + name)]
    own = [kernel for kernel in found if kernel.file.resolve() == path.resolve()] or found
    if not own:
        known = _names(kernels) or "none"
        raise SignatureError(f"{path.name} has no __global__ function named {wanted!r}", f"its kernels: {known}")
    exact = [kernel for kernel in own if kernel.qualified == name]
    spellings = {kernel.qualified for kernel in exact or own}
    if len(spellings) > 1:
        raise SignatureError(f"{wanted!r} names several kernels of {path.name}: {', '.join(sorted(spellings))}",
                             "give the name with its namespace")  # fmt: skip
    kernel = (exact or own)[0]
    others = overloads_of(kernel, exact or own)
    if others and not any(hidden_kernel(each.file, each.line, {}) for each in (kernel, *others)):
        error = SeveralKernelsError(
            f"{name} names {len(others) + 1} kernels of {path.name}, with other parameters each",
            f"choose one by its line: --entry {kernel.qualified}:{others[0].line}",
        )
        error.lines = tuple(each.line for each in (kernel, *others))
        raise error
    if template and len(template) > len(kernel.template or ()) and not any(p.pack for p in kernel.template or ()):
        takes = len(kernel.template or ())
        raise SignatureError(f"{wanted!r} gives {len(template)} template arguments, but {kernel.name} takes {takes}",
                             "give as many as the template has")  # fmt: skip
    return Entry(kernel, template)


def _names(kernels: Sequence[KernelSource]) -> str:
    names = list(dict.fromkeys(kernel.qualified for kernel in kernels))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
