"""What the integers of a kernel mean, by what it reads and writes: the sizes of its matrices.

Names of one's own say nothing, and the result of a wrong kernel fits no product. But under the right meaning of M, N
and K even a wrong kernel mostly touches M·K elements of A, K·N of B and M·N of C, and under every other meaning it does
not, as M, N and K differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from gemmsmith.kernel.signature import Signature
from gemmsmith.shapes import Shape
from gemmsmith.verify.meaning.launch_probe import LaunchProbe, Touched, operands


def roles_by_footprint(probe: LaunchProbe, candidates: Sequence[tuple[Signature, Shape]]) -> Signature | None:
    """The one of ``candidates``, each with its M, N and K, under which the kernel touches what a product does; None if
    there is none, or several."""
    found: dict[tuple[int, bool], list[tuple[Signature, Shape]]] = {}
    for meant, shape in candidates:
        values = operands(probe.spec, meant, shape, 1)
        launched = probe.launched(meant, shape, values, 0xFF)
        if launched is not None and (level := likeness(launched[1], shape)):
            found.setdefault((level, tells_all(meant)), []).append((meant, shape))
    if not found:
        return None
    best = found[max(found)]
    meanings = {tuple(arg.role for arg in meant.arguments if arg.code != "P") for meant, _ in best}
    return best[0][0] if len(meanings) == 1 else None


def touches_as_product(probe: LaunchProbe, shape: Shape) -> bool:
    """Whether the kernel, as it is read, reads A and B and writes C whole: a convolution has other sizes."""
    meant = probe.spec.signature
    launched = probe.launched(meant, shape, operands(probe.spec, meant, shape, 1), 0xFF)
    return launched is not None and likeness(launched[1], shape) == len("ABC")


def tells_all(meant: Signature) -> bool:
    """Whether the parameters tell M, N and K, and not the grid alone one of them."""
    return meant.square or bool(meant.tied) or all(meant.has(role) for role in ("M", "N", "K"))


def likeness(touched: Touched, shape: Shape) -> int:
    """How much a launch touches as a product does; 0: it does not.

    3  all three matrices are read and written whole
    2  two of them are; an index of the third is wrong
    1  one of them is, and the others lack as many rows or columns: the last step of a loop, for example
    """
    m, n, k = shape
    whole = touched.a == m * k, touched.b == k * n, touched.c == m * n
    if max(touched.a, touched.b, touched.c) > max(m * k, k * n, m * n):
        return 0
    if sum(whole) >= 2:
        return sum(whole)
    depths = divmod(touched.a, m), divmod(touched.b, n)
    columns = divmod(touched.b, k), divmod(touched.c, m)
    rows = divmod(touched.a, k), divmod(touched.c, n)
    for is_whole, (one, other), full in ((whole[2], depths, k), (whole[0], columns, n), (whole[1], rows, m)):
        if is_whole and one == other and not one[1] and full / 2 <= one[0] <= full:
            return 1
    return 0
