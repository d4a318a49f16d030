"""Numbers that a kernel takes and never reads: what they are called says nothing about the product."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from gemmsmith.kernel.written_parameter import WrittenParameter

_NEUTRAL = {"alpha": 1.0, "beta": 0.0}


def unread_roles(
    found: Sequence[WrittenParameter], roles: Mapping[int, str], unread: Container[str], passed: Mapping[int, str],
    for_others: Container[str] = (),
) -> dict[int, str]:  # fmt: skip
    """Constants in place of roles, by the number of the parameter.

    ``passed``: the numbers that the launch itself has. Alpha and beta of which neither is read are constants where it
    has 1 and 0. A kernel that ignores a variable, or one of the two, is wrong, unless that parameter is among those
    ``for_others``, the kernels that work on the result before or after it.
    """
    constants = {}
    scalars = [i for i, role in roles.items() if role in _NEUTRAL]
    neither = len(scalars) == 2 and all(found[i].name in unread for i in scalars)
    has_extents = {"M", "N", "K"} <= set(roles.values())  # else it may be one that the grid alone tells
    for i, parameter in enumerate(found):
        if parameter.is_pointer or parameter.map or parameter.name not in unread:
            continue
        number, role = passed.get(i, ""), roles.get(i, "")
        is_neutral = neither and bool(number) and float(number) == _NEUTRAL.get(role)
        if role in _NEUTRAL and (is_neutral or parameter.name in for_others):
            constants[i] = number or f"{_NEUTRAL[role]:g}"
        elif not role and has_extents and parameter.type.is_integer:
            constants[i] = number or "0"
    return constants
