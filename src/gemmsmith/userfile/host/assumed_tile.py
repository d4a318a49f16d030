"""The side of a tile that a kernel takes as a parameter, and that host code computes from what only a GPU tells:

int tile = best_tile(properties);   kernel<<<grid, dim3(tile, tile), 8 * tile * tile>>>(A, B, C, m, n, k, tile);

Such a kernel is made for any tile, so a usual one is taken.
"""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.errors import UsageError
from gemmsmith.kernel.signature import Signature
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.launches.launch_values import SiteValues

_TILE = "16"
_SIZES = {"M": 1024, "N": 1024, "K": 1024, "lda": 1024, "ldb": 1024, "ldc": 1024, "batch": 1}


def with_assumed_tile(signature: Signature, site: SiteValues | None) -> tuple[Signature, SiteValues | None, str]:
    """The signature and the launch with a usual tile, and the name that was given this value; the same, and no name,
    where the launch's block is known, or follows from no parameter without a role."""
    if site is None or not signature.unknown or known_block(site) is not None:
        return signature, site, ""
    for unclear in (arg for arg in signature.unknown if arg.code in tuple("iIqQ")):
        name = unclear.at_launch
        if not name.isidentifier() or name in site.given:
            continue
        assumed = replace(site, given={**site.given, name: _TILE})
        if known_block(assumed) is not None:
            arguments = tuple(replace(arg, role=_TILE) if arg is unclear else arg for arg in signature.arguments)
            return replace(signature, arguments=arguments), assumed, name
    return signature, site, ""


def assumed_note(site: SiteValues, name: str) -> FoundValue:
    """What the report says about it."""
    return FoundValue(f"{name}, which host code computes, is taken as", _TILE, site.site.shown(), site.site.text)


def known_block(site: SiteValues) -> tuple[int, int, int] | None:
    """The block of a large square product; None where host code does not tell it."""
    try:
        return site.extent(1, _SIZES)[0]
    except (UsageError, RecursionError):
        return None
