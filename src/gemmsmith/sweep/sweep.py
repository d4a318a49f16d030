"""A sweep: one kernel at every point of a grid of parameters, macros and sizes; which points are legal, and why not.

    --vary texts ─► Axis… ─► grid(family, axes, …) ─► Point… ─► Outcome…

A family is a rung or a user's file with some values held fixed; it turns the values of a point into a kernel. What is
done at a point, timing or counting, is for the caller.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import CompileError, ConfigError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.renamed import replacement
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import MAX_EXTENT, Problem, dtype_named
from gemmsmith.shapes import Shape
from gemmsmith.store.results import Measurement
from gemmsmith.userfile.includes import bundle
from gemmsmith.userfile.user_kernel import UserOptions, user_kernel

EXTENTS = ("SIZE", "M", "N", "K")
WAVES = "WAVES"
RESOURCES = ("registers", "threads", "smem")
SPECIAL = (*EXTENTS, WAVES, "dtype", *RESOURCES)
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Axis:
    """One thing that is varied; several names where they vary together, as TM and TN of a tile's shape."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @property
    def title(self) -> str:
        return "×".join(self.names)

    def label(self, settings: Pairs) -> str:
        """A point's value on this axis: '8×4'."""
        return "×".join(value for name, value in settings if name in self.names)


def parse_axis(text: str) -> Axis:
    """'BK=8,16,32', or 'TM,TN=4x4,8x4' for names that vary together; order is kept, repetitions are dropped."""
    left, equals, right = text.partition("=")
    names = tuple(name.strip() for name in left.split(","))
    words = [word.strip() for word in right.split(",")]
    example = "write --vary BK=8,16,32, or --vary TM,TN=4x4,8x4 for values that go together"
    if not equals or not all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in names) or not all(words):
        raise UsageError(f"cannot read --vary {text!r}", example)
    if len(set(names)) < len(names):
        raise UsageError(f"--vary {text!r} names a parameter twice", example)
    values = [tuple(word.split("x")) if len(names) > 1 else (word,) for word in words]
    for word, value in zip(words, values, strict=True):
        if len(value) != len(names) or not all(value):
            raise UsageError(f"{word!r} in --vary {text!r} is not {len(names)} values joined by x", example)
    return Axis(names, tuple(dict.fromkeys(values)))


@dataclass(frozen=True)
class Variant:
    """A kernel at one point. ``text`` is its configuration, or a file's macros, for people."""

    spec: KernelSpec
    config: Config
    text: str


@dataclass(frozen=True)
class RungFamily:
    """A rung with some parameters held."""

    spec: KernelSpec
    fixed: Pairs = ()
    preset: str = ""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def held(self) -> tuple[str, ...]:
        """The names of what is held."""
        return tuple(name for name, _ in self.fixed)

    def check(self, names: Iterable[str]) -> None:
        known = [p.name for p in self.spec.parameters]
        for name in names:
            if new := replacement(name):
                raise ConfigError(f"{self.name} has no parameter {name}: it was renamed", f"write {new}")
            if name not in known:
                raise ConfigError(f"{self.name} has no parameter {name}", _can_vary(known))

    def variant(self, changes: Pairs) -> Variant | tuple[str, ...]:
        """The rung with ``changes``, or every reason why it cannot be."""
        values = {p.name: p.default for p in self.spec.parameters}
        if self.preset:
            values.update(self.spec.config(preset=self.preset).values)
        values.update((name, self._value(name, value)) for name, value in (*self.fixed, *changes))
        config = Config(tuple(values.items()))
        reasons = self.spec.illegal(config)
        return tuple(reasons) if reasons else Variant(self.spec, config, str(config))

    def _value(self, name: str, text: str) -> int:
        """A number, or a name of a value: STORE_MODE=tma."""
        return self.spec.value_of(name, text) if text.isidentifier() else _integer(name, text)


@dataclass(frozen=True)
class FileFamily:
    """A user's file; what varies are its macros, and its template's parameters by name."""

    path: Path
    options: UserOptions

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def held(self) -> tuple[str, ...]:
        """The names of what is held."""
        return tuple(name for name, _ in self.options.defines)

    def check(self, names: Iterable[str]) -> None:
        """Refuse a macro that the file does not have, or that it sets itself: all points would be the same."""
        user_kernel(self.path, self.options)  # a file that is missing or has no kernel is the likelier mistake
        parts = bundle(self.path, ())
        text = "\n".join([parts.source, *(header for _, header in parts.headers)])
        for name in names:
            if not re.search(rf"\b{name}\b", text):
                macros = sorted(set(re.findall(r"^\s*#\s*ifndef\s+(\w+)\s*\n\s*#\s*define\s+\1\b", text, re.M)))
                raise ConfigError(f"{self.name} has no macro {name}", _can_vary(macros))
            if _sets_itself(name, text):
                raise ConfigError(f"{self.name} sets {name} itself, whatever -D{name} says",
                                  f"let it be set from outside: #ifndef {name}, #define {name} …, #endif")  # fmt: skip

    def variant(self, changes: Pairs) -> Variant | tuple[str, ...]:
        """The file with ``changes`` as macros, or why it cannot be launched so."""
        defines = (*self.options.defines, *changes)
        try:
            spec = user_kernel(self.path, replace(self.options, defines=defines))
        except UsageError as error:
            return (error.message,)
        return Variant(spec, spec.config(), ",".join(f"{name}={value}" for name, value in defines))


