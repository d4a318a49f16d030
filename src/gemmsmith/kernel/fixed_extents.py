"""M, N and K of a kernel that takes none of them: constants of its file, or the sizes of one fragment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gemmsmith.kernel.extents_by_use import constants_by_use
from gemmsmith.kernel.signature import Signature

_EXTENTS = ("M", "N", "K")
# Names of constants that fix an extent, the most explicit first.
_FIXED = (
    *(tuple(name.replace("X", extent) for extent in "MNK")
      for name in ("X_GLOBAL", "X_TOTAL", "X_SIZE", "X_DIM", "SIZE_X", "DIM_X", "X")),
    ("NI", "NJ", "NK"), ("I", "J", "K"), ("A_ROWS", "B_COLS", "A_COLS"), ("ROWS_A", "COLS_B", "COLS_A"),
    ("HA", "WB", "WA"), ("ROW_A", "COL_B", "COL_A"), ("A_ROW", "B_COL", "A_COL"),
)  # fmt: skip
_FRAGMENT = re.compile(r"\bmatrix_[ab]\s*,\s*(\w+)\s*,\s*(\w+)\s*,\s*(\w+)\s*,")
_ROWS_APART = re.compile(r"(?:^|_)(?:PAD(?:DED)?|PITCH|STRIDE|LD[ABC]?)(?:_|$)", re.I)
_MOST_PADDING = 128
_FIXED_SQUARE = ("N", "WIDTH", "SIZE", "MATRIX_SIZE", "DIM", "MAT_SIZE", "MATSIZE", "NN", "L", "LEN")


def fixed_extents(signature: Signature, body: str, constants: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """M, N and K of a kernel that takes none, by the constants of its file or by the one fragment that it makes."""
    names = fixed_names(body, constants)
    if names:
        names = constants_by_use(signature, names, body)
    return tuple((role, constants[name]) for role, name in names.items()) or _one_fragment(body, constants)


def _one_fragment(body: str, constants: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The sizes of a kernel that makes one fragment of C: a first example of wmma takes no others."""
    if re.search(r"\b(?:blockIdx|for|while)\b", body):
        return ()
    found = set(_FRAGMENT.findall(body))
    sizes = [constants.get(name, int(name) if name.isdecimal() else 0) for names in found for name in names]
    return tuple(zip(_EXTENTS, sizes, strict=True)) if len(found) == 1 and all(sizes) else ()


def fixed_names(body: str, constants: Mapping[str, int]) -> dict[str, str]:
    """The constants that set M, N and K, by role; those of a plain name must be used by the kernel."""
    known = {name for name, value in constants.items() if value > 0}
    for names in _FIXED:
        explicit = names[0].strip("MNK").startswith("_") or names[0].endswith("_M")
        used = known.issuperset(names) and (explicit or set(names) & _words_of(body))
        if used:
            return dict(zip(_EXTENTS, names, strict=True))
    side = next((name for name in _FIXED_SQUARE if name in known and name in _words_of(body)), "")
    return dict.fromkeys(_EXTENTS, side) if side else {}


def padded_rows(fixed: tuple[tuple[str, int], ...], constants: Mapping[str, int], body: str) -> str:
    """The constant of ``body`` that says how far rows of a matrix are apart, where that is more than they are long:
    K_PAD. Constants of other kernels say nothing."""
    used = _words_of(body)
    for name, value in ((name, value) for name, value in constants.items() if name in used):
        long = any(_MOST_PADDING < extent < value <= extent + _MOST_PADDING for _, extent in fixed)
        if long and value not in dict(fixed).values() and _ROWS_APART.search(name):
            return name
    return ""


def _words_of(body: str) -> set[str]:
    return set(re.findall(r"\w+", body))
