"""Strides by name or by use: stride_am and stride_ak, rs_a and cs_a, lda_row and lda_col; p in a[i * p]."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gemmsmith.kernel.role_names import words

# What the first and the second index of each matrix are called.
_AXES = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n")}
_FIRST, _SECOND = frozenset(("row", "rows", "rs", "0", "r")), frozenset(("col", "column", "cols", "cs", "1", "c"))
_ONE = frozenset(("row", "col", "rs", "cs"))
_NOISE = frozenset(("stride", "strides", "s", "inc", "ld", "st", "step"))


def stride_roles(
    names: Mapping[int, str], known: Mapping[int, str], matrices: Mapping[str, str], body: str
) -> dict[int, str]:
    """The roles of strides among the integers ``names`` that are not ``known``, by place: those of both axes, and the
    one number beside M, N and K that is a pitch. ``matrices``: the role of each pointer, by its name."""
    found = axis_strides(names, known) or strides_of_pointers(names, matrices, body)
    found = found or strides_by_use(names, known, matrices, body)
    lacking = [place for place in names if not known.get(place) and place not in found]
    batched = {place: role for place in lacking if (role := batch_stride_by_use(names[place], matrices, body))}
    if len(set(batched.values())) == len(batched):
        found |= batched
    lacking = [place for place in lacking if place not in found]
    if (len(lacking) == 1 or batched) and {"M", "N", "K"} <= set(known.values()):
        extents = [names[place] for place, role in known.items() if role in ("M", "N", "K") and place in names]
        pitches = {place: pitch_by_use(names[place], matrices, body, extents) for place in lacking}
        if len(set(pitches.values())) == len(pitches):
            found |= pitches
    return found


def batch_stride_by_use(name: str, matrices: Mapping[str, str], body: str) -> str:
    """The batch stride that a number is, by the one pointer that it moves from product to product: ``A += blockIdx.z *
    as0``, ``B + z * bs0``. Empty where it has another use as well."""
    product = re.findall(r"\b(\w+)\s*=\s*(?:\(\w+\)\s*)?blockIdx\.z\s*;", body)
    counts = "|".join((r"blockIdx\.z", *map(re.escape, product)))
    word, cast = re.escape(name), r"(?:\(\s*[\w\s]+\)\s*)?"
    step = rf"(?:{cast}(?<![\w.])(?:{counts})\s*\*\s*{cast}{word}\b|{cast}\b{word}\s*\*\s*{cast}(?:{counts})\b)"
    found = {
        pointer: len(re.findall(rf"(?<![\w.]){re.escape(pointer)}\s*(?:\+=|\+|\[)\s*{step}", body))
        for pointer in matrices
    }
    moved = {matrices[pointer]: count for pointer, count in found.items() if count}
    uses = len(re.findall(rf"(?<![\w.]){word}\b", body))
    role = next(iter(moved), "")
    return f"stride{role}" if len(moved) == 1 and moved[role] == uses and role in ("A", "B", "C") else ""


def axis_strides(names: Mapping[int, str], known: Mapping[int, str]) -> dict[int, str]:
    """The roles of those of ``names`` that are not ``known``, by place. Beside a stride of 1 the other one is the
    leading dimension; where neither is known, the first is, as in a row-major product. Empty where a matrix has a
    stride of one axis alone, or C has none and no leading dimension."""
    places = {axis: place for place, name in names.items() if (axis := _axis(name))}
    both = "".join(matrix for matrix in "abc" if (matrix, 0) in places)
    if both not in ("abc", "ab") or sorted(places) != [(matrix, number) for matrix in both for number in (0, 1)]:
        return {}
    if both == "ab" and "ldc" not in known.values():
        return {}
    found: dict[int, str] = {}
    for matrix in both:
        first, second = places[matrix, 0], places[matrix, 1]
        by_column = known.get(first) == "1" and known.get(second) != "1"
        meant = {first: "1" if by_column else f"ld{matrix}", second: f"ld{matrix}" if by_column else "1"}
        found |= {place: role for place, role in meant.items() if not known.get(place)}
    return found


def strides_named_as_extents(names: Mapping[int, str], known: Mapping[int, str]) -> frozenset[int]:
    """The places of strides that look like extents: a_row and a_col beside M, N and K themselves, which are called by
    their letters. Rows in the plural are a number of rows."""
    letters = {known[place] for place, name in names.items() if known.get(place, "").lower() == name.lower()}
    if not {"M", "N", "K"} <= letters:
        return frozenset()
    places = {axis: place for place, name in names.items() if known.get(place) in ("M", "N", "K")
              and (axis := _axis(name)) and words(name)[-1] in _ONE and len(words(name)) == 2}  # fmt: skip
    return frozenset(place for (matrix, number), place in places.items() if (matrix, 1 - number) in places)


def strides_of_pointers(names: Mapping[int, str], matrices: Mapping[str, str], body: str) -> dict[int, str]:
    """The roles of strides that are named after their pointer, two for each, whatever the axes are called: x_stride_n
    and x_stride_d in x[i * x_stride_n + k * x_stride_d]. The first one is that of rows. Empty unless all have them."""
    found: dict[int, str] = {}
    for pointer, role in matrices.items():
        named = {place: name for place, name in names.items() if _is_stride_of(pointer, name)}
        own = [place for place, name in named.items() if _is_factor(name, pointer, body)]
        if len(own) != 2 or role not in ("A", "B", "C"):
            return {}
        found |= {own[0]: f"ld{role.lower()}", own[1]: "1"}
    return found if len(matrices) == 3 else {}


def strides_by_use(
    names: Mapping[int, str], known: Mapping[int, str], matrices: Mapping[str, str], body: str
) -> dict[int, str]:
    """The roles of strides, two for each of A and B, by their use alone: ai and al in A[i * ai + l * al], beside M, N
    and K. C has two as well, or a leading dimension. The first one is that of rows."""
    if not {"M", "N", "K"} <= set(known.values()):
        return {}
    found: dict[int, str] = {}
    lacking = {place: name for place, name in names.items() if not known.get(place)}
    of_pointers = {place: [pointer for pointer in matrices if _is_factor(name, pointer, body)]
                   for place, name in lacking.items()}  # fmt: skip
    for pointer, role in matrices.items():
        own = [place for place, pointers in of_pointers.items() if pointers == [pointer]]
        if role == "C" and not own and "ldc" in known.values():
            continue
        if role in ("A", "B", "C"):
            if len(own) != 2 or not _are_all_strides([names[place] for place in own], pointer, body):
                return {}
            found |= {own[0]: f"ld{role.lower()}", own[1]: "1"}
    return found if len(found) == len(lacking) else {}


def _are_all_strides(strides: Sequence[str], pointer: str, body: str) -> bool:
    """Whether every index of a pointer is the sum of two products, one with each stride: in x[b * s + m * t + k] the
    stride of k is 1, and s is a batch's."""
    indices = re.findall(rf"(?<![\w.]){re.escape(pointer)}\s*\[([^\[\]]*)\]", body)
    factor = r"(?:\*\s*(?:\(\s*\w+\s*\)\s*)?{0}\b|(?<![\w.]){0}\s*\*)"
    for index in indices:
        terms = _terms(index)
        told = [[each for each in strides if re.search(factor.format(re.escape(each)), term)] for term in terms]
        if sorted(told) != sorted([each] for each in strides):
            return False
    return bool(indices)


