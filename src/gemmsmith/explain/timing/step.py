"""Why one kernel is faster than another: what the cycle model says of each, and of each without a cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gemmsmith.explain.timing.timed import Timed
from gemmsmith.sim.timing.outcome import Outcome

_SAME = 0.02
_MORE = 0.03  # by which the gain of a what-if must differ to be a reason
_MOST = 4


@dataclass(frozen=True)
class Step:
    """From ``slow`` to ``fast``, by name; ``ratio`` is how many times as fast, predicted."""

    slow: str
    fast: str
    ratio: float
    sentences: tuple[str, ...]


def step_of(one: tuple[str, Timed], other: tuple[str, Timed]) -> Step | None:
    """The step between two kernels; None if one has no time."""
    a, b = one[1].predicted, other[1].predicted
    if a is None or b is None:
        return None
    (slow, x), (fast, y) = (one, other) if a.us >= b.us else (other, one)
    assert x.predicted is not None
    assert y.predicted is not None
    ratio = x.predicted.us / y.predicted.us
    times = f"{x.predicted.us:,.4g} µs and {y.predicted.us:,.4g} µs"
    bounds = f"{slow} is bound by {x.predicted.bound}, {fast} by {y.predicted.bound}"
    if ratio < 1 + _SAME:
        first = f"Both are predicted to take the same time on {x.predicted.gpu}: {times}; {bounds}."
    else:
        first = (
            f"{fast} is predicted to be {ratio:.2f} times as fast as {slow} on {x.predicted.gpu}: {times}; {bounds}."
        )
    return Step(slow, fast, ratio, (first, *_what_ifs(slow, x, fast, y), *_work(slow, x, fast, y))[: _MOST + 1])


def _what_ifs(slow: str, x: Timed, fast: str, y: Timed) -> list[str]:
    """Costs that the slower kernel has and the faster one has less of."""
    there = {each.cost: each.gain for each in y.what_ifs}
    return [
        f"Without {each.cost} {slow} would be {each.gain:.2f} times as fast, {fast} {there.get(each.cost, 1.0):.2f} "
        f"times; then {slow} is bound by {each.bound}."
        for each in x.what_ifs
        if each.gain - there.get(each.cost, 1.0) > _MORE
    ]


def _work(slow: str, x: Timed, fast: str, y: Timed) -> list[str]:
    """What the kernels do differently, over the whole launch."""
    found = []
    for name in ("warp instructions", "cycles of shared memory and L1", "lines looked up in L1", "bytes from L2"):
        one, other = _total(x, name), _total(y, name)
        if one > 0 and other > 0 and abs(one / other - 1) > 0.1:
            found.append((abs(one / other - 1), f"{fast} needs {other / one:.2f} times the {name} of {slow}."))
    return [text for _, text in sorted(found, reverse=True)]


def _total(found: Timed, name: str) -> float:
    assert found.predicted is not None
    main, outcome = found.predicted.main, found.predicted.outcome
    scale = main.cycles / outcome.cycles if outcome.cycles else 0.0
    return scale * _amounts(outcome)[name]


def _amounts(outcome: Outcome) -> dict[str, float]:
    return {"warp instructions": float(outcome.issued), "cycles of shared memory and L1": outcome.data_cycles,
            "lines looked up in L1": outcome.tag_cycles, "bytes from L2": outcome.l2_bytes}  # fmt: skip


def step_json(step: Step | None) -> dict[str, Any] | None:
    """As JSON types."""
    if step is None:
        return None
    return {"slow": step.slow, "fast": step.fast, "ratio": step.ratio, "sentences": list(step.sentences),
            "origin": "predicted"}  # fmt: skip
