"""What got faster or slower between two runs, beyond noise.

A timing is slower if two conditions hold: the 95 % confidence intervals of the medians do not overlap, and the medians
differ by at least a given fraction (default 1 %). The first excludes noise within a run. The second excludes changes of
clock and temperature between two runs of the same code, which the interval of one run cannot show. Faster is analogous.

Timings are matched by contender, arithmetic, problem, mode and cache. For several timings of one contender on one
problem (a sweep), equal configurations are matched first; if one remains on each side, its configuration changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gemmsmith.kernel.equal_sources import current_digest
from gemmsmith.problem import geometric_mean
from gemmsmith.store.results import Machine, Measurement, Run, Timing

LEAST_CHANGE = 0.01

FASTER, SLOWER, SAME = "faster", "slower", "same"
BROKEN = "broken"  # valid in A but not in B: worse than slower
UNCLEAR = "unclear"  # A is invalid, or an interval is unknown
ONLY_A, ONLY_B = "only in A", "only in B"
VERDICTS = (BROKEN, SLOWER, FASTER, UNCLEAR, ONLY_A, ONLY_B, SAME)  # the most important first


@dataclass(frozen=True)
class Change:
    """One timing in A and in B. ``speedup`` is A's median over B's (1.05 is 5 % faster), with its interval.

    ``notes`` say what else changed, or explain the verdict. Mode and cache are '' for a whole measurement.
    """

    verdict: str
    a: Measurement | None
    b: Measurement | None
    mode: str = ""
    cache: str = ""
    seconds: tuple[float, float] = (math.nan, math.nan)
    speedup: float = math.nan
    low: float = math.nan
    high: float = math.nan
    notes: tuple[str, ...] = ()

    @property
    def measurement(self) -> Measurement:
        """B's measurement if there is one, else A's."""
        found = self.b or self.a
        assert found is not None
        return found

    @property
    def regression(self) -> bool:
        """Whether this counts as a regression; a slower library is reported but does not count."""
        return self.verdict in (SLOWER, BROKEN) and self.measurement.identity.kind != "baseline"


@dataclass(frozen=True)
class RunComparison:
    """Two runs side by side; ``remarks`` list what differs besides the contenders and are shown first."""

    a: Run
    b: Run
    least_change: float
    remarks: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def regressions(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.regression)

    def count(self, verdict: str) -> int:
        return sum(change.verdict == verdict for change in self.changes)


def compare_runs(a: Run, b: Run, least_change: float = LEAST_CHANGE) -> RunComparison:
    """What changed from ``a`` to ``b``, the most important first."""
    pairs = list(_pairs(a.measurements, b.measurements))
    changes = [change for pair in pairs for change in _changes(*pair, least_change)]
    changes.sort(key=lambda change: VERDICTS.index(change.verdict))
    remarks = (*_machines(a, b), *_conditions(pairs, least_change), *_baselines(changes))
    return RunComparison(a, b, least_change, remarks, tuple(changes))


_Pair = tuple[Measurement | None, Measurement | None]


def _key(measurement: Measurement) -> tuple[str, str, str, str]:
    """Measured and simulated results never match. The problem is compared as text, so that NaN equals itself."""
    identity = measurement.identity
    return measurement.origin, identity.name, identity.precision, repr(measurement.problem)


def _pairs(a: Sequence[Measurement], b: Sequence[Measurement]) -> Iterator[_Pair]:
    sides: dict[tuple[str, ...], tuple[list[Measurement], list[Measurement]]] = {}
    for side, measurements in enumerate((a, b)):
        for measurement in measurements:
            sides.setdefault(_key(measurement), ([], []))[side].append(measurement)
    for left, rest in sides.values():
        changed = []
        for ours in left:
            same = [i for i, theirs in enumerate(rest) if theirs.identity.config == ours.identity.config]
            if same:
                yield ours, rest.pop(same[0])
            else:
                changed.append(ours)
        if len(changed) == len(rest) == 1:
            yield changed[0], rest[0]
        else:
            yield from ((ours, None) for ours in changed)
            yield from ((None, theirs) for theirs in rest)


def _changes(a: Measurement | None, b: Measurement | None, least: float) -> Iterator[Change]:
    if a is None or b is None:
        yield Change(ONLY_B if a is None else ONLY_A, a, b)
        return
    notes = _notes(a, b)
    if _doubt(a) or _doubt(b):
        doubts = tuple(f"{side}: {doubt}" for side, doubt in (("A", _doubt(a)), ("B", _doubt(b))) if doubt)
        yield Change(UNCLEAR if _doubt(a) else BROKEN, a, b, notes=(*doubts, *notes))
        return
    common = [(x, y) for x in a.timings for y in b.timings if (x.mode, x.cache) == (y.mode, y.cache)]
    if not common:
        yield Change(UNCLEAR, a, b, notes=("no common timing", *notes))
    for before, after in common:
        yield _timing_change(a, b, before, after, least, notes)


def _timing_change(
    a: Measurement, b: Measurement, before: Timing, after: Timing, least: float, notes: tuple[str, ...]
) -> Change:
    numbers = (before.low, before.median, before.high, after.low, after.median, after.high)
    if not all(math.isfinite(number) and number > 0 for number in numbers):
        return Change(UNCLEAR, a, b, before.mode, before.cache, (before.median, after.median),
                      notes=("an interval is unknown", *notes))  # fmt: skip
    speedup = before.median / after.median
    if after.low > before.high and speedup <= 1 / (1 + least):
        verdict = SLOWER
    elif after.high < before.low and speedup >= 1 + least:
        verdict = FASTER
    else:
        verdict = SAME
    return Change(verdict, a, b, before.mode, before.cache, (before.median, after.median), speedup,
                  before.low / after.high, before.high / after.low, notes)  # fmt: skip


def _doubt(measurement: Measurement) -> str:
    """Why a measurement is invalid; '' if it is valid."""
    return measurement.rejected or ("" if measurement.verified else "not verified")


def _notes(a: Measurement, b: Measurement) -> tuple[str, ...]:
    found = []
    if a.identity.config != b.identity.config:
        found.append(f"configuration {a.identity.config or 'none'} → {b.identity.config or 'none'}")
    elif current_digest(a.identity.digest) != current_digest(b.identity.digest):
        found.append("source changed")
    if a.identity.version != b.identity.version:
        found.append(f"version {a.identity.version or 'unknown'} → {b.identity.version or 'unknown'}")
    return tuple(found)


def _machines(a: Run, b: Run) -> Iterator[str]:
    """Differences between the machines, those with the largest effect on times first."""
    if a.id == b.id:
        yield "A and B are the same run"
    if a.machine.gpu != b.machine.gpu:
        yield (
            f"the GPUs differ: {a.machine.gpu or 'none'} in A, {b.machine.gpu or 'none'} in B; "
            "the results compare GPUs, not kernels"
        )
    for name, words in (("driver", "drivers"), ("cuda", "CUDA versions"), ("compiler", "compilers"),
                        ("host", "hosts"), ("cpu", "CPUs"), ("python", "Python versions")):  # fmt: skip
        left, right = getattr(a.machine, name), getattr(b.machine, name)
        if left != right:
            yield f"the {words} differ: {left or 'unknown'} in A, {right or 'unknown'} in B"
    if a.gemmsmith != b.gemmsmith:
        yield f"gemmsmith differs: {a.gemmsmith} in A, {b.gemmsmith} in B"
    packages = list(_packages(a.machine, b.machine))
    if packages:
        yield "packages differ: " + ", ".join(packages)


def _packages(a: Machine, b: Machine) -> Iterator[str]:
    left, right = dict(a.packages), dict(b.packages)
    for name in sorted(left.keys() | right.keys()):
        if left.get(name) != right.get(name):
            yield f"{name} {left.get(name, 'missing')} → {right.get(name, 'missing')}"


def _conditions(pairs: Sequence[_Pair], least: float) -> Iterator[str]:
    """Differences in the GPU's conditions, where both runs measured the same."""
    both = [(a.conditions, b.conditions) for a, b in pairs if a is not None and b is not None]
    clocks = [(a.sm_mhz, b.sm_mhz) for a, b in both if a.sm_mhz > 0 and b.sm_mhz > 0]
    if clocks:
        left, right = (geometric_mean([pair[side] for pair in clocks]) for side in (0, 1))
        if abs(right / left - 1) >= least:
            yield f"the SM clock was {left:,.0f} MHz in A and {right:,.0f} MHz in B ({_percent(right / left)})"
    for side, name in enumerate("AB"):
        here, there = ({reason for pair in both for reason in pair[s].throttled} for s in (side, 1 - side))
        if here - there:
            yield f"only {name} was throttled by: {', '.join(sorted(here - there))}"


def _baselines(changes: Sequence[Change]) -> Iterator[str]:
    """If a library of the same version changed its speed, something besides the kernels changed."""
    for change in changes:
        identity = change.measurement.identity
        if change.verdict not in (FASTER, SLOWER) or identity.kind != "baseline" or change.a is None:
            continue
        if identity.version == change.a.identity.version:
            yield (
                f"{identity.name} has the same version in both but changed its speed by {_percent(change.speedup)} on "
                f"{change.measurement.problem}: something besides the kernels differs"
            )
            return


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"