def _terms(index: str) -> list[str]:
    """What is added up, outside of brackets."""
    terms, depth = [""], 0
    for letter in index:
        depth += (letter in "([") - (letter in ")]")
        if letter == "+" and depth == 0:
            terms.append("")
        else:
            terms[-1] += letter
    return terms


def _is_stride_of(pointer: str, name: str) -> bool:
    told, own = words(name), words(pointer)
    if told[: len(own)] == own:
        told = told[len(own) :]
    elif told[-len(own) :] == own:
        told = told[: -len(own)]
    else:
        return False
    return len(told) == 2 and sum(each in _NOISE for each in told) == 1


def _is_factor(name: str, pointer: str, body: str) -> bool:
    """Whether an index of the pointer has a product with ``name``."""
    indices = re.findall(rf"\b{re.escape(pointer)}\s*\[([^\[\]]*)\]", body)
    word = rf"\b{re.escape(name)}\b"
    return any(re.search(rf"\*\s*{word}|{word}\s*\*", index) for index in indices)


def pitch_by_use(name: str, matrices: Mapping[str, str], body: str, extents: Sequence[str] = ()) -> str:
    """The leading dimension that a number is, by the one matrix that is indexed with a row times it: a[i * p + k]. Else
    empty: in a[(i * H + h) * K + k] H counts heads, in a[i * K + t * W + x] W is the width of a tile. ``matrices``: the
    role of each pointer, by its name; ``extents``: the names of M, N and K."""
    word = re.escape(name)
    row = re.compile(rf"\s*(?:[\w.]+\s*\*\s*{word}|{word}\s*\*\s*[\w.]+)\s*")
    sizes = "|".join(map(re.escape, extents)) or r"(?!)"
    other = re.compile(rf"\*\s*(?:{sizes})\b|\b(?:{sizes})\s*\*")
    found, used = set(), set()
    for pointer, role in matrices.items():
        indices = re.findall(rf"\b{re.escape(pointer)}\s*\[([^\[\]();]*)\]", body)
        used |= {role for index in indices if re.search(rf"\b{word}\b", index)}
        found |= {role for index in indices
                  if any(row.fullmatch(term) for term in index.split("+")) and not other.search(index)}  # fmt: skip
    # In c[n * M * L + m * L + l] beside b[k * L + l] L is an extent of both.
    return f"ld{found.pop().lower()}" if len(found) == 1 and found == used and found <= set("ABC") else ""


