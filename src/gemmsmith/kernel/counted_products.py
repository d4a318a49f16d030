"""Numbers that count the products of a batch, by their use:

i < count, A + i * DIM * DIM    matrices whose sizes are constants, one after another
i < count, As[i]                arrays of pointers, beside M, N and K
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from math import prod

from gemmsmith.kernel.role_names import extent_role, words
from gemmsmith.kernel.signature import Signature

_EXTENTS = ("M", "N", "K")
_SIDES = frozenset(("size", "sz", "dim", "dims", "side", "order", "len", "length", "extent", "mat", "matrix", "global",
                    "l", "s", "ld", "stride", "pitch"))  # fmt: skip
_ASSIGNED = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*[-+*/%]?=(?!=)\s*([^;]*)")
_FACTORS = re.compile(r"(?:\s*\*\s*\(?\s*\w+\b\)?)+")
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[A-Za-z_]\w*")


def counts_matrices(name: str, body: str, sizes: Mapping[str, int], constants: Mapping[str, int]) -> bool:
    """Whether a number bounds an index that steps from matrix to matrix: it is compared with one that is multiplied by
    as many elements as a matrix has, and is no factor itself. ``sizes``: M, N and K, which are constants."""
    if not sizes or _is_factor(name, body):
        return False
    elements = {sizes["M"] * sizes["K"], sizes["K"] * sizes["N"], sizes["M"] * sizes["N"]}
    for index in _derived(_compared(name, body) | {name}, body):
        for rest in re.findall(rf"(?<![\w.]){re.escape(index)}\b([^;,\[\]]*)", body):
            for factors in _FACTORS.findall(rest):
                values = [int(word) if word.isdecimal() else constants.get(word, 0) for word in _WORD.findall(factors)]
                if any(prod(values[: i + 1]) in elements for i in range(len(values))):
                    return True
    return False


def counts_pointers(name: str, tables: Collection[str], body: str) -> bool:
    """Whether a number bounds the index into arrays of pointers, and is no factor of another one."""
    return not _is_factor(name, body) and any(
        re.search(rf"(?<![\w.]){re.escape(table)}\s*\[\s*{re.escape(index)}\s*\]", body)
        for index in _compared(name, body)
        for table in tables
    )


def unclear_extents(signature: Signature, body: str, grid: str) -> tuple[str, ...]:
    """The numbers that are taken for extents, though neither their names say so, nor an index that they are a factor
    of, nor a grid that has them along two axes: they may count anything."""
    found = []
    for arg in signature.arguments:
        if arg.role not in _EXTENTS or "." in arg.name or _says_extent(arg.name) or _says_extent(arg.at_launch):
            continue
        if not _is_factor(arg.name, body) and len(re.findall(rf"\b{re.escape(arg.at_launch or arg.name)}\b", grid)) < 2:
            found.append(arg.name)
    return tuple(found)


def _says_extent(name: str) -> bool:
    return bool(extent_role(name)) or (bool(words(name)) and set(words(name)) <= _SIDES)


def _compared(name: str, body: str) -> set[str]:
    """Variables that are compared with a number, as an index is with its bound."""
    word = rf"(?<![\w.]){re.escape(name)}\b"
    return {
        *re.findall(
            rf"(?<![\w.])([A-Za-z_]\w*)\s*(?:<|>=)\s*\(?(?:int|unsigned|size_t)?\)?\s*{word}(?!\s*[-+*/%.])", body
        ),
        *re.findall(rf"{word}\s*(?:>|<=)\s*([A-Za-z_]\w*)\b(?!\s*[-+*/%.])", body),
    }


def _is_factor(name: str, body: str) -> bool:
    """Whether something is multiplied by a number, or divided by it."""
    word = rf"(?<![\w.]){re.escape(name)}\b"
    return re.search(rf"{word}\s*[*/%]|[*/%]=?\s*(?:\(\s*\w+\s*\)\s*)?{word}", body) is not None


def _derived(seeds: set[str], body: str) -> set[str]:
    """``seeds``, and variables that are set to something with one of them."""
    found = set(seeds)
    assigned = [(name, set(_NAME.findall(value))) for name, value in _ASSIGNED.findall(body)]
    while new := {name for name, used in assigned if used & found} - found:
        found |= new
    return found
