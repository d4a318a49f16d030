"""Values for a kernel template that nothing in the repository launches: sizes that such parameters usually have.

They are candidates to try. A kernel that is right with them is right with them, which the report says; one that is not
may need others, so that is no verdict. What ``static_assert`` rules out is not tried, and numbers there are candidates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product

from gemmsmith.userfile.text.parts import TemplateParameter

Pairs = tuple[tuple[str, str], ...]
# What a parameter is, by its name: the tile of a block, of a warp and of a thread, threads, stages, vector widths.
_NAMES = (
    ("TM", r"(?:THREAD|T|MICRO|REG)_?(?:SIZE|TILE)?_?(?:SIZE)?_?[MY]|TM|R_?M|(?:ROWS|M)_PER_THREAD"),
    ("TN", r"(?:THREAD|T|MICRO|REG)_?(?:SIZE|TILE)?_?(?:SIZE)?_?[NX]|TN|R_?N|(?:COLS|COLUMNS|N)_PER_THREAD"),
    ("WM", r"(?:WARP|W)_?(?:SIZE|TILE)?_?(?:SIZE)?_?[MY]|WM"),
    ("WN", r"(?:WARP|W)_?(?:SIZE|TILE)?_?(?:SIZE)?_?[NX]|WN"),
    ("BM", r"(?:(?:THREAD_?)?BLOCK|B|TILE|CTA|BLK)_?(?:SIZE|TILE|DIM)?_?(?:SIZE)?_?[MY]|BM|M_?(?:TILE|BLOCK|T|B)"),
    ("BN", r"(?:(?:THREAD_?)?BLOCK|B|TILE|CTA|BLK)_?(?:SIZE|TILE|DIM)?_?(?:SIZE)?_?[NX]|BN|N_?(?:TILE|BLOCK|T|B)"),
    ("BK", r"(?:(?:THREAD_?)?BLOCK|B|TILE|CTA|BLK)_?(?:SIZE|TILE|DIM)?_?(?:SIZE)?_?K|BK|K_?(?:TILE|BLOCK|T|B)"),
    ("TILE", r"(?:BLOCK|TILE|BLK)_?(?:SIZE|DIM|WIDTH|SZ|LEN)?|BS|TS|BSZ|B|T|TW"),
    ("THREADS", r"N?(?:UM)?_?THREADS(?:_PER_BLOCK)?"),
    ("STAGES", r"(?:K_?|NUM_?|N_?)?STAGES?"),
    ("VEC", r"VEC(?:TOR)?_?(?:SIZE|WIDTH|LEN)?|VW"),
    ("PAD", r"PAD(?:DING)?|SKEW|OFFSET"),
    ("SPLITS", r"SPLIT_?K|SK|(?:NUM_?|N_?)?SPLITS?|K_?SPLITS?"),
)  # fmt: skip
_SETS = (
    {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4, "WM": 32, "WN": 32, "TILE": 16},
    {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8, "WM": 64, "WN": 32, "TILE": 32},
    {"BM": 64, "BN": 64, "BK": 8, "TM": 8, "TN": 8, "WM": 32, "WN": 32, "TILE": 8},
    {"BM": 32, "BN": 32, "BK": 32, "TM": 4, "TN": 4, "WM": 16, "WN": 16, "TILE": 16},
)
_ALWAYS = {"STAGES": 2, "VEC": 4, "PAD": 0, "SPLITS": 1}
# More of each, the likeliest first, where static_assert rules out the sets.
_MORE = {
    "BM": (64, 128, 32, 16, 256), "BN": (64, 128, 32, 16, 256), "BK": (8, 16, 32, 4, 64), "TM": (4, 8, 2, 1, 16),
    "TN": (4, 8, 2, 1, 16), "WM": (32, 64, 16), "WN": (32, 64, 16), "TILE": (16, 32, 8), "THREADS": (256, 128, 64, 512),
    "STAGES": (2, 3, 4), "VEC": (4, 2, 1, 8), "PAD": (0, 4, 8), "SPLITS": (1, 2), "bool": (0,),
}  # fmt: skip
_MOST_COMBINATIONS = 20_000
_MOST_MORE = 4
_MOST_VALUES = 8


def template_guesses(
    missing: Sequence[TemplateParameter],
    allowed: Callable[[Mapping[str, str]], bool] = lambda _: True,
    asserted: Mapping[str, Sequence[int]] | None = None,
) -> Iterator[Pairs]:
    """Values for all of ``missing``, the likeliest first; none where a parameter's name says nothing.

    ``allowed``: whether static_assert holds. ``asserted``: numbers that it compares parameters with.
    """
    roles = [_role(parameter) for parameter in missing]
    if len(roles) == 1 and not roles[0] and asserted is not None and _is_integer(missing[0]):
        roles = ["TILE"]  # the only size that is open
    if not all(roles):
        return
    if {"BM", "BN", "TILE"} <= set(roles):  # BLOCK_SIZE beside the tile of a block is its threads
        roles = ["THREADS" if role == "TILE" else role for role in roles]
    tried = set()
    for sizes in _SETS:
        known = {**sizes, **_ALWAYS, "THREADS": sizes["BM"] // sizes["TM"] * (sizes["BN"] // sizes["TN"])}
        values = tuple((p.name, str(known.get(role, "false"))) for p, role in zip(missing, roles, strict=True))
        if values not in tried and allowed(dict(values)):
            tried.add(values)
            yield values
    if not tried:
        yield from islice(_combined(missing, roles, allowed, asserted or {}), _MOST_MORE)


def _combined(
    missing: Sequence[TemplateParameter], roles: Sequence[str], allowed: Callable[[Mapping[str, str]], bool],
    asserted: Mapping[str, Sequence[int]],
) -> Iterator[Pairs]:  # fmt: skip
    """Every combination that static_assert allows, with as many threads as a block may have."""
    listed = [tuple(dict.fromkeys((*asserted.get(p.name, ()), *_MORE[role])))[:_MOST_VALUES]
              for p, role in zip(missing, roles, strict=True)]  # fmt: skip
    for numbers in islice(product(*listed), _MOST_COMBINATIONS):
        known = dict(zip(roles, numbers, strict=True))
        if not all(known.get(b, 64) % known.get(t, 1) == 0 for b, t in (("BM", "TM"), ("BN", "TN"))):
            continue
        threads = known.get("BM", 64) // known.get("TM", 4) * (known.get("BN", 64) // known.get("TN", 4))
        if not 32 <= threads <= 1024 or known.get("THREADS", threads) != threads:
            continue
        texts = [("false" if role == "bool" else str(n)) for role, n in zip(roles, numbers, strict=True)]
        values = tuple((p.name, text) for p, text in zip(missing, texts, strict=True))
        if allowed(dict(values)):
            yield values


def _is_integer(parameter: TemplateParameter) -> bool:
    return re.fullmatch(r"(?:unsigned|int|size_t|u?int\d+_t|long|short|uint|\s)+", parameter.kind) is not None


def _role(parameter: TemplateParameter) -> str:
    if re.search(r"\bbool\b", parameter.kind):
        return "bool"
    if parameter.kind == "typename":
        return ""
    name = parameter.name.lstrip("k") if re.match(r"k[A-Z]", parameter.name) else parameter.name
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper().strip("_")
    return next((role for role, pattern in _NAMES if re.fullmatch(pattern, snake)), "")