def axis_of_field(name: str) -> int | None:
    """Which axis of its matrix a member of a struct is the stride of: 0 of s0, row_stride and rs, 1 of s1; None of
    numbers that are not called strides, as rows and cols."""
    told = words(name)
    axes = [each for each in told if each not in _NOISE]
    if len(axes) != 1 or (len(told) == 1 and axes[0] not in ("rs", "cs")):
        return None
    return 0 if axes[0] in _FIRST else 1 if axes[0] in _SECOND else None


def is_called_stride(name: str) -> bool:
    """Whether a member of a struct is called a stride: s2, batch_stride, ld."""
    return bool(_NOISE & set(words(name))) or name.lower() in ("rs", "cs")


def stored_by_columns(names: Mapping[str, str]) -> tuple[bool, bool, bool] | None:
    """Whether A, B and C are stored column by column: the stride of the first axis is 1. ``names``: the role of each
    parameter. None where not every matrix has strides of both axes that tell."""
    found = {axis: role for name, role in names.items() if (axis := _axis(name))}
    ones = [[found.get((matrix, number)) == "1" for number in (0, 1)] for matrix in "abc"]
    if any(first == second for first, second in ones):
        return None
    return ones[0][0], ones[1][0], ones[2][0]


def _axis(name: str) -> tuple[str, int] | None:
    """The matrix and the number of the axis that a stride is named after."""
    told = [each for each in words(name) if each not in _NOISE]
    for matrix, axes in _AXES.items():
        for number, (letter, sides) in enumerate(zip(axes, (_FIRST, _SECOND), strict=True)):
            for word in (*sides, letter):
                spelled = ([matrix, word], [word, matrix], [matrix + word], [f"ld{matrix}", word])
                if told in spelled:
                    return matrix, number
    return None
