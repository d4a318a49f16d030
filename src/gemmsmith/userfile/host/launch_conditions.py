"""For which products host code makes a launch: the conditions around it, and what is checked before it.

if (alpha == 1.0f && beta == 0.0f) gemm<true, true><<<grid, block>>>(A, B, C, M, N, K, alpha, beta);

A condition that cannot be evaluated excludes nothing, but it may: no failure counts there as one of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from gemmsmith.errors import UsageError
from gemmsmith.userfile.host.host_frame import Asked
from gemmsmith.userfile.host.host_guards import assigns, only_tells
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import evaluate
from gemmsmith.userfile.launches.launch_site import LaunchSite, callers_of
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.text.declared import text_of
from gemmsmith.userfile.text.parts import FunctionSource
from gemmsmith.userfile.text.syntax import expression, words

if TYPE_CHECKING:
    from tree_sitter import Node

SCALARS = ("alpha", "beta")
_ALPHAS = tuple(map(Fraction, ("1", "0", "2", "0.7", "-1.5", "3", "-1", "0.5")))
_BETAS = tuple(map(Fraction, ("0", "1", "2", "0.7", "-1.3", "-2", "-1", "0.5")))
_PAIRS = [{"alpha": alpha, "beta": beta} for alpha in _ALPHAS for beta in _BETAS]
_FEW_PAIRS = [{"alpha": Fraction(alpha), "beta": Fraction(beta)}
              for alpha, beta in ((1, 0), (1, -2), (2, 0), (2, -2), (1, 1))]  # fmt: skip
_MARKS = {"alpha": Fraction(1234577, 11), "beta": Fraction(7654321, 13)}  # found again under other names
# Host code may launch a kernel for whole tiles, for small or for large products only.
_SHAPES = [{"M": m, "N": n, "K": k, "lda": k, "ldb": n, "ldc": n, "batch": 1}
           for m, n, k in ((1024, 1024, 1024), (64, 64, 64), (15360, 15360, 15360), (1024, 2048, 4096),
                           (16, 4096, 4096), (4096, 16, 4096), (4096, 4096, 16), (16, 16, 16), (4, 4, 4),
                           (31, 33, 35))]  # fmt: skip
_MOST_SITES = 24
_MOST_CALLERS = 12
_DEEPEST = 4  # variables that a condition is followed through
_NAME = re.compile(r"[A-Za-z_]\w*")
_ORDERS = re.compile(r"%|&(?!&)|[<>]=?|\bmod\b")
_OTHER_CHECK = re.compile(r"\bcu[A-Z]|\bcuda|\bcublas|\bcudnn|\bnullptr\b|\bNULL\b")
# Words in the name of a flag that host code sets by the shape or the scalars of a product.
_OF_SHAPE = re.compile(
    r"align|vec|divi|multipl|even|full|fits|small|large|skinny|tall|thin|wide|square|pow2|unit|zero|plain|ragged|tail|edge"
    r"|bound|whole|exact", re.IGNORECASE)  # fmt: skip


@dataclass(frozen=True)
class HostCondition:
    """A condition as written, whether it holds where the kernel is launched, and its place."""

    text: str
    holds: bool
    place: str

    def __str__(self) -> str:
        return f"{'' if self.holds else 'not '}`{self.text}` ({self.place})"


@dataclass(frozen=True)
class Launched:
    """What host code does for one product: ``excluded`` by a condition, or perhaps, by one that was not ``read``."""

    excluded: HostCondition | None = None
    unread: HostCondition | None = None


@dataclass(frozen=True)
class LaunchConditions:
    """The launches of one instantiation, each with the calls that lead there. ``paths``: variables for alpha and
    beta."""

    sites: tuple[SiteValues, ...]
    paths: tuple[tuple[str, str], ...] = ()

    def of(self, sizes: Mapping[str, int], scalars: Mapping[str, Fraction]) -> Launched:
        """Whether host code makes one of the launches for this product."""
        excluded: HostCondition | None = None
        unread: HostCondition | None = None
        for site, asked, met in zip(self.sites, self._on_products, self._met_somewhere, strict=True):
            answers = list(_answers(site, sizes, self.paths, scalars, asked)) if asked else []
            ruled_out = next((each for each, is_met in answers if is_met is False and each in met), None)
            unclear = next((each for each, is_met in answers if is_met is None), None)
            if ruled_out is None and unclear is None:
                return Launched()
            excluded, unread = excluded or ruled_out, unread or (None if ruled_out else unclear)
        return Launched(None if unread else excluded, unread)

    @cached_property
    def _on_products(self) -> list[set[HostCondition]]:
        """Of each launch, the conditions that ask for sizes or scalars, or may do so."""
        tried = (_SHAPES[0], _FEW_PAIRS[0]), (_SHAPES[-1], _FEW_PAIRS[-2])
        return [{condition for sizes, scalars in tried for condition, _ in _answers(site, sizes, self.paths, scalars)}
                for site in self.sites]  # fmt: skip

    @cached_property
    def _met_somewhere(self) -> list[set[HostCondition]]:
        """Of each launch, the conditions that some usual product meets: others are misread, or relate what the product
        does not tell."""
        found, pairs = [], _FEW_PAIRS if self.paths else _FEW_PAIRS[:1]
        for site, asked in zip(self.sites, self._on_products, strict=True):
            met: set[HostCondition] = set()
            for sizes, scalars in product(_SHAPES, pairs):
                if left := asked - met:
                    met |= {each for each, is_met in _answers(site, sizes, self.paths, scalars, left) if is_met}
            found.append(met)
        return found

    @cached_property
    def ask_for_scalars(self) -> bool:
        """Whether a condition may depend on alpha or beta."""
        for site, asked in zip(self.sites, self._on_products, strict=True):
            scope: HostScope | None = scope_with(site, _SHAPES[0], self.paths, _MARKS) if asked else None
            texts = {condition.text for condition in asked}
            while scope is not None:
                own = {name for name, values in scope.sizes.bound.items() if values & set(_MARKS.values())}
                known = (*scope.frame.locals.conditions, *scope.frame.locals.checked)
                if any(text in texts and _names(text, scope) & own for text, _ in known):
                    return True
                scope = scope.outer()
        return False


def conditions_of(own: SiteValues, sites: Iterable[LaunchSite], paths: tuple[tuple[str, str], ...]) -> LaunchConditions:
    """The conditions of every launch with the template arguments of ``own``."""
    alike = {_place(own.site): own.site}
    for site in sites:
        values, key = replace(own, site=site), _place(site)
        known = key in alike or len(alike) == _MOST_SITES
        if not known and values.agrees() and not values.passes_others() and values.template() == own.template():
            alike[key] = site
    called = [each for site in alike.values() for each in callers_of(site, _MOST_CALLERS)]
    whole = [each for each in called if _is_own(each) and not _is_contradicted(each, own)]
    whole = whole or [replace(own.site, frame=replace(own.site.frame, caller=None))]
    return LaunchConditions(tuple(replace(own, site=site) for site in whole[:_MOST_SITES]), paths)


def _place(site: LaunchSite) -> tuple[FunctionSource | None, int, tuple[tuple[str, bool], ...]]:
    """Where a launch is, and the conditions under which a variable holds the kernel there: it may under several."""
    return site.frame.function, site.frame.start, site.frame.when


def _is_own(site: LaunchSite) -> bool:
    """Whether each call that leads to the launch is one of that very function, not of a namesake in its own file."""
    frame = site.frame
    while frame.caller is not None:
        there, function = frame.caller.source, frame.function
        name = function.name if function is not None and there.path != frame.source.path else ""
        if any(each.name == name and each.body for each in there.functions):
            return False
        frame = frame.caller
    return True


def _is_contradicted(site: LaunchSite, own: SiteValues) -> bool:
    """Whether a template argument of a call rules the launch out: ``if constexpr (PLAIN)`` under ``run<false>``."""
    scope: HostScope | None = replace(own, site=site).scope({}, Asked())
    while scope is not None:
        function = scope.frame.function
        names = {each.name for each in function.template or ()} if function is not None else set()
        for text, holds in scope.frame.locals.conditions:
            words_of = set(_NAME.findall(text))
            if words_of and words_of <= names and _truth(text, scope, []) == (not holds):
                return True
        scope = scope.outer()
    return False


def scope_with(
    site: SiteValues, sizes: Mapping[str, int], paths: tuple[tuple[str, str], ...], scalars: Mapping[str, Fraction]
) -> HostScope:
    """The scope at a launch, where variables for alpha and beta have these values."""
    scope = site.scope(sizes, Asked())
    bound: dict[str, frozenset[int | Fraction]] = dict(scope.sizes.bound)
    scope.sizes = replace(scope.sizes, bound=bound | {path: frozenset({scalars[role]}) for role, path in paths})
    return scope


def _answers(
    site: SiteValues, sizes: Mapping[str, int], paths: tuple[tuple[str, str], ...], scalars: Mapping[str, Fraction],
    asked: Container[HostCondition] | None = None,
) -> Iterator[tuple[HostCondition, bool | None]]:  # fmt: skip
    """The conditions on sizes and scalars, and whether each is met; None: not known. ``asked``: the only ones."""
    scope: HostScope | None = scope_with(site, sizes, paths, scalars)
    while scope is not None:
        known, file = scope.frame.locals, scope.frame.source.path.name
        for around, listed in ((True, known.conditions), (False, known.checked)):
            for text, holds in listed:
                condition = HostCondition(text, holds, f"{file}:{known.lines.get((text, holds), 0)}")
                checks = _checks(text, holds, scope)
                if (asked is not None and condition not in asked) or checks == "tells":
                    continue
                scope.asked.sized, unknown = False, list[str]()
                if (text, holds) in known.outdated:
                    found, unknown = None, [text]
                else:
                    found = _truth(text, scope, unknown)
                is_noted = checks == "notes" and scope.asked.sized and found is (not holds)
                if is_noted or (found is None and any(_may_depend(part, scope, around) for part in unknown)):
                    yield condition, None
                elif scope.asked.sized:  # what is not known is no matter of sizes: it may be met
                    yield condition, found is None or found == holds
        scope = scope.outer()


def _checks(text: str, holds: bool, scope: HostScope) -> str:
    """What a macro or a function of the user's does that checks a condition: ``tells`` if it prints a warning at most;
    ``notes`` if it also changes a variable, by which host code may stop later; empty otherwise."""
    name = scope.frame.locals.checks.get((text, holds), "")
    for source in scope.frame.sources if name else ():
        macro = source.macros.get(name)
        bodies = [each.body for each in source.functions if each.name == name and each.body]
        if macro is None and not bodies:
            continue
        read = [macro.body] if macro is not None else bodies
        if not all(only_tells(body, returns=macro is None) for body in read):
            return ""
        return "notes" if any(assigns(body) for body in read) else "tells"
    return ""


# --- three-valued logic


def _truth(text: str, scope: HostScope, unknown: list[str]) -> bool | None:
    """Whether a condition holds; None where that is not known, and ``unknown`` gets the parts that are not."""
    found = expression(text)
    return _holds(found[1], found[0], scope, unknown) if found is not None else None


def _holds(node: Node | None, code: str, scope: HostScope, unknown: list[str]) -> bool | None:
    if node is None:
        return None
    if node.type == "parenthesized_expression" and node.named_child_count == 1:
        return _holds(node.named_children[0], code, scope, unknown)
    operator = text_of(code, node.child_by_field_name("operator"))
    if node.type == "unary_expression" and operator in ("!", "not"):
        value = _holds(node.child_by_field_name("argument"), code, scope, unknown)
        return None if value is None else not value
    if node.type == "binary_expression" and operator in ("&&", "and", "||", "or"):
        decides = operator in ("||", "or")
        values = [_holds(node.child_by_field_name(name), code, scope, unknown) for name in ("left", "right")]
        return decides if decides in values else None if None in values else not decides
    text = words(text_of(code, node))
    try:
        return bool(evaluate(text, scope))
    except (UsageError, RecursionError):
        unknown.append(text)
        return None


# --- conditions that are not read


def _may_depend(text: str, scope: HostScope, around: bool) -> bool:
    """Whether a condition without a value may be one on sizes or scalars. ``around``: it is around the launch; of what
    is checked before, equal sizes and errors of CUDA tell nothing."""
    names = _names(text, scope)
    sized = bool(names & set(scope.sizes.bound))
    if not around:
        return sized and bool(_ORDERS.search(text)) and not _OTHER_CHECK.search(text)
    flags = re.fullmatch(r"[\w\s!&|().>-]+", text) and _OF_SHAPE.search(text)
    return sized or bool(flags) or "uintptr_t" in text


def _names(text: str, scope: HostScope) -> set[str]:
    """The names in a text, and in the values of variables there."""
    names: set[str] = set()
    new = set(_NAME.findall(text))
    for _ in range(_DEEPEST):
        names |= new
        held = [scope.frame.locals.variables[name].value for name in new if name in scope.frame.locals.variables]
        new = {word for value in held for word in _NAME.findall(value)} - names
    return names


# --- scalars


def only_scalars(conditions: LaunchConditions) -> tuple[bool, dict[str, tuple[Fraction, HostCondition]]]:
    """Whether scalars decide; and alpha or beta where host code makes the launch for one value alone, of 0 and 1, with
    the condition that tells."""
    if not conditions.ask_for_scalars:
        return False, {}
    allowed = [each for each in _PAIRS if any(conditions.of(sizes, each).excluded is None for sizes in _SHAPES)]
    found: dict[str, tuple[Fraction, HostCondition]] = {}
    for role in SCALARS:
        values = {each[role] for each in allowed}
        value = min(values, default=Fraction(2))
        if len(values) == 1 and value in ((1,) if role == "alpha" else (0, 1)):
            others = [allowed[0] | {role: other} for other in (Fraction(2), Fraction(-2))]
            tells = [each for other in others for sizes in _SHAPES if (each := conditions.of(sizes, other).excluded)]
            found[role] = value, tells[0]
    return len(allowed) < len(_PAIRS), found
