"""Shapes on which the meanings of a user's kernel are tried: those that fit its parameters or its launch, and those
with equal extents."""

from __future__ import annotations

import math

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.shapes import Shape
from gemmsmith.verify.check_shapes import check_shapes


def fitting(signature: Signature, shape: Shape) -> Shape:
    """The shape, or a cube for a kernel with one extent; with equal extents where one parameter is two of them."""
    side = max(shape[:2])
    if signature.tied:
        own = dict(zip(EXTENTS, shape, strict=True))
        own[signature.tied[1]] = own[signature.tied[0]]
        return own["M"], own["N"], own["K"]
    return (side, side, side) if signature.square and not signature.fixed else shape


def own_shape(spec: KernelSpec, candidate: Signature, config: Config) -> Shape | None:
    """The shape that fits the launch where the parameters mean this; None if the launch is not known."""
    try:
        return fitting(candidate, check_shapes(spec.read_as(candidate, "NN"), config).distinct)
    except GemmsmithError:
        return None


def restricted_extents(shape: Shape) -> list[tuple[str, Shape, *tuple[Shape, ...]]]:
    """Shapes with equal extents, the weakest restriction first: one may be used in place of another. A grid may also be
    made for a C of M rows and M columns, which is enough up to there."""
    m, n, k = shape
    deep, side, wide = math.lcm(m, k), math.lcm(m, n), n * (m // n + 1)
    tall = next(rows for rows in range(m * (n // m + 1), 1 << 20, m) if rows != k)
    return [("N = K", (m, n, n)), ("N ≤ M", (tall, n, k)), ("M = K", (deep, n, deep), (m, wide, m)),
            ("M = N", (side, side, k)), ("M = N = K", (side,) * 3)]  # fmt: skip
