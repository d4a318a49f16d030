"""Attention in which several heads share keys and values: what a parameter means that tells how many do.

``h / (H / kvH)`` and ``h * kvH / H`` have the number of keys' heads, ``h / rep`` has how many heads share one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gemmsmith.userfile.product_axis import product_number

# Of an even number of products two in a row share a matrix, or of a batch of two all heads; of an odd number, none do.
_SHARING = {1: "2-batch%2", 2: "batch//(2-batch%2)-(batch//(2-batch%2)-1)*(batch%2)"}
_SHARED = {1: "batch//(2-batch%2)", 2: "1+(batch//(2-batch%2)-1)*(batch%2)"}


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
