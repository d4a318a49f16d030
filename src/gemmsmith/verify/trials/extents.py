"""Products of other extents, as far as CUDA's grids go."""

from __future__ import annotations

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem

_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_FAR = 2**18  # rows and columns of the product whose blocks are looked at


def legal_grid(geometry: Geometry) -> bool:
    """Whether CUDA accepts the grid."""
    return all(1 <= extent <= most for extent, most in zip(geometry.grid, _GRID_LIMITS, strict=True))


def with_extent(start: Problem, axis: str, value: int) -> Problem:
    """The product with another extent: along K, M, N, or two of them at once."""
    return start.with_(**{extent.lower(): value for extent in axis})


def far_problem(spec: KernelSpec, config: Config, start: Problem, largest: int = _FAR) -> Problem | None:
    """A product with as many whole tiles as CUDA's grids allow, up to ``largest`` rows and columns; None: none fits.

    ``start`` has whole tiles, so multiples of it have, too.
    """
    times_m, times_n = max(1, largest // max(1, start.m)), max(1, largest // max(1, start.n))
    while times_m > 1 or times_n > 1:
        far = start.with_(m=start.m * times_m, n=start.n * times_n)
        try:
            if legal_grid(spec.geometry(far, config)):
                return far
        except GemmsmithError:
            return None
        times_m, times_n = max(1, times_m // 2), max(1, times_n // 2)
    return None
