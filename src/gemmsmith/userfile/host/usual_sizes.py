"""Sizes of a problem by the names that host code usually has for them, where the source does not tell their values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_USUAL = {
    "M": r"h_?a|a[_.]?(?:h|height|rows?|m)|(?:num|n)_?(?:a_?)?rows?_?a?|dims?_?a\.y|dim_?m|m_?(?:size|dim)|rows|height",
    "N": r"w_?b|b[_.]?(?:w|width|cols?|columns|n)|(?:num|n)_?(?:b_?)?col(?:umn)?s?_?b?|dims?_?b\.x|dim_?n"
         r"|n_?(?:size|dim)|cols|width",
    "K": r"w_?a|h_?b|a[_.]?(?:w|width|cols?|columns|k)|b[_.]?(?:h|height|rows?|k)|dims?_?a\.x|dims?_?b\.y|dim_?k"
         r"|k_?(?:size|dim)|inner",
}  # fmt: skip


class UsualSizes(Mapping[str, int]):
    """Sizes by the names that host code usually has for them."""

    def __init__(self, exact: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        self._exact, self._sizes = exact, sizes

    def __getitem__(self, name: str) -> int:
        if name in self._exact:
            return self._exact[name]
        for role, pattern in _USUAL.items():
            if role in self._sizes and re.fullmatch(pattern, name, re.I):
                return self._sizes[role]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._exact)

    def __len__(self) -> int:
        return len(self._exact)

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True
