"""Check a product with scales, zero points or operands of two types: find what it means by one launch, then judge it.

Every trial is a launch of its own with memory that fits it exactly. Most have data whose sums are exact in every type,
so that results must be equal bit for bit; one has values of the whole range.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import GemmsmithError, UnknownTrialError, UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.shapes import Shape
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter
from gemmsmith.verify.code.source_guards import masks_k, without_loop_heads
from gemmsmith.verify.formula.documented import documented
from gemmsmith.verify.launch_check import check_launch
from gemmsmith.verify.launch_expected import Tolerance
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
from gemmsmith.verify.meaning.scaled_data import converted
from gemmsmith.verify.meaning.scaled_kinds import EXACT, TINY_DATA, WIDE_DATA, Data
from gemmsmith.verify.meaning.scaled_launch import is_guessed, searched
from gemmsmith.verify.meaning.scaled_meanings import Meaning, formula, magnitude, result
from gemmsmith.verify.meaning.scaled_rests import RESTS, rest_depths, rest_trial
from gemmsmith.verify.meaning.scaled_runner import Runner
from gemmsmith.verify.meaning.scaled_search import find_meaning, likeliest
from gemmsmith.verify.oracles.promises import takes_any
from gemmsmith.verify.trials.check_shapes import check_shapes
from gemmsmith.verify.trials.chosen_launches import REST, launch_changes

DEPTHS, NARROW, MANY = "other K", "one row or column", "many tiles along M or N"
CHOSEN = "where host code chooses another launch"
_DEPTHS = (1, 2, 3, 5, 8, 13, 16, 17, 24, 33, 40, 47, 56, 64, 81, 128)  # around the multiples of usual k-tiles
_FEW_GROUPS = (1, 2, 3, 5, 8)
_FEW, _LONG_DEPTH, _TILES = 17, 1057, 9
_OTHERS_S = 6.0  # of one core
_CHOSEN_TILE = 64  # in which host code is asked for launches
EDGES = (RAGGED, DEPTHS, NARROW, MANY, CHOSEN, RESTS)
TINY, GROUPS = "the smallest numbers of fp8", "groups of"
_GROUP = 128  # elements that share a scale, where a parameter says how many and the file names no number
_OTHER_GROUP = 32
_VECTOR = 16  # elements of a vector access: 16 bytes of int8
_VECTORS = re.compile(r"\b(?:ld|st)\.global\.[\w.]*v[248]|\bcp\.async|\bwmma\.|\bld\.global\.[\w.]*[bsu](?:32|64)\b")
_ORDERED = re.compile(r"\.shared\b|\b(?:atom|red)\.|\bbar(?:rier)?\.")  # else warps have no order to vary
_ROUNDINGS = 16  # units in the last place that honest sums differ by, as for ordinary products


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


def _trial(
    runner: Runner, label: str, shape: Shape, meaning: Meaning, kind: Data = EXACT, every: bool = False,
    like: Meaning | None = None,
) -> LaunchTrial:  # fmt: skip
    """One launch, judged by ``meaning``; ``like``: another one that scales have values enough for."""
    both = meaning, like or meaning
    counts = {name: max(each.sharing[name].count(shape) for each in both) for name in meaning.sharing}
    data = runner.data(shape, meaning, counts, kind)
    expected = converted(result(meaning, runner.parameters, data, shape), meaning.output.kind)
    loose = meaning.rounding is not None and meaning.rounding.loose
    limits = _limits(runner, meaning, data, shape) if kind != EXACT else Tolerance(0.0, float(loose))
    if limits.atol and expected.dtype.kind in "iu":
        expected = expected.astype(np.float64)  # integers would have to be equal
    launch = runner.launch(shape, data, expected.reshape(-1), limits)
    found = check_launch(launch, runner.device, timeout=runner.timeout, cache=runner.cache, most=None if every else 1)
    own, shown = runner.output, runner.named("C")  # of a struct's array its place, and its name
    told = tuple(replace(each, reasons=tuple(reason.replace(own, shown) for reason in each.reasons))
                 for each in found.outcomes) if own != shown else found.outcomes  # fmt: skip
    return LaunchTrial(label, shape, replace(found, outcomes=told))


def _limits(runner: Runner, meaning: Meaning, data: Mapping[str, Any], shape: Shape) -> Tolerance:
    """Tolerances for data whose sums are rounded."""
    output = str(meaning.output.kind)
    total = magnitude(meaning, runner.parameters, data, shape)
    scaled = any(each.role == "scale" for each in runner.parameters)
    whole = 1.0 if output not in UNITS and scaled else 0.0  # a sum near one half may round either way
    if meaning.rounding is not None and meaning.rounding.fixed:
        return Tolerance(0.0, whole)
    unit = roundoff(runner.ptx)
    relative = 4 * UNITS.get(output, 0.0) + _ROUNDINGS * UNITS["float32"]
    return Tolerance(relative, _ROUNDINGS * unit * total + whole)


def check_scaled(
    spec: KernelSpec, parameters: tuple[ScaledParameter, ...], groups: tuple[int, ...], device: str, timeout: float,
    cache: CompileCache | None, only: str = "", tried_launch: bool = False,
) -> ScaledCheck:  # fmt: skip
    """The verdict, or the outcome of the trial ``only``; raises ``SignatureError`` where no meaning that was tried
    gives its result. ``groups``: the lengths that it is launched for, as far as its file says it; ``tried_launch``: no
    one says that it is launched so, and only what it then computes can."""
    runner = _runner(spec, parameters, groups, device, timeout, cache)
    shapes = check_shapes(spec, spec.config())
    may_be_grouped = any(each.role in ("scale", "zero") and each.pointer for each in parameters)
    depth = 2 * max(runner.group, 128) if may_be_grouped else 0
    m, n, k = shapes.distinct
    shape = m, n, _deep(max(k, depth), runner.group or (128 if depth else 1), (m, n))
    meaning = find_meaning(runner, shape, tried_launch)
    found = ScaledCheck(spec, parameters, meaning)
    step = math.lcm(runner.group or 1, meaning.group)
    ordered = _ORDERED.search(runner.ptx) is not None
    planned = [(DISTINCT, shape, EXACT), (WIDE, shape, WIDE_DATA), (DEEPER, (m, n, 2 * shape[2]), EXACT)]
    if any(each.encoding.is_fp8 for each in meaning.stored):
        planned.insert(1, (TINY, shape, TINY_DATA))
    if only and only not in (*(label for label, *_ in planned), GROUPS, *EDGES):
        names = "; ".join((*(label for label, *_ in planned), GROUPS, *EDGES))
        raise UnknownTrialError(f"check has no trial {only!r} for this kernel", f"its trials: {names}")
    for label, tried, kind in planned:
        beside = only in (GROUPS, *EDGES) and label == DISTINCT  # edges are judged beside whole tiles
        if only in ("", label) or beside:
            found.trials.append(_trial(runner, label, tried, meaning, kind, every=label == DISTINCT and ordered))
            if not found.trials[-1].ok:
                found.status = RACY if found.trials[-1].hazards else WRONG
                return found
    if only in ("", GROUPS):
        _with_other_groups(runner, found, shape, groups)
    if only in ("", *EDGES) and found.ok:
        _ragged(runner, found, shape, step, only)
    if only in ("", RESTS) and found.ok:
        _rests(runner, found)
    return found


def launches_of_scaled(
    spec: KernelSpec, parameters: tuple[ScaledParameter, ...], groups: tuple[int, ...], timeout: float,
    cache: CompileCache | None,
) -> Iterator[KernelSpec]:  # fmt: skip
    """The kernel under launches that are found by running single blocks, where nothing says how it is launched."""
    if is_guessed(spec):
        runner = _runner(spec, parameters, groups, "sim", timeout, cache)
        if (like := likeliest(runner)) is not None:
            yield from searched(runner, like)


def _runner(
    spec: KernelSpec, parameters: tuple[ScaledParameter, ...], groups: tuple[int, ...], device: str, timeout: float,
    cache: CompileCache | None,
) -> Runner:  # fmt: skip
    has_group = any(each.role == "group" for each in parameters)
    return Runner(spec, parameters, device, timeout, cache, (*groups, _GROUP)[0] if has_group else 0)


def _with_other_groups(runner: Runner, found: ScaledCheck, shape: Shape, groups: tuple[int, ...]) -> None:
    """Groups of other lengths. Where the file does not say for which it is launched, only a kernel that goes on with
    the first length is wrong: others may need groups of whole tiles."""
    for length in (groups or (_OTHER_GROUP,)) if runner.group else ():
        if length == runner.group or not found.meaning.groups or not found.ok:
            continue
        meaning = found.meaning.of_group(length)
        trial = _trial(replace(runner, group=length), f"{GROUPS} {length}", shape, meaning)
        if groups or trial.ok or _keeps_length(replace(runner, group=length), found.meaning, shape):
            found.trials.append(trial)
            found.status = found.status if trial.ok else RACY if trial.hazards else WRONG


def _keeps_length(runner: Runner, meaning: Meaning, shape: Shape) -> bool:
    """Whether a kernel that is passed another length of groups computes the meaning that it had before."""
    return _trial(runner, "", shape, meaning, like=meaning.of_group(runner.group)).ok


def _ragged(runner: Runner, found: ScaledCheck, shape: Shape, step: int, only: str) -> None:
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
                if found.status == ALIGNED and _errs_beside_vectors(runner, found, shape):
                    found.status = WRONG
                elif trial.ok and only != RAGGED:
                    _other_sizes(runner, found, shape, step if status == RIGHT else math.lcm(step, wide), only)
                return
    failing = []
    for axis, name in enumerate("MNK"):
        m, n, k = (vectors[i] if i == axis else shape[i] for i in range(3))
        alone = _tried(runner, f"{RAGGED} in {name}", (m, n, k), found.meaning)
        if alone is None or not alone.ok:
            failing.append(name)
    spec = runner.spec
    guarded = [axis for axis in failing if (masks_k(spec) if axis == "K" else _is_guarded(spec, axis))]
    kernel = getattr(getattr(spec.geometry, "facts", None), "kernel", None)
    named = {axis: spec.signature.named(axis) for axis in "MNK"}
    promised = takes_any(spec.code, kernel, list(named.values())) & {named[axis] for axis in failing}
    found.status = WRONG if guarded or promised else WHOLE_TILES
    found.multiples = tuple(failing)


def _errs_beside_vectors(runner: Runner, found: ScaledCheck, shape: Shape) -> bool:
    """Whether a guard of rows or columns errs where nothing is misaligned: no vector asks for a multiple of them."""
    m, n, k = shape
    for name, moved in (("M", (m + 1, n, k)), ("N", (m, n + 1, k))):
        said = documented(runner.spec.code, [runner.spec.signature.named(name)])
        if said.vague or said.multiple > 1 or not _is_guarded(runner.spec, name):
            continue
        trial = _tried(runner, f"{RAGGED} in {name}", moved, found.meaning)
        reasons = [reason for outcome in trial.check.outcomes for reason in outcome.reasons] if trial else []
        if trial is not None and not trial.ok and not any("misaligned" in reason for reason in reasons):
            found.trials.append(trial)
            return True
    return False


def _other_sizes(runner: Runner, found: ScaledCheck, shape: Shape, step: int, only: str) -> None:
    """Depths of a few k-tiles, with and without a rest, and a long one; one row, one column; many of them. As far as
    seconds go: K is a multiple of ``step``."""
    m, n, _ = shape
    lone = step if step > 1 and found.status == ALIGNED else 1  # a whole vector
    depths = _FEW_GROUPS if step > 1 else _DEPTHS
    tried = [(DEPTHS, (_FEW * lone, _FEW * lone, k * step)) for k in depths]
    tried += [(DEPTHS, (_FEW * lone, _FEW * lone, -(-_LONG_DEPTH // step) * step))]
    tried += [(NARROW, (lone, n, shape[2])), (NARROW, (m, lone, shape[2]))]
    tried += [(MANY, (_TILES * m, lone, step)), (MANY, (lone, _TILES * n, step))]
    tried += [(CHOSEN, each) for each in _chosen(runner, step, lone)]
    end = time.process_time() + _OTHERS_S
    for label, each in tried:
        if only not in ("", label):
            continue
        if time.process_time() > end or (trial := _tried(runner, label, each, found.meaning)) is None:
            continue
        found.trials.append(trial)
        if not trial.ok:
            found.status = RACY if trial.hazards else WRONG
            return


def _rests(runner: Runner, found: ScaledCheck) -> None:
    """Words with a rest of K, of a kernel that has code for them."""
    for depth in rest_depths(runner.spec, found.meaning):
        trial = rest_trial(runner, found.meaning, depth)
        if trial is None:
            continue
        found.trials.append(trial)
        if not found.trials[-1].ok:
            found.status = RACY if found.trials[-1].hazards else WRONG
            return


def _chosen(runner: Runner, step: int, lone: int) -> Iterator[Shape]:
    """Sizes at which host code chooses another launch, with a rest."""
    spec = runner.spec

    def launch(axis: int, tiles: int) -> tuple[float, ...] | None:
        m, n, k = (tiles * _CHOSEN_TILE if i == axis else 64 for i in range(3))
        try:
            found = spec.geometry(Problem(m, n, k), spec.config())
        except GemmsmithError:
            return None
        return (*found.grid, *found.block, found.smem)

    for axis in (2, 0, 1):
        for tiles in launch_changes(partial(launch, axis)):
            extent = tiles * _CHOSEN_TILE + REST
            few = [_FEW * lone, _FEW * lone, math.ceil(_FEW / step) * step]
            few[axis] = -(-extent // step) * step if axis == 2 else -(-extent // lone) * lone
            yield few[0], few[1], few[2]


def _is_guarded(spec: KernelSpec, axis: str) -> bool:
    """Whether the kernel compares anything with an extent, beside the ends of loops."""
    facts = getattr(spec.geometry, "facts", None)
    name, text = re.escape(spec.signature.named(axis)), str(getattr(facts, "reached", ""))
    return re.search(rf"[<>]=?\s*{name}\b|\b{name}\s*[<>]=?", without_loop_heads(text)) is not None


def _tried(runner: Runner, label: str, shape: Shape, meaning: Meaning) -> LaunchTrial | None:
    """A trial; None where host code has no launch for the shape, or words of it would not be full."""
    if not meaning.fits(*shape):
        return None
    try:
        return _trial(runner, label, shape, meaning)
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
