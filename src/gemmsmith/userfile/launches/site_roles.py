"""What each parameter of a kernel means, as values at its launch sites are read by."""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.kernel.signature import Signature


@dataclass(frozen=True)
class Roles:
    """What each parameter of a kernel means: ("M", "N", "", "A", …), and the parameters' names.

    places  of fields of structs: which of the kernel's parameters each belongs to; empty where there is no struct
    """

    roles: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    places: tuple[int, ...] = ()


def roles_of(signature: Signature) -> Roles:
    """The roles of a signature."""
    named = signature.arguments
    places = tuple(map(signature.place, range(len(named)))) if any("." in arg.name for arg in named) else ()
    return Roles(tuple(arg.role for arg in named), tuple(arg.name for arg in named), places)
