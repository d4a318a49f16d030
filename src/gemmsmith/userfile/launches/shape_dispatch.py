"""Host code that launches one of several instantiations of a kernel, by M, N and K, and perhaps by alpha and beta.

if (N % 4 == 0) gemm<true><<<grid, block>>>(A, B, C, M, N, K);
else            gemm<false><<<grid, block>>>(A, B, C, M, N, K);

or the same through a variable that holds one or the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from gemmsmith.errors import UsageError
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.launch_conditions import scope_with
from gemmsmith.userfile.host.values import evaluate
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.launches.launch_values import SiteValues

Pairs = tuple[tuple[str, str], ...]
_LARGE = {"M": 1024, "N": 2048, "K": 4096, "lda": 4096, "ldb": 2048, "ldc": 2048, "batch": 1}
PLAIN = {"alpha": Fraction(1), "beta": Fraction(0)}
_COMPARED = re.compile(r"(?<![=<>])[<>]=?\s*(\d+)\b")
_LEAVES = re.compile(r"\breturn\b")
_GUARD = re.compile(r"\b(if|assert|\w*(?:CHECK|ASSERT|ENFORCE|REQUIRE)\w*)\s*\(")
_STOPS = re.compile(r"\s*(?:\{(?:(?!<<<)[^{}])*?)?\b(?:return|throw|exit|abort)\b")


@dataclass(frozen=True)
class Dispatch:
    """The launches of one function, in order, of which host code makes one by its sizes; ``own`` is a place there."""

    sites: tuple[SiteValues, ...]
    own: int
    paths: tuple[tuple[str, str], ...] = ()  # variables for alpha and beta, which may decide as well

    @property
    def others(self) -> tuple[Pairs, ...]:
        """The template values of the other instantiations."""
        mine = self.sites[self.own].template()[0]
        found = dict.fromkeys(tuple(site.template()[0].items()) for site in self.sites)
        return tuple(values for values in found if dict(values) != mine)

    def takes(self, sizes: Mapping[str, int], scalars: Mapping[str, Fraction] = PLAIN) -> bool:
        """Whether host code is known to launch this instantiation for a product."""
        taken = self._taken(sizes, scalars)
        return taken is not None and self._is_own(taken) and not self._is_refused(taken, sizes, scalars)

    def others_take(self, sizes: Mapping[str, int], scalars: Mapping[str, Fraction] = PLAIN) -> bool:
        """Whether host code is known to launch another instantiation for a product."""
        taken = self._taken(sizes, scalars)
        return taken is not None and not self._is_own(taken) and not self._is_refused(taken, sizes, scalars)

    @property
    def tested(self) -> frozenset[str]:
        """The extents for which it matters what they are multiples of."""
        return frozenset(role for role in ("M", "N", "K") for more in (1, 2, 4, 8)
                         if self._taken(_LARGE | {role: _LARGE[role] + more}) != self._taken(_LARGE))  # fmt: skip

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Numbers that the conditions compare with, ascending: another launch may be made from there on."""
        texts = (text for site in self.sites for text, _ in self._conditions(site))
        return tuple(sorted({int(number) for text in texts for number in _COMPARED.findall(text)}))

    @property
    def is_by_size(self) -> bool:
        """Whether M, N or K decide."""
        for site in self.sites:
            for text, _ in self._conditions(site):
                asked = Asked()
                try:
                    evaluate(text, site.scope(_LARGE, asked))
                except (UsageError, RecursionError):
                    continue
                if asked.sized:
                    return True
        return False

    def _conditions(self, site: SiteValues) -> list[tuple[str, bool]]:
        """Those that are not around all of the launches."""
        shared = set.intersection(*(set(each.site.frame.locals.conditions) for each in self.sites))
        return [each for each in site.site.frame.locals.conditions if each not in shared]

    def _is_own(self, place: int) -> bool:
        return self.sites[place].template() == self.sites[self.own].template()

    def _is_refused(self, place: int, sizes: Mapping[str, int], scalars: Mapping[str, Fraction]) -> bool:
        return _refuses(self._scope(self.sites[place], sizes, scalars))

    def _scope(self, site: SiteValues, sizes: Mapping[str, int], scalars: Mapping[str, Fraction]) -> HostScope:
        return scope_with(site, sizes, self.paths, scalars)

    def _taken(self, sizes: Mapping[str, int], scalars: Mapping[str, Fraction] = PLAIN) -> int | None:
        """The launch that is made; None where that is not known, or several are."""
        found: int | None = None
        for place, site in enumerate(self.sites):
            reached = self._reached(site, sizes, scalars)
            if reached is None:
                return None
            if not reached:
                continue
            if found is not None:
                return None
            found = place
            if self._leaves_after(place):
                return found
        return found

    def _reached(self, site: SiteValues, sizes: Mapping[str, int], scalars: Mapping[str, Fraction]) -> bool | None:
        known = True
        for text, holds in self._conditions(site):
            try:
                if bool(evaluate(text, self._scope(site, sizes, scalars))) != holds:
                    return False
            except (UsageError, RecursionError):
                known = False
        return True if known else None

    def _leaves_after(self, place: int) -> bool:
        """Whether the function returns between a launch and the next."""
        frame = self.sites[place].site.frame
        end = self.sites[place + 1].site.frame.start if place + 1 < len(self.sites) else frame.start
        return frame.function is not None and bool(_LEAVES.search(frame.function.body[frame.start : end]))


def _refuses(scope: HostScope | None) -> bool:
    """Whether host code stops before the launch: an assert fails, or an if returns, throws or exits."""
    while scope is not None:
        function = scope.frame.function
        before = function.body[: scope.frame.start] if function is not None else ""
        for found in _GUARD.finditer(before):
            text, end = _argument(before, found.end())
            leaves = found[1] == "if"
            if leaves and not _STOPS.match(before, end):
                continue
            try:
                if bool(evaluate(text, scope)) == leaves:
                    return True
            except (UsageError, RecursionError):
                continue
        scope = scope.outer()
    return False


def _argument(text: str, start: int) -> tuple[str, int]:
    """The first argument of a call whose parenthesis ends before ``start``, and where the call ends."""
    depth, comma, end = 1, 0, start
    while end < len(text) and depth:
        char = text[end]
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 1:
            comma = comma or end
        end += 1
    return text[start : comma or end - 1].strip(), end


def dispatch_of(
    own: SiteValues, sites: Iterable[LaunchSite], paths: tuple[tuple[str, str], ...] = ()
) -> Dispatch | None:
    """The choice of which ``own`` is a part; None where there is none, or sizes do not decide. ``paths``: variables of
    host code for alpha and beta."""
    function, names = own.site.frame.function, {p.name for p in own.site.kernel.template or ()}
    if function is None or not names:
        return None
    plain = replace(own, given={name: value for name, value in own.given.items() if name not in names})
    found = {_place(own.site): plain}
    for site in sites:
        values = replace(plain, site=site)
        if site.frame.function == function and _place(site) not in found and not values.template()[1]:
            found[_place(site)] = values
    places = sorted(found)
    dispatch = Dispatch(tuple(found[place] for place in places), places.index(_place(own.site)), paths)
    return dispatch if dispatch.others and dispatch.is_by_size else None


def _place(site: LaunchSite) -> tuple[int, tuple[tuple[str, bool], ...]]:
    """Where a launch is, and which of those it is that one place makes through a variable."""
    return site.frame.start, site.frame.when
