"""Which kernels a variable of host code may hold, and under which conditions.

auto kernel = N % 4 == 0 ? gemm<true> : gemm<false>;
if (N % 4 == 0) kernel = gemm<true>; else kernel = gemm<false>;
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.userfile.host.host_scope import LocalScope
from gemmsmith.userfile.text.ternary import Conditions, branches


@dataclass(frozen=True)
class Held:
    """A kernel as written, with the conditions under which it is chosen, each with whether it holds."""

    text: str
    when: Conditions = ()


def held(name: str, scope: LocalScope) -> list[Held]:
    """What a variable may hold, the last alternative first, as conditions are mostly for special cases. Values whose
    conditions are not known have none."""
    changed = scope.changed.get(name, [])
    text, changes = scope.choices.get(name, ("", -1))
    if text and changes == len(changed):
        return alternatives(text)
    variable = scope.variables.get(name)
    value = variable.value if variable is not None else ""
    found = [*alternatives(value), *(each for other in changed if other for each in alternatives(other))]
    return [Held(each.text) for each in found] if changed else found


def alternatives(text: str) -> list[Held]:
    """The values of ``c ? a : b``, of nested ones too, the last one first; ``text`` itself if it is none."""
    return [Held(each, when) for each, when in reversed([*branches(text)]) if each]
