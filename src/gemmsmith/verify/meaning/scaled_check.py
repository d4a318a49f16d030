"""Check a product with scales, zero points or operands of two types: find what it means by one launch, then judge it.

Every trial is a launch of its own with memory that fits it exactly. Most have data whose sums are exact in every type,
so that results must be equal bit for bit; one has values of the whole range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.types import parse_type
from gemmsmith.call.launch import Launch
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import SignatureError, SimulationError, UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.shapes import Shape
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter
from gemmsmith.verify.code.source_guards import masks_k, without_loop_heads
from gemmsmith.verify.launch_check import check_launch
from gemmsmith.verify.launch_expected import Tolerance
from gemmsmith.verify.meaning.launch_probe import Operands
from gemmsmith.verify.meaning.launch_trial import (
    ALIGNED,
    DEEPER,
    DISTINCT,
    RACY,
    RAGGED,
    RIGHT,
    UNITS,
    VECTORS,
    WHOLE_TILES,
    WIDE,
    WRONG,
    LaunchTrial,
    roundoff,
)
from gemmsmith.verify.meaning.scaled_data import converted, elements, number_of, scales, unwritten
from gemmsmith.verify.meaning.scaled_evidence import Run, is_almost, is_wrong_product
from gemmsmith.verify.meaning.scaled_launch import is_guessed, searched
from gemmsmith.verify.meaning.scaled_meanings import Meaning, formula, magnitude, meanings, result
from gemmsmith.verify.trials.check_shapes import check_shapes

Array = NDArray[Any]
_GROUP = 32  # elements that share a scale, where a parameter says how many and host code passes no number
_VECTOR = 16  # elements of a vector access: 16 bytes of int8
_SCALARS = (2.0, 4.0, 0.5, 8.0)  # one after another: no two of them can stand for each other
_OTHER_GROUPS = (32, 64, 128, 16)  # of a kernel that does not use what it is told
_SMALL_SCALARS = (0.5, 0.25, 2.0, 0.125)  # where results are bytes again
_SUMS_HALVES = re.compile(r"\b(?:fma|add)\.[\w.]*\bb?f16|mma\.[\w.]*\.f16\.f16\.f16\.f16\b")
_VECTORS = re.compile(r"\b(?:ld|st)\.global\.[\w.]*v[248]|\bcp\.async|\bwmma\.|\bld\.global\.[\w.]*[bsu](?:32|64)\b")
_ORDERED = re.compile(r"\.shared\b|\b(?:atom|red)\.|\bbar(?:rier)?\.")  # else warps have no order to vary
_ROUNDINGS = 16  # units in the last place that honest sums differ by, as for ordinary products
_MOST_MEANINGS = 20_000
_SMALL = (16, 16, 256)


@dataclass
class ScaledCheck:
    """The verdict: what it computes, its trials, and which extents must be multiples of the tile."""

    spec: KernelSpec
    parameters: tuple[ScaledParameter, ...]
    meaning: Meaning
    trials: list[LaunchTrial] = field(default_factory=list)
    status: str = RIGHT
    multiples: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status not in (WRONG, RACY)

    @property
    def entry(self) -> str:
        return self.spec.entry

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def formula(self) -> str:
        return formula(self.meaning, self.parameters)


@dataclass(frozen=True)
class _Runner:
    spec: KernelSpec
    parameters: tuple[ScaledParameter, ...]
    device: str
    timeout: float
    cache: CompileCache | None
    group: int

    def launch(
        self, shape: Shape, data: Mapping[str, Any], expected: Array | None = None, limits: Tolerance | None = None
    ) -> Launch:
        m, n, k = shape
        geometry = self.spec.geometry(Problem(m, n, k), self.spec.config())
        output = self.named("C")
        return Launch(
            self.spec.unit or self.spec.source, self.spec.entry, geometry.grid, geometry.block, dict(data),
            geometry.smem, dict(self.spec.extra_defines), self.spec.include, name=self.spec.entry,
            cooperative=geometry.cooperative, cluster=geometry.cluster,
            expect=None if expected is None else lambda: {output: expected},
            rtol=limits.rtol if limits else None, atol=limits.atol if limits else None,
        )  # fmt: skip

    def named(self, role: str) -> str:
        return next(each.name for each in self.parameters if each.role == role)

    def type_of(self, parameter: ScaledParameter) -> np.dtype[Any]:
        kind = parse_type(parameter.type).element
        if kind is None:
            raise SignatureError(f"{self.spec.entry}: {parameter.name} points to {parameter.type}", "")
        return kind

    @cached_property
    def ptx(self) -> str:
        return self.launch(_SMALL, {}).compile(cache=self.cache).compiled.ptx

    def data(self, shape: Shape, wide: bool, counts: Mapping[str, int], layout: str = "NN") -> dict[str, Any]:
        """Arguments by name; of scales and zero points ``counts`` values. Integers that are summed in 16 bits are not
        of the whole range, which would overflow."""
        m, n, k = shape
        rng = np.random.Generator(np.random.PCG64(7 + wide))
        most = 15 if wide and _SUMS_HALVES.search(self.ptx) else 127
        sizes = {"A": m * k, "B": k * n, "C": m * n, "bias": max(m, n)}
        numbers = {"M": m, "N": n, "K": k, "lda": m if layout[0] == "T" else k, "ldb": k if layout[1] == "T" else n,
                   "ldc": n, "group": self.group}  # fmt: skip
        narrow = self.type_of(next(each for each in self.parameters if each.role == "C")).itemsize == 1
        scalars = iter(_SMALL_SCALARS if narrow else _SCALARS)
        lone = narrow and sum(each.role == "scale" for each in self.parameters) == 1
        made: dict[str, Any] = {}
        for each in self.parameters:
            if each.role in numbers:
                made[each.name] = numbers[each.role]
            elif each.role == "C":
                made[each.name] = unwritten(sizes["C"], self.type_of(each))
            elif each.role in ("A", "B", "bias"):
                made[each.name] = elements(rng, sizes[each.role], self.type_of(each),
                                            most if wide and each.role != "bias" else 0)  # fmt: skip
            elif each.role in ("scale", "zero"):
                count = counts.get(each.name, 1)
                zeros = self._zeros(rng, count, each.operand) if wide and most > 15 else rng.integers(0, 3, count)
                values = scales(rng, count, wide) if each.role == "scale" else zeros
                if each.pointer:
                    made[each.name] = values.astype(self.type_of(each))
                elif each.role == "scale":
                    of_range = 1.0 if each.operand == "C" and narrow else float(values[0]) / (100 if lone else 1)
                    made[each.name] = of_range if wide else next(scalars)
                else:
                    made[each.name] = int(values[0]) + 1
            else:
                made[each.name] = None if each.pointer else number_of(each.role)
        return made

    def _zeros(self, rng: np.random.Generator, count: int, operand: str) -> Array:
        """Zero points of the range of their operand's type: beyond int8's for unsigned bytes."""
        kind = (
            self.type_of(next(each for each in self.parameters if each.role == operand))
            if operand in ("A", "B")
            else None
        )
        if kind is None or kind.itemsize > 1 or kind.kind not in "iu":
            return rng.integers(0, 12, count)
        return rng.integers(*((130, 250) if kind.kind == "u" else (-120, 120)), count)

    def written(self, shape: Shape, data: Mapping[str, Any]) -> Array:
        """C after a launch that does not look for races."""
        ran = self.launch(shape, data).run(self.device, hazards=False, count=False, timeout=self.timeout,
                                           cache=self.cache)  # fmt: skip
        return np.asarray(ran[self.named("C")])

    def neutral(self, shape: Shape, counts: Mapping[str, int]) -> Run:
        """What the kernel writes for any A and B where scales change nothing, but for the first value of one."""
        neutral = {"scale": 1, "zero": 0, "bias": 0}

        def run(values: Operands, changed: str, at: int = 0) -> Array:
            data = self.data(shape, wide=False, counts=counts)
            data.update(zip((self.named("A"), self.named("B")), values, strict=True))
            for each in self.parameters:
                if each.role in neutral and data[each.name] is not None:
                    value, more = neutral[each.role], int(each.name == changed)
                    data[each.name] = np.full_like(data[each.name], value) if each.pointer else value + more
                    if each.pointer and more:
                        data[each.name][at] = value + 1
            return self.written(shape, data)

        return run

    def trial(self, label: str, shape: Shape, meaning: Meaning, wide: bool = False, every: bool = False) -> LaunchTrial:
        counts = {name: each.count(shape) for name, each in meaning.sharing.items()}
        data = self.data(shape, wide, counts, meaning.layout)
        output = next(each for each in self.parameters if each.role == "C")
        expected = converted(result(meaning, self.parameters, data, shape), self.type_of(output))
        limits = self._limits(meaning, data, shape) if wide else Tolerance(0.0, 0.0)
        launch = self.launch(shape, data, expected.reshape(-1), limits)
        found = check_launch(launch, self.device, timeout=self.timeout, cache=self.cache, most=None if every else 1)
        return LaunchTrial(label, shape, found)

    def _limits(self, meaning: Meaning, data: Mapping[str, Any], shape: Shape) -> Tolerance:
        """Tolerances for data whose sums are rounded."""
        output = str(self.type_of(next(each for each in self.parameters if each.role == "C")))
        total = magnitude(meaning, self.parameters, data, shape)
        scaled = any(each.role == "scale" for each in self.parameters)
        whole = 1.0 if output not in UNITS and scaled else 0.0  # a sum near one half may round either way
        unit = roundoff(self.ptx)
        relative = 4 * UNITS.get(output, 0.0) + _ROUNDINGS * UNITS["float32"]
        return Tolerance(relative, _ROUNDINGS * unit * total + whole)


def check_scaled(
    spec: KernelSpec, parameters: tuple[ScaledParameter, ...], passed_group: int, device: str, timeout: float,
    cache: CompileCache | None, only: str = "", tried_launch: bool = False,
) -> ScaledCheck:  # fmt: skip
    """The verdict, or the outcome of the trial ``only``; raises ``SignatureError`` where no meaning that was tried
    gives its result. ``tried_launch``: no one says that it is launched so, and only what it then computes can."""
    runner = _runner(spec, parameters, passed_group, device, timeout, cache)
    shapes = check_shapes(spec, spec.config())
    may_be_grouped = any(each.role in ("scale", "zero") and each.pointer for each in parameters)
    depth = 2 * max(runner.group, 128) if may_be_grouped else 0
    m, n, k = shapes.distinct
    shape = m, n, _deep(max(k, depth), runner.group or (128 if depth else 1), (m, n))
    meaning = _meaning(runner, shape, tried_launch)
    found = ScaledCheck(spec, parameters, meaning)
    step = runner.group or meaning.group
    ordered = _ORDERED.search(runner.ptx) is not None
    planned = ((DISTINCT, shape, False), (WIDE, shape, True), (DEEPER, (m, n, 2 * shape[2]), False))
    if only and only not in (*(label for label, *_ in planned), RAGGED):
        names = "; ".join((*(label for label, *_ in planned), RAGGED))
        raise UsageError(f"check has no trial {only!r} for this kernel", f"its trials: {names}")
    for label, tried, wide in planned:
        if only in ("", label) or (only == RAGGED and label == DISTINCT):  # edges are judged beside whole tiles
            found.trials.append(runner.trial(label, tried, meaning, wide, every=label == DISTINCT and ordered))
            if not found.trials[-1].ok:
                found.status = RACY if found.trials[-1].hazards else WRONG
                return found
    if only in ("", RAGGED):
        _ragged(runner, found, shape, step)
    return found


def launches_of_scaled(
    spec: KernelSpec, parameters: tuple[ScaledParameter, ...], passed_group: int, timeout: float,
    cache: CompileCache | None,
) -> Iterator[KernelSpec]:  # fmt: skip
    """The kernel under launches that are found by running single blocks, where nothing says how it is launched."""
    if is_guessed(spec):
        runner = _runner(spec, parameters, passed_group, "sim", timeout, cache)
        yield from searched(runner, tuple(each.name for each in parameters if each.role in ("scale", "zero")))


def _runner(
    spec: KernelSpec, parameters: tuple[ScaledParameter, ...], passed_group: int, device: str, timeout: float,
    cache: CompileCache | None,
) -> _Runner:  # fmt: skip
    has_group = any(each.role == "group" for each in parameters)
    return _Runner(spec, parameters, device, timeout, cache, (passed_group or _GROUP) if has_group else 0)


def _meaning(runner: _Runner, shape: Shape, tried_launch: bool = False) -> Meaning:
    types = {role: runner.type_of(next(p for p in runner.parameters if p.role == role)) for role in "ABC"}
    narrow = {role: kind.itemsize == 1 for role, kind in types.items()}
    kinds = types["A"], types["B"]
    known = list(meanings(runner.parameters, runner.group, narrow))[:_MOST_MEANINGS]
    counts: dict[str, int] = {}
    for meaning in known:
        for name, each in meaning.sharing.items():
            counts[name] = max(counts.get(name, 1), each.count(shape))
    leading = any(each.role in ("lda", "ldb") for each in runner.parameters)
    near: Meaning | None = None
    why = ""
    for layout in ("NN", "NT", "TN", "TT") if leading else ("",):
        data = runner.data(shape, wide=False, counts=counts, layout=layout or "NN")
        try:
            got = runner.written(shape, data).reshape(shape[:2])
        except SimulationError as error:
            why = why or f" (one launch of it stopped: {error.message.splitlines()[0]})"
            continue
        for meaning in known:
            if layout and meaning.layout != layout:
                continue
            expected = converted(result(meaning, runner.parameters, data, shape), got.dtype)
            equal = expected.astype(np.float64) == got.astype(np.float64)
            if equal.all():
                return meaning
            near = near or (meaning if is_almost(equal, expected.astype(np.float64)) else None)
            if near is None and got.dtype.itemsize == 1 and equal.any():
                exact = result(meaning, runner.parameters, data, shape).astype(np.int64)
                near = meaning if (exact.astype(got.dtype) == got).all() else None  # it wraps around
    if tried_launch:
        raise _refused(runner, known, why)
    if near is not None:
        return near
    if runner.group and (other := _of_another_group(runner, shape, narrow)) is not None:
        return other
    plain = not why and not leading and not narrow["C"] and bool(known)
    if plain and is_wrong_product(runner.neutral(shape, counts), kinds, shape, runner.parameters):
        return _first_within_arrays(runner, shape, known)
    raise _refused(runner, known, why)


def _of_another_group(runner: _Runner, shape: Shape, narrow: Mapping[str, bool]) -> Meaning | None:
    """What a kernel was meant to compute that is right for another length of a group than the one it is passed."""
    meant = [each for each in meanings(runner.parameters, runner.group, narrow) if each.group == runner.group]
    for group in (x for x in _OTHER_GROUPS if x != runner.group):
        for meaning in meanings(runner.parameters, group, narrow):
            counts = {name: each.count(shape) for name, each in meaning.sharing.items()}
            same = next((each for each in meant if _is_same_but_for_groups(each, meaning)), None)
            if meaning.group != group or same is None:
                continue
            for name, each in same.sharing.items():
                counts[name] = max(counts[name], each.count(shape))
            data = runner.data(shape, wide=False, counts=counts, layout=meaning.layout)
            with suppress(SimulationError):
                got = runner.written(shape, data).reshape(shape[:2])
                expected = converted(result(meaning, runner.parameters, data, shape), got.dtype)
                if np.array_equal(expected.astype(np.float64), got.astype(np.float64)):
                    return same
    return None


def _is_same_but_for_groups(one: Meaning, two: Meaning) -> bool:
    ways = ({name: (way.kind, way.operand, way.order) for name, way in each.sharing.items()} for each in (one, two))
    return next(ways) == next(ways) and replace(one, sharing={}) == replace(two, sharing={})


def _first_within_arrays(runner: _Runner, shape: Shape, known: list[Meaning]) -> Meaning:
    """The likeliest meaning under which scales and zero points have all the values that the kernel reads."""
    tried = set[tuple[int, ...]]()
    for meaning in known:
        counts = {name: each.count(shape) for name, each in meaning.sharing.items()}
        if (key := tuple(counts.values())) in tried:
            continue
        tried.add(key)
        with suppress(SimulationError):
            runner.written(shape, runner.data(shape, wide=False, counts=counts))
            return meaning
    return known[0]


def _refused(runner: _Runner, known: list[Meaning], why: str) -> SignatureError:
    takes = ", ".join(f"{each.name} {each.type}*" for each in runner.parameters if each.pointer)
    shared = [each.name for each in runner.parameters if each.role in ("scale", "zero")]
    tried = f"{len(known)} meanings of {', '.join(shared)}" if shared else "the four layouts of A and B"
    packed = [each.name for each in runner.parameters if each.role in ("A", "B")
              and runner.type_of(each).kind in "iu" and runner.type_of(each).itemsize > 1]  # fmt: skip
    hint = f"{packed[0]} may hold packed numbers, which are not unpacked; " if packed else ""
    return SignatureError(
        f"{runner.spec.entry} takes {takes}: none of {tried} gives its result{why}",
        f"{hint}run one launch with --grid … --block … --args … --expect FILE.py:FUNCTION, which computes what it "
        "must write",
    )


def _ragged(runner: _Runner, found: ScaledCheck, shape: Shape, step: int) -> None:
    """Shapes that are no multiples of the tile. A kernel without guards is right for whole tiles; one with guards that
    fails there is wrong. K is a multiple of ``step``, the elements that share a scale."""
    wide = _VECTOR if _VECTORS.search(found.trials[0].check.kernel.compiled.ptx) else 1
    vectors = _moved(shape, (1, wide, wide), step)
    tried = [(RAGGED, _moved(shape, (1, 1, 1), step), RIGHT), (VECTORS, vectors, ALIGNED)]
    for label, moved, status in tried[: 1 + (wide > 1)]:
        trial = _tried(runner, label, moved, found.meaning)
        if trial is not None:
            found.trials.append(trial)
            if trial.hazards or trial.ok:
                found.status = RACY if trial.hazards else status
                return
    failing = []
    for axis, name in enumerate("MNK"):
        m, n, k = (vectors[i] if i == axis else shape[i] for i in range(3))
        alone = _tried(runner, f"{RAGGED} in {name}", (m, n, k), found.meaning)
        if alone is None or not alone.ok:
            failing.append(name)
    spec = runner.spec
    guarded = [axis for axis in failing if (masks_k(spec) if axis == "K" else _is_guarded(spec, axis))]
    found.status = WRONG if guarded else WHOLE_TILES
    found.multiples = tuple(failing)


def _is_guarded(spec: KernelSpec, axis: str) -> bool:
    """Whether the kernel compares anything with an extent, beside the ends of loops."""
    facts = getattr(spec.geometry, "facts", None)
    name, text = re.escape(spec.signature.named(axis)), str(getattr(facts, "reached", ""))
    return re.search(rf"[<>]=?\s*{name}\b|\b{name}\s*[<>]=?", without_loop_heads(text)) is not None


def _tried(runner: _Runner, label: str, shape: Shape, meaning: Meaning) -> LaunchTrial | None:
    """A trial; None where host code has no launch for the shape."""
    try:
        return runner.trial(label, shape, meaning)
    except UsageError:
        return None


def _moved(shape: Shape, by: Shape, step: int) -> Shape:
    m, n, k = (extent + more for extent, more in zip(shape, by, strict=True))
    return m, n, k if step == 1 else shape[2] + step


def _deep(least: int, step: int, others: tuple[int, int]) -> int:
    """A multiple of ``step`` of at least ``least`` that equals neither M nor N."""
    depth = math.ceil(least / step) * step
    while depth in others:
        depth += step
    return depth
