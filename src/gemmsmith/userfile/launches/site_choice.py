"""Which of a kernel's launches to follow: the first that agrees with the user and tells most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product

from gemmsmith.errors import UsageError
from gemmsmith.userfile.host.host_loops import loop_around
from gemmsmith.userfile.host.host_tensor_maps import lacking_maps
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.site_roles import Roles

_UNREACHED = 64  # a site that host code comes to at none of the sizes that are asked for
_TRIED_SIZES = (8, 63, 64, 500, 4096)  # of each extent
_OTHERS = 128  # a site with the given template arguments tells more than any with others


def chosen(
    sites: Iterable[LaunchSite], roles: Roles, given: Mapping[str, str], sizes: Mapping[str, int]
) -> SiteValues | None:
    """The first site that agrees with the given values and tells most: template arguments, block, grid.

    Of several that tell as much, one for the whole product comes first, and one that asks for nothing besides.
    """
    best: SiteValues | None = None
    least = 1 << 20, 0
    for site in sites:
        values = SiteValues(site, roles, given)
        if not values.agrees():
            continue
        missing = _missing(values, sizes) + (_OTHERS if values.passes_others() else 0)
        if missing > least[0]:
            continue
        found = missing, _besides(site)
        if found < least:
            best, least = values, found
        if found == (0, 0):
            break
    return best


def _besides(site: LaunchSite) -> int:
    """What a launch does besides one product: it is for a part of it, and flags are set (``scaled``, ``masked``)."""
    return 2 * bool(loop_around(site)) + any(text.strip() == "true" for text in site.arguments)


def complete(sites: Iterable[LaunchSite], like: SiteValues, sizes: Mapping[str, int]) -> Iterator[SiteValues]:
    """The sites that leave nothing open, with the template arguments of ``like``."""
    for site in sites:
        values = SiteValues(site, like.roles, like.given)
        if values.agrees() and values.template() == like.template() and _missing(values, sizes) == 0:
            yield values


def instances_beside(
    own: SiteValues, sites: Iterable[LaunchSite], sizes: Mapping[str, int]
) -> tuple[tuple[tuple[str, str], ...], ...]:
    """The template values of sites beside ``own`` that pass others and leave no more open than it does: in the same
    function, or in another of the file that host code calls."""
    names = {parameter.name for parameter in own.site.kernel.template or ()}
    plain = replace(own, given={name: value for name, value in own.given.items() if name not in names})
    mine = own.template()[0]
    most = min(_missing(own, sizes), _UNREACHED - 1)
    found: dict[tuple[tuple[str, str], ...], None] = {}
    for site in sites if names else ():
        values = replace(plain, site=site)
        template, left = values.template()
        pairs = tuple(template.items())
        same = site.frame.function == own.site.frame.function
        if not same and (site.file != own.site.file or site.frame.caller is None):
            continue
        if left or template == mine or pairs in found:
            continue
        missing = _missing(values, sizes)
        if missing <= most or (missing == _UNREACHED and _is_ever_reached(values, sizes)):
            found[pairs] = None
    return tuple(found)


def _is_ever_reached(values: SiteValues, sizes: Mapping[str, int]) -> bool:
    """Whether host code makes the launch for products of some size: small ones, ragged ones, long ones."""
    extents = [role for role in ("M", "N", "K") if role in sizes]
    return any(values.is_reached({**sizes, **dict(zip(extents, tried, strict=True))})
               for tried in product(_TRIED_SIZES, repeat=len(extents)))  # fmt: skip


def _missing(values: SiteValues, sizes: Mapping[str, int]) -> int:
    """How much a site leaves open; 0 for nothing."""
    _, left = values.template()
    score = 16 * len(left) + (0 if values.is_reached(sizes) or values.is_reached(_multiples(sizes)) else _UNREACHED)
    for index, cost in ((1, 4), (0, 2)):
        try:
            values.extent(index, sizes)
        except (UsageError, RecursionError):
            score += cost
    score += 8 * lacking_maps(values, sizes)
    try:
        values.smem(sizes)
    except (UsageError, RecursionError):
        score += 1
    return score + _spans_one_extent(values, sizes)


def _multiples(sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes that tiles of 48, 80 or 96 divide, too: host code may launch a kernel for whole tiles only."""
    return {role: size if role == "batch" else 15 * size for role, size in sizes.items()}


def _spans_one_extent(values: SiteValues, sizes: Mapping[str, int]) -> bool:
    """Whether the grid grows with one of M and N alone: it may be for a part of C. Another launch tells more."""
    if not {"M", "N"} <= set(values.roles.roles):
        return False
    try:
        grid = values.extent(0, sizes)[0]
        grows = [values.extent(0, {**sizes, role: 2 * sizes[role]})[0] != grid for role in ("M", "N")]
    except (UsageError, RecursionError):
        return False
    return grows[0] != grows[1]
