"""Host code that sends some sizes to another launch, and forgets others.

    if (M % 16 == 0 && N % 16 == 0) gemm_wmma<<<…>>>(A, B, C, M, N, K);
    else gemm_any<<<…>>>(A, B, C, M, N, K);

Such host code means to take any size. A kernel that needs multiples of K as well gets every K.
"""

from __future__ import annotations

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.verify.host.launched_products import launched
from gemmsmith.verify.trials.extents import with_extent

_POINTERS = ("A", "B", "C", "D")


def forgotten_extents(spec: KernelSpec, base: Problem) -> frozenset[str]:
    """The extents that host code does not look at, though it sends products to another launch by their remainders in
    other extents; none where it has no other launch."""
    own = getattr(spec.geometry, "site", None)
    axes = [axis for axis in "MNK" if spec.signature.has(axis)]
    if own is None or not axes or launched(spec, base).excluded is not None:
        return frozenset()
    answers = {axis: launched(spec, with_extent(base, axis, getattr(base, axis.lower()) + 1)) for axis in axes}
    asked = any(each.excluded is not None and "%" in each.excluded.text for each in answers.values())
    if not asked or not _has_other_launch(spec, own.site):
        return frozenset()
    return frozenset(axis for axis, each in answers.items() if each.excluded is None and each.unread is None)


def _has_other_launch(spec: KernelSpec, site: LaunchSite) -> bool:
    """Whether the function launches another kernel, or another instance, on the same matrices."""
    places = [spec.signature.place(at) for at, arg in enumerate(spec.signature.arguments) if arg.role in _POINTERS]
    matrices = {site.arguments[place] for place in places if place < len(site.arguments)}
    source, function = site.frame.source, site.frame.function
    for other in source.launches if matrices else ():
        alike = (other.kernel, other.template) == (site.kernel.name, site.template)
        if source.functions[other.function] == function and not alike and matrices <= set(other.arguments):
            return True
    return False
