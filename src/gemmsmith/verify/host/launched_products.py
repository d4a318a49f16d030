"""Products that host code does not launch a kernel for: no failure there counts as one of the kernel."""

from __future__ import annotations

import math
import re
from itertools import product

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.shapes import Shape
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.host.launch_conditions import HostCondition, Launched
from gemmsmith.userfile.host.launch_limits import LaunchLimits

_TIMES = (1, 2, 4, 8, 16, 32)
_MULTIPLES = (2, 4, 8, 16, 32, 64)
_SHARES = (1, 2, 4, 8, 16, 64)
_WORD = re.compile(r"\w+")
_LARGEST_STEP = 1024
_MOST_WORK = 1 << 23  # multiply-adds of one simulated launch: some seconds
# Added to M, N and K: each is odd then, whatever multiples host code asks for.
_RAGGED = ((-1, -1, 3), (1, 1, 3), (-1, -1, -1), (1, -1, -1), (-1, 1, -1))


def launched(spec: KernelSpec, problem: Problem) -> Launched:
    """Whether host code launches the kernel for a product, as far as its conditions tell."""
    return spec.geometry.launched(problem) if isinstance(spec.geometry, LaunchLimits) else Launched()


def excluded(spec: KernelSpec, problem: Problem) -> HostCondition | None:
    """The condition of host code that rules a product out."""
    return launched(spec, problem).excluded


def leaves_out(spec: KernelSpec, base: Problem, problem: Problem) -> HostCondition | None:
    """The condition that rules a product out, though not ``base``."""
    found = excluded(spec, problem)
    return found if found is not None and excluded(spec, base) is None else None


def one_value_scalars(spec: KernelSpec) -> tuple[FoundValue, ...]:
    """Alpha and beta, where host code has one value of them for this kernel."""
    return spec.geometry.scalars if isinstance(spec.geometry, LaunchLimits) else ()


def launched_ragged(spec: KernelSpec, base: Problem, ragged: Problem) -> Problem:
    """A ragged shape that host code launches the kernel for, where it has thresholds; else the one that is given."""
    if excluded(spec, ragged) is None or spec.signature.square or spec.signature.tied:
        return ragged
    near = (base.with_(m=base.m + m, n=base.n + n, k=base.k + k) for m, n, k in _RAGGED)
    return next((each for each in near if min(each.m, each.n, each.k) > 0 and excluded(spec, each) is None), ragged)


def asked_multiple(spec: KernelSpec, base: Problem) -> int:
    """The multiple that a condition of host code asks K to be, as ``K % 16 == 0`` does; 1 where there is none."""
    for step in _MULTIPLES:
        if base.k <= step or excluded(spec, base.with_(k=base.k - step)) is not None:
            continue
        out = (excluded(spec, base.with_(k=base.k - less)) for less in range(1, step))
        return step if all(each is not None and "%" in each.text for each in out) else 1
    return 1


def launched_shape(spec: KernelSpec, shape: Shape) -> Shape:
    """A shape like this one that host code launches the kernel for, where it asks for more or for less; else itself."""
    if not isinstance(spec.geometry, LaunchLimits) or spec.signature.fixed or spec.signature.unknown:
        return shape
    if excluded(spec, spec.problem(*shape)) is None:
        return shape
    m, n, k = shape
    times = sorted(product(_TIMES, repeat=3), key=math.prod)
    tried = [(m * a, n * b, k * c) for a, b, c in times if m * a * n * b * k * c <= _MOST_WORK]
    # An instance for rows that are no whole vectors: tiles with an edge tell more than one of a single element.
    tried += [(m + a, n + b, k + c) for a, b, c in _RAGGED if min(m + a, n + b, k + c) > 0]
    tried += [(max(1, m // share), max(1, n // share), max(1, k // share)) for share in _SHARES]
    tried += [(max(1, m // share), n, k) for share in _SHARES] + [(m, max(1, n // share), k) for share in _SHARES]
    if spec.signature.square:
        tried = [each for each in tried if len(set(each)) == 1]
    said: set[str] = set()
    for each in tried:
        condition = excluded(spec, spec.problem(*each))
        if condition is None:
            return each
        said.add(condition.text)
    rounded = _rounded(spec, shape, " ".join(said))
    return next((each for each in rounded if excluded(spec, spec.problem(*each)) is None), shape)


def _rounded(spec: KernelSpec, shape: Shape, conditions: str) -> list[Shape]:
    """The shapes with extents rounded up to multiples of numbers in these conditions (``K % 10``), smallest first."""
    assert isinstance(spec.geometry, LaunchLimits)
    constants = spec.geometry.facts.values({})
    numbers = {int(word) if word.isdecimal() else constants.get(word, 0) for word in _WORD.findall(conditions)}
    steps = {number for number in numbers if 1 < number <= _LARGEST_STEP}
    extents = [sorted({extent, *(-(-extent // step) * step for step in steps)}) for extent in shape]
    found = [(m, n, k) for m, n, k in product(*extents) if m * n * k <= _MOST_WORK]
    if spec.signature.square:
        found = [each for each in found if len(set(each)) == 1]
    return sorted(found, key=math.prod)
