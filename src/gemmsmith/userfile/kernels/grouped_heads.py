"""Attention in which several heads share keys and values: what a parameter means that tells how many do.

``h / (H / kvH)`` and ``h * kvH / H`` have the number of keys' heads, ``h / rep`` has how many heads share one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gemmsmith.userfile.launches.product_axis import product_number

# Formulas of the number of products. One parameter counts heads: two in a row share a matrix if their number is even,
# else none do. Two count batches and heads: an even number is a batch of two, in which all heads share one.
_SHARE = "2-batch%2"
_HALF = f"batch//({_SHARE})"
_IS_ODD = "(batch%2)"
_SHARING = {1: _SHARE, 2: f"{_HALF}-({_HALF}-1)*{_IS_ODD}"}  # heads that share one
_SHARED = {1: _HALF, 2: f"1+({_HALF}-1)*{_IS_ODD}"}  # matrices that are shared


def groups_heads(role: str) -> bool:
    """Whether an argument's role is one that ``group_roles`` gives; the counters of a batch may have the same."""
    return role in (*_SHARING.values(), *_SHARED.values())


def group_roles(code: str, heads: Sequence[str], unknown: Iterable[str]) -> dict[str, str]:
    """The parameter among ``unknown`` that groups heads, with its value as a formula of the number of products; empty
    where there is none, or several. ``heads``: the parameters that count products, the heads last."""
    if not heads:
        return {}
    count = re.escape(heads[-1])
    first = "|".join(map(re.escape, product_number(code)))
    of_batch = re.findall(rf"\b([A-Za-z_]\w*)\s*=\s*(?:{first})\s*%\s*{count}\s*[;,]", code)
    head = "|".join(map(re.escape, of_batch if len(heads) > 1 else product_number(code)))
    found: dict[str, str] = {}
    for name in unknown:
        word = rf"{re.escape(name)}\b"
        if re.search(rf"(?<![\w.]){count}\s*/\s*{word}|(?<![\w.]){word}\s*/\s*{count}\b", code):
            found[name] = _SHARED[len(heads)]
        elif head and re.search(rf"(?<![\w.])(?:{head})\s*/\s*{word}", code):
            found[name] = _SHARING[len(heads)]
    return found if len(found) == 1 else {}
