"""Grids that are rounded down, for kernels that are made for more: ``ceil(N / 16)`` of integers, ``N / 16`` blocks in a
function for any N.

A grid that is rounded down does not make a kernel wrong, if sizes are multiples of the tile. They are not meant to be
where the kernel guards the extent, and host code says that it rounds up, or takes the extent from its caller.
"""

from __future__ import annotations

import re

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.launches.launch_site import LaunchSite, callers_of
from gemmsmith.verify.code.source_guards import without_loop_heads

_ROUNDS_UP = re.compile(r"\bceilf?\s*\(")
_MOST_CALLERS = 12


def is_for_any(spec: KernelSpec, axis: str) -> bool:
    """Whether the kernel and its launch are meant for any M (or N), whatever the number of blocks."""
    site, facts = getattr(spec.geometry, "site", None), getattr(spec.geometry, "facts", None)
    if site is None or not spec.signature.has(axis) or not _is_guarded(spec, axis, str(getattr(facts, "reached", ""))):
        return False
    if site.site.frame.chosen and spec.geometry.other_instances():  # type: ignore[attr-defined]
        return False  # of a table of kernels: another may take what is no multiple
    return _ROUNDS_UP.search(site.origin(0)[1]) is not None or _is_given(spec, axis, site.site)


def _is_guarded(spec: KernelSpec, axis: str, text: str) -> bool:
    """Whether the kernel compares something with the extent, beside the ends of loops, and has no whole tiles of it:
    ``M / 32`` in the kernel is as the grid is."""
    names = {arg.name for arg in spec.signature.arguments if arg.role == axis}
    own = rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b"
    if re.search(rf"(?<![-+*/%]\s){own}\s*(?:/|>>)\s*\w", text):
        return False
    return re.search(rf"[<>]=?\s*{own}|{own}\s*[<>](?![<>])", without_loop_heads(text)) is not None


def _is_given(spec: KernelSpec, axis: str, site: LaunchSite) -> bool:
    """Whether a function whose callers are not known is passed the extent, as it is."""
    if any(each.frame.caller is not None for each in callers_of(site, _MOST_CALLERS)):
        return False
    function, signature = site.frame.function, spec.signature
    if function is None or function.name == "main":
        return False
    place = signature.place(next(i for i, arg in enumerate(signature.arguments) if arg.role == axis))
    text = site.arguments[place] if place < len(site.arguments) else ""
    return text in {each.name for each in function.parameters}