Family = RungFamily | FileFamily


@dataclass(frozen=True)
class Point:
    """One point of the grid: what was set, and the kernel and problem that make it; or the reasons why there are none.

    ``resources`` are registers, threads or shared memory set by hand, for which occupancy alone can be told.
    """

    settings: Pairs
    variant: Variant | None = None
    problem: Problem | None = None
    reasons: tuple[str, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()

    @property
    def label(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.settings)


@dataclass(frozen=True)
class Outcome:
    """What came of a point.

    state    'ok'; 'illegal': the configuration is refused; 'failed': it does not compile, fit or launch;
             'wrong': its result is
    limiter  the resource that limits occupancy
    """

    point: Point
    state: str
    reasons: tuple[str, ...] = ()
    measurement: Measurement | None = None
    limiter: str = ""


ShapeOfWaves = Callable[[Variant, float, Shape], Shape]
"""A shape whose grid is about so many waves, with the K of the shape given."""


def points_in(axes: Sequence[Axis], shapes: Sequence[Shape]) -> int:
    count = len(shapes)
    for axis in axes:
        count *= len(axis.values)
    return count


def grid(
    family: Family,
    axes: Sequence[Axis],
    shapes: Sequence[Shape],
    dtype: str = "",
    shape_of_waves: ShapeOfWaves | None = None,
) -> tuple[Point, ...]:
    """Every combination of the axes' values and ``shapes``, the last axis fastest; illegal ones hold their reasons.

    A name that the kernel does not have, and values that are no numbers where numbers are needed, raise ``UsageError``.
    """
    names = [name for axis in axes for name in axis.names]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name} is varied twice", "give all its values in one --vary")
    sized = [name for name in names if name in (*EXTENTS, WAVES)]
    for name in ("SIZE", WAVES):
        if name in sized and len(sized) > 1:
            raise UsageError(f"{name} sets the shape, so {' and '.join(n for n in sized if n != name)} cannot vary too")
    if sized and len(shapes) > 1:
        raise UsageError(f"{' and '.join(sized)} and --shapes both say which sizes to take", "give one of them")
    if WAVES in sized and shape_of_waves is None:
        raise UsageError("waves are not known here")
    for name in names:
        if name in family.held:
            raise UsageError(f"{name} is held and varied at once", f"leave one of them out: {name}= or --vary {name}=")
    family.check(name for name in names if name not in SPECIAL)
    points = []
    for shape in shapes:
        for values in itertools.product(*(axis.values for axis in axes)):
            settings = tuple(
                pair for axis, value in zip(axes, values, strict=True) for pair in zip(axis.names, value, strict=True)
            )
            shown = settings if len(shapes) == 1 else (("shape", "x".join(map(str, shape))), *settings)
            points.append(_point(family, settings, shown, shape, dtype, shape_of_waves))
    return tuple(points)


def _point(
    family: Family, settings: Pairs, shown: Pairs, shape: Shape, dtype: str, shape_of_waves: ShapeOfWaves | None
) -> Point:
    given = dict(settings)
    resources = tuple((name, _integer(name, value)) for name, value in settings if name in RESOURCES)
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
            value = _integer(key, given[key])
            if not 1 <= value <= MAX_EXTENT:
                raise UsageError(f"{key}={value} is no extent to sweep over", f"give numbers from 1 to {MAX_EXTENT}")
            return value
    return whole


def _waves(text: str) -> float:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) is None or not 0 < float(text) <= 1000:
        raise UsageError(f"{WAVES}={text} is not a number of waves", "write 0.9, 1 or 2.1, for example")
    return float(text)


def _integer(name: str, text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise UsageError(f"{name}={text} is not an integer")
    return int(text)


def _sets_itself(name: str, text: str) -> bool:
    """Whether the source gives ``name`` a value that a macro from outside does not replace."""
    guard = rf"^[ \t]*#[ \t]*(?:ifndef[ \t]+{name}\b|if[ \t]+!\s*defined\s*\(?\s*{name}\b)"
    defined = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", text, re.M)
    if defined is not None:
        return re.search(guard, text[: defined.start()], re.M) is None
    return re.search(rf"\b(?:const|constexpr)\b[^;(){{}}<>]*\b{name}\s*(?:=|\{{)", text) is not None


def _can_vary(names: Sequence[str]) -> str:
    return f"it can vary {', '.join([*names, *SPECIAL])}"
