"""Values for a kernel template that nothing in the repository launches: sizes that such parameters usually have.

They are candidates to try. A kernel that is right with them is right with them, which the report says; one that is not
may need others, so that is no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gemmsmith.userfile.parts import TemplateParameter

# What a parameter is, by its name: the tile of a block, of a warp and of a thread, threads, stages, vector widths.
_NAMES = (
    ("TM", r"(?:THREAD|T)_?(?:SIZE|TILE)?_?[MY]|TM|REG_?M|(?:THREAD|T)M"),
    ("TN", r"(?:THREAD|T)_?(?:SIZE|TILE)?_?[NX]|TN|REG_?N|(?:THREAD|T)N"),
    ("WM", r"(?:WARP|W)_?(?:SIZE|TILE)?_?[MY]|WM"),
    ("WN", r"(?:WARP|W)_?(?:SIZE|TILE)?_?[NX]|WN"),
    ("BM", r"(?:(?:THREAD_?)?BLOCK|B|TILE|CTA|BLK)_?(?:SIZE|TILE|DIM)?_?[MY]|BM|M_?(?:TILE|BLOCK)"),
    ("BN", r"(?:(?:THREAD_?)?BLOCK|B|TILE|CTA|BLK)_?(?:SIZE|TILE|DIM)?_?[NX]|BN|N_?(?:TILE|BLOCK)"),
    ("BK", r"(?:(?:THREAD_?)?BLOCK|B|TILE|CTA|BLK)_?(?:SIZE|TILE|DIM)?_?K|BK|K_?(?:TILE|BLOCK)"),
    ("TILE", r"(?:BLOCK|TILE|BLK)_?(?:SIZE|DIM|WIDTH)?|BS|TS|B|T"),
    ("THREADS", r"N?(?:UM)?_?THREADS(?:_PER_BLOCK)?"),
    ("STAGES", r"(?:K_?|NUM_?)?STAGES?"),
    ("VEC", r"VEC(?:TOR)?_?(?:SIZE|WIDTH|LEN)?|VW"),
    ("PAD", r"PAD(?:DING)?|SKEW|OFFSET"),
)  # fmt: skip
_SETS = (
    {"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4, "WM": 32, "WN": 32, "TILE": 16},
    {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8, "WM": 64, "WN": 32, "TILE": 32},
    {"BM": 64, "BN": 64, "BK": 8, "TM": 8, "TN": 8, "WM": 32, "WN": 32, "TILE": 8},
    {"BM": 32, "BN": 32, "BK": 32, "TM": 4, "TN": 4, "WM": 16, "WN": 16, "TILE": 16},
)
_ALWAYS = {"STAGES": 2, "VEC": 4, "PAD": 0}


def template_guesses(missing: Sequence[TemplateParameter]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Values for all of ``missing``, the likeliest first; none where a parameter's name says nothing."""
    roles = [_role(parameter) for parameter in missing]
    if not all(roles):
        return
    if {"BM", "BN", "TILE"} <= set(roles):  # BLOCK_SIZE beside the tile of a block is its threads
        roles = ["THREADS" if role == "TILE" else role for role in roles]
    tried = set()
    for sizes in _SETS:
        known = {**sizes, **_ALWAYS, "THREADS": sizes["BM"] // sizes["TM"] * (sizes["BN"] // sizes["TN"])}
        values = tuple((p.name, str(known.get(role, "false"))) for p, role in zip(missing, roles, strict=True))
        if values not in tried:
            tried.add(values)
            yield values


def _role(parameter: TemplateParameter) -> str:
    if re.search(r"\bbool\b", parameter.kind):
        return "bool"
    if parameter.kind == "typename":
        return ""
    name = parameter.name.lstrip("k") if re.match(r"k[A-Z]", parameter.name) else parameter.name
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper().strip("_")
    return next((role for role, pattern in _NAMES if re.fullmatch(pattern, snake)), "")
