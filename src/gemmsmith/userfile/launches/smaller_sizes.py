"""Smaller sizes for a kernel whose file fixes M, N and K as constants, where its own take the simulator too long.

The constants that the sizes are computed from are followed to plain numbers: of ``M_GLOBAL = M * M_TILES`` the larger,
M_TILES, is made smaller. Every size is a whole fraction of the file's own, or a multiple of one, so that it stays a
multiple of the kernel's tiles where these divide the fraction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.fixed_extents import fixed_names
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import read_facts, user_kernel

# M, N and K, all different; small ones first. Multiples of 128 fit nearly every tile, and K needs several k-tiles.
_TARGETS = ((256, 128, 192), (256, 128, 384), (256, 384, 512), (512, 256, 1024))
_SQUARE = (256, 384, 512)
_NUMBER = re.compile(r"\(*\s*(\d+)[uUlL]*\s*\)*")


@dataclass(frozen=True)
class SmallerSizes:
    """Values of the file's constants, and what they were: ``defines`` are as ``-D`` takes them."""

    defines: tuple[tuple[str, str], ...]
    before: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        now = ", ".join(f"{name}={value}" for name, value in self.defines)
        return f"{now} (in the file: {', '.join(str(value) for _, value in self.before)})"


def smaller_sizes(path: Path, options: UserOptions) -> Iterator[SmallerSizes]:
    """Smaller sizes of the kernel, the smallest first; none where they do not follow from constants of the file."""
    facts, constants = read_facts(path, options)
    texts: dict[str, str] = {}
    for source in reversed(facts.sources):
        texts |= source.constants
    names = fixed_names(facts.reached, constants)
    roots = {role: _root(name, texts, constants) for role, name in names.items()}
    if not names or not all(roots.values()) or any(root in dict(options.defines) for root in roots.values()):
        return
    square = len(set(roots.values())) == 1
    for target in [(side,) * 3 for side in _SQUARE] if square else (*_TARGETS, *_fractions(names, constants)):
        values = _values(roots, names, constants, target)
        if values is None:
            continue
        found = SmallerSizes(tuple((name, str(value)) for name, value in values.items()),
                             tuple((name, constants[name]) for name in values))  # fmt: skip
        if _fixed(path, options, found) == target:
            yield found


def _fractions(names: Mapping[str, str], constants: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
    """The file's own sizes divided by one number: a kernel may need those of its sizes equal that are."""
    own = [constants[names[role]] for role in EXTENTS]
    for least in (256, 512):
        if not any(extent * least % min(own) for extent in own):
            yield tuple(extent * least // min(own) for extent in own)


def _root(name: str, texts: Mapping[str, str], constants: Mapping[str, int], depth: int = 0) -> str:
    """The plain number that ``name`` follows from, the largest if there are several; empty if there is none."""
    text = texts.get(name, "")
    if _NUMBER.fullmatch(text):
        return name
    if depth > 8:
        return ""
    words = [word for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text)) if word in texts]
    found = [root for word in words if (root := _root(word, texts, constants, depth + 1)) and root in constants]
    return max(found, key=lambda root: constants[root], default="")


def _values(
    roots: Mapping[str, str], names: Mapping[str, str], constants: Mapping[str, int], target: tuple[int, ...]
) -> dict[str, int] | None:
    """What each root must be for the sizes of ``target``; None where that is no whole number, or not smaller."""
    values: dict[str, int] = {}
    for role, wanted in zip(EXTENTS, target, strict=True):
        root, now = roots[role], constants[names[role]]
        value, left = divmod(constants[root] * wanted, now)
        if left or not 0 < value <= constants[root] or values.get(root, value) != value:
            return None
        values[root] = value
    return values


def _fixed(path: Path, options: UserOptions, found: SmallerSizes) -> tuple[int, ...]:
    """M, N and K with these values, as the file is then read."""
    try:
        spec = user_kernel(path, replace(options, defines=(*options.defines, *found.defines)))
    except GemmsmithError:
        return ()
    own = spec.signature.transposed() if spec.signature.column_major else spec.signature
    sizes = dict(own.fixed)
    return tuple(sizes.get(role, 0) for role in EXTENTS)
