"""The points of a sweep: every combination of the axes' values, each with its kernel and problem, or why it has none.

--vary texts ─► Axis… ─► grid(family, axes, …) ─► Point… ─► Outcome…
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gemmsmith.errors import CompileError, UsageError
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import MAX_EXTENT, Problem, dtype_named
from gemmsmith.shapes import Shape
from gemmsmith.sweep.axes import EXTENTS, RESOURCES, SPECIAL, WAVES, Axis, Pairs, integer
from gemmsmith.sweep.families import Family, Variant


@dataclass(frozen=True)
class Point:
    """One point of the grid: its settings, and its kernel and problem, or the reasons why it has none.

    ``resources`` are registers, threads or shared memory set by hand; only occupancy can be predicted for them.
    """

    settings: Pairs
    variant: Variant | None = None
    problem: Problem | None = None
    reasons: tuple[str, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()

    @property
    def label(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.settings)


ShapeOfWaves = Callable[[Variant, float, Shape], Shape]
"""A shape whose grid is about that many waves, with the K of the given shape."""


def check_size(axes: Sequence[Axis], shapes: Sequence[Shape], most: int) -> None:
    """Refuse more than ``most`` points, and empty matrices."""
    counts = [len(axis.values) for axis in axes] + ([len(shapes)] if len(shapes) > 1 else [])
    total = 1
    for count in counts:
        total *= count
    if total > most:
        raise UsageError(f"{' · '.join(map(str, counts))} = {total} points are more than {most}",
                         f"vary less at once, or allow it: --max-points {total}")  # fmt: skip
    if any(not all(shape) for shape in shapes):
        raise UsageError("an empty matrix has nothing to count or time", "give M, N and K of at least 1")


def grid(
    family: Family,
    axes: Sequence[Axis],
    shapes: Sequence[Shape],
    dtype: str = "",
    shape_of_waves: ShapeOfWaves | None = None,
) -> tuple[Point, ...]:
    """Every combination of the axes' values and ``shapes``, the last axis fastest. Illegal points hold their reasons.

    A name that the kernel does not have, and text where a number is needed, raise ``UsageError``.
    """
    names = [name for axis in axes for name in axis.names]
    _check_names(names, family, several_shapes=len(shapes) > 1)
    if WAVES in names and shape_of_waves is None:
        raise UsageError("WAVES needs a GPU whose occupancy is known")
    points = []
    for shape in shapes:
        for values in itertools.product(*(axis.values for axis in axes)):
            settings = tuple(
                pair for axis, value in zip(axes, values, strict=True) for pair in zip(axis.names, value, strict=True)
            )
            shown = settings if len(shapes) == 1 else (("shape", "x".join(map(str, shape))), *settings)
            points.append(_point(family, settings, shown, shape, dtype, shape_of_waves))
    return tuple(points)


def _check_names(names: Sequence[str], family: Family, several_shapes: bool) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} is varied twice", "give all its values in one --vary")
    sized = [name for name in names if name in (*EXTENTS, WAVES)]
    for name in ("SIZE", WAVES):
        if name in sized and len(sized) > 1:
            raise UsageError(f"{name} sets the shape, so {' and '.join(n for n in sized if n != name)} cannot vary too")
    if sized and several_shapes:
        raise UsageError(f"{' and '.join(sized)} and --shapes both set sizes", "give one of them")
    for name in names:
        if name in family.fixed_names:
            raise UsageError(f"{name} is both fixed and varied", f"leave one of them out: {name}= or --vary {name}=")
    family.check(name for name in names if name not in SPECIAL)


def _point(
    family: Family, settings: Pairs, shown: Pairs, shape: Shape, dtype: str, shape_of_waves: ShapeOfWaves | None
) -> Point:
    given = dict(settings)
    resources = tuple((name, integer(name, value)) for name, value in settings if name in RESOURCES)
    m, n, k = (_extent(name, given, whole) for name, whole in zip("MNK", shape, strict=True))
    kind = dtype_named(given.get("dtype", dtype)) if given.get("dtype", dtype) else None
    waves = _waves(given[WAVES]) if WAVES in given else None
    variant = family.variant(tuple((name, value) for name, value in settings if name not in SPECIAL))
    if not isinstance(variant, Variant):
        return Point(shown, reasons=variant)
    try:
        if waves is not None and shape_of_waves is not None:
            m, n, k = shape_of_waves(variant, waves, shape)
        problem = Problem(m, n, k, dtype=kind or variant.spec.dtypes[0])
        check_accepts(variant.spec, problem)
        if not variant.spec.geometry(problem, variant.config).blocks:
            return Point(shown, variant, reasons=(f"{problem} launches no block",))
    except (UsageError, CompileError) as error:
        return Point(shown, variant, reasons=(error.message,))
    return Point(shown, variant, problem, resources=resources)


def _extent(name: str, given: dict[str, str], whole: int) -> int:
    for key in (name, "SIZE"):
        if key in given:
            value = integer(key, given[key])
            if not 1 <= value <= MAX_EXTENT:
                raise UsageError(f"{key}={value} is not an extent to sweep over", f"give 1 to {MAX_EXTENT}")
            return value
    return whole


def _waves(text: str) -> float:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) is None or not 0 < float(text) <= 1000:
        raise UsageError(f"{WAVES}={text} is not a number of waves", "write 0.9, 1 or 2.1, for example")
    return float(text)
