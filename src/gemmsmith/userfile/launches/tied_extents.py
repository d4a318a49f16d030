"""Extents that a kernel takes as parameters and that a constant of its file fixes all the same:

const int K = 32, K_TILES = K / 16;   kernel<<<grid, block>>>(a, b, c, M, N, K);   … for (int t = 0; t < K_TILES; ++t)
#define N 1024   kernel<<<grid, block>>>(a, b, c, N);   … b += 32 * N
#define N 1024   b.cols = N; kernel<<<grid, block>>>(a, b, c);   … for (int t = 0; t < N / 32; ++t)

Such a kernel is made for the sizes of its file, as one is that takes none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.kernel.signature import Signature
from gemmsmith.userfile.kernels.kernel_facts import KernelFacts
from gemmsmith.userfile.kernels.struct_parameters import flat_arguments
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.launches.site_roles import roles_of

_NAME = re.compile(r"[A-Za-z_]\w*")


def with_tied_extents(
    signature: Signature, facts: KernelFacts, constants: Mapping[str, int], site: SiteValues | None = None
) -> Signature:
    """The signature with the file's M, N and K, where the launch passes constants for all of them and the kernel is
    written with one of these constants, or with what follows from it."""
    if signature.fixed or signature.unknown or facts.kernel.template is not None:
        return signature
    passed = {arg.role: arg.at_launch for arg in signature.arguments if arg.role in EXTENTS} | _set(signature, site)
    own = _own_names(site)
    if own & set(passed.values()):  # of the launching function, whatever constants are called so elsewhere
        return signature
    texts = {name: text for source in reversed(facts.sources) for name, text in source.constants.items()}
    if signature.square:  # one size for all of them
        passed = dict.fromkeys(EXTENTS, next(iter(passed.values()), ""))
    if set(passed) != set(EXTENTS) or not all(name in texts and constants.get(name, 0) > 0 for name in passed.values()):
        return signature
    if not set(passed.values()) & _sources_of(facts.constants_used, texts):
        return signature
    return replace(signature, fixed=tuple((role, constants[passed[role]]) for role in EXTENTS))


def _own_names(site: SiteValues | None) -> set[str]:
    """Parameters and variables of the function that launches the kernel."""
    frame = site.site.frame if site is not None else None
    if frame is None or frame.function is None:
        return set()
    return {parameter.name for parameter in frame.function.parameters} | set(frame.locals.variables)


def _set(signature: Signature, site: SiteValues | None) -> dict[str, str]:
    """What host code sets the extents to that are fields of structs; none where it has two values for one of them."""
    known = roles_of(signature)
    if site is None or not known.places:
        return {}
    members, found = site.site.frame.locals.members, dict[str, str]()
    texts = flat_arguments(site.site.arguments, known.names, known.places)
    for role, text in zip(known.roles, texts, strict=True):
        value = members[text].value if role in EXTENTS and text in members else ""
        if value and found.setdefault(role, value) != value:
            return {}
    return found


def _sources_of(names: set[str], texts: Mapping[str, str]) -> set[str]:
    """The constants that ``names`` are written with, and ``names`` themselves."""
    found: set[str] = set()
    new = {name for name in names if name in texts}
    while new:
        found |= new
        new = {word for name in new for word in _NAME.findall(texts[name]) if word in texts} - found
    return found
