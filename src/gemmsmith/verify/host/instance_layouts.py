"""Four instances of a template, one for each pair of values of two flags: the layouts that they compute must differ as
the flags do.

    gemm<'N', 'N'>: NN    gemm<'T', 'N'>: TN    gemm<'N', 'T'>: NT    gemm<'T', 'T'>: TN, where TT is meant
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

Values = tuple[tuple[str, str], ...]  # of a template's parameters
Layout = tuple[bool, bool]  # whether A is transposed, and B


def inconsistent_instance(layouts: Mapping[Values, Layout]) -> tuple[Values, str] | None:
    """The instance that ignores a flag in which it differs from another, and that flag; None if there is none.

    It is known where, of the three others, one flag changes the layout of A alone and the other that of B alone.
    """
    known = {frozenset(values): (values, layout) for values, layout in layouts.items()}
    names = sorted({name for values in layouts for name, _ in values})
    for first, second in combinations(names, 2):
        for values, (a, b) in layouts.items():
            beside = [_beside(known, values, {first}), _beside(known, values, {second})]
            opposite = _beside(known, values, {first, second})
            if opposite is None or beside[0] is None or beside[1] is None:
                continue
            changes = {beside[0][1]: first, beside[1][1]: second}
            if set(changes) == {(not a, b), (a, not b)} and opposite[1] != (not a, not b):
                kept = changes[not a, b] if opposite[1][0] == a else changes[a, not b]
                return opposite[0], kept
    return None


def _beside(
    known: Mapping[frozenset[tuple[str, str]], tuple[Values, Layout]], values: Values, changed: set[str]
) -> tuple[Values, Layout] | None:
    """The one other instance that differs in these parameters and in no others; None where there are more."""
    kept = {pair for pair in values if pair[0] not in changed}
    found = [each for each in known.values() if {name for name, _ in set(each[0]) - set(values)} == changed
             and kept <= set(each[0])]  # fmt: skip
    return found[0] if len(found) == 1 else None
