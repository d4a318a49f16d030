"""A kernel that gives a product only where two of M, N and K are equal, or one is no larger than another."""

from __future__ import annotations

import math
from dataclasses import replace

from gemmsmith.kernel.layout import Layout
from gemmsmith.kernel.signature import Signature, with_roles
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.shapes import Shape
from gemmsmith.userfile.host.launch_limits import LaunchLimits
from gemmsmith.verify.meaning.meaning_search import MeaningSearch
from gemmsmith.verify.meaning.readings import Reading
from gemmsmith.verify.meaning.settled import Settled

_CUBES = "M = N = K"
Restriction = tuple[str, Shape, *tuple[Shape, ...]]
Restricted = tuple[str, Layout, Signature]


def with_restricted_extents(search: MeaningSearch) -> Settled | Restricted | None:
    """The kernel where M = N, which its trials then find themselves, or where host code has M = N = K alone; of another
    restriction the restriction, as text, the layout of the product and what the parameters mean; None if there is none.

    Names may mislead: other meanings are tried before the strongest restriction, which fits them all."""
    first = search.first
    if search.rejected or not search.whole or first.fixed or first.square:
        return None
    *weaker, strongest = _restrictions(search.shapes[0])
    others = [each for each in search.others if not (each.unknown or each.fixed or each.square or each.tied)]
    for meant, restrictions in ((first, weaker), *((each, weaker) for each in others), (first, [strongest])):
        if meant is not first and (first.unknown or search.late()):
            continue
        if (found := _restricted(search, meant, restrictions)) is not None:
            return found
    return None


def _restricted(
    search: MeaningSearch, meant: Signature, restrictions: list[Restriction]
) -> Settled | Restricted | None:
    spec = search.spec
    for equal, shape, *besides in restrictions:
        if search.too_large(shape):
            continue  # the next may be smaller
        accepted = search.accepted(spec, meant, shape)
        for beside in besides if accepted else ():
            layouts = [reading.layout for reading in search.accepted(spec, meant, beside)]
            accepted = [reading for reading in accepted if reading.layout in layouts]
        plain = [each for each in accepted if each.layout.stored[::2] == (False, False)]  # else C may be transposed
        if plain and equal == "M = N":
            return search.settled(plain[0], shape)
        if plain and equal == _CUBES and (passed := passed_for_all(spec)):
            return _of_cubes(search, plain[0], shape, passed)
        if accepted:
            return f"{equal} (read as a {accepted[0].layout})", accepted[0].layout, meant
    return None


def _of_cubes(search: MeaningSearch, reading: Reading, shape: Shape, passed: str) -> Settled:
    """The kernel as one of a single size, which its host code has for all three."""
    settled = search.settled(reading, shape)
    signature = settled.spec.signature
    arguments = tuple(replace(arg, role=with_roles(arg.role, {"M": "N", "K": "N"})) for arg in signature.arguments)
    read = settled.spec.read_as(replace(signature, arguments=arguments, square=True), settled.spec.layouts[0])
    line = f"its host code passes `{passed}` for M, N and K, so it is judged for M = N = K alone"
    return replace(settled, spec=read, cubes=passed, lines=(*settled.lines, line))


def passed_for_all(spec: KernelSpec) -> str:
    """What every launch of the kernel passes for M, for N and for K; empty if that is not one variable."""
    return spec.geometry.passed_for_all if isinstance(spec.geometry, LaunchLimits) else ""


def _restrictions(shape: Shape) -> list[Restriction]:
    """Shapes with equal extents, the weakest restriction first: one may be used in place of another. A grid may also be
    made for a C of M rows and M columns, which is enough up to there."""
    m, n, k = shape
    deep, side, wide = math.lcm(m, k), math.lcm(m, n), n * (m // n + 1)
    tall = next(rows for rows in range(m * (n // m + 1), 1 << 20, m) if rows != k)
    return [("N = K", (m, n, n)), ("N ≤ M", (tall, n, k)), ("M = K", (deep, n, deep), (m, wide, m)),
            ("M = N", (side, side, k)), (_CUBES, (side,) * 3)]  # fmt: skip
