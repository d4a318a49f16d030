"""The side of a tile that a kernel takes as a parameter, where host code tells its value:

int tile = 8;   kernel<<<grid, block, bytes>>>(A, B, C, n, tile, tile * tile * sizeof(float));

The kernel counts its tiles, ``(n + tile - 1) / tile``, and the launch's block has as many rows or columns.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gemmsmith.errors import UsageError
from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.userfile.host.assumed_tile import known_block
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.values import evaluate_int
from gemmsmith.userfile.launches.launch_values import SiteValues

_INTEGERS = tuple("iIqQ")
_NAME = re.compile(r"[A-Za-z_]\w*")


def with_tile_argument(
    signature: Signature, site: SiteValues | None, body: str
) -> tuple[Signature, tuple[FoundValue, ...]]:
    """The signature in which such a parameter, and those that host code computes from it alone, have their numbers as
    roles; and what the report says of them.

    ``body``: the kernel's text. The signature itself where there is none, or its number is not known.
    """
    if site is None or not signature.unknown or len(site.site.arguments) != len(signature.arguments):
        return signature, ()
    passed = dict(zip((arg.name for arg in signature.arguments), site.site.arguments, strict=True))
    integers = [arg for arg in signature.unknown if arg.code in _INTEGERS]
    tiles = [arg for arg in integers if _counts_tiles(arg, signature, body)]
    sides = known_block(site) or ()
    numbers = {arg.name: value for arg in tiles if (value := _number(passed[arg.name], site)) > 1 and value in sides}
    words = {passed[name] for name in numbers if passed[name].isidentifier()}
    for arg in integers:
        names = set(_NAME.findall(re.sub(r"\bsizeof\s*\([^()]*\)", "", passed[arg.name])))
        if arg.name not in numbers and names and names <= words and (value := _number(passed[arg.name], site)) > 0:
            numbers[arg.name] = value
    found = tuple(FoundValue(name, str(value), site.site.shown(), passed[name]) for name, value in numbers.items())
    arguments = tuple(
        replace(arg, role=str(numbers[arg.name])) if arg.name in numbers else arg for arg in signature.arguments
    )
    return replace(signature, arguments=arguments), found


def _counts_tiles(arg: Argument, signature: Signature, body: str) -> bool:
    """Whether the kernel divides another parameter by ``arg``; of a thread's own number that tells a row."""
    others = "|".join(re.escape(other.name) for other in signature.arguments if other is not arg)
    return re.search(rf"\b(?:{others})\b[^;,=<>]*/\s*{re.escape(arg.name)}\b", body) is not None


def _number(text: str, site: SiteValues) -> int:
    """What host code passes, where it depends on no size; 0 where that is not known."""
    asked = Asked()
    try:
        value = evaluate_int(text, site.scope({}, asked))
    except (UsageError, RecursionError):
        return 0
    return 0 if asked.sized else value
