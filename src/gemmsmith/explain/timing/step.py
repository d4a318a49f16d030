"""Why one kernel is faster than another: what the cycle model says of each, and of each without a cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gemmsmith.explain.timing.summary import TimeSummary
from gemmsmith.explain.timing.timed import time_text

_SAME = 0.02
_MORE = 0.03  # by which the gain of a what-if must differ to be a reason
_MOST = 4
_TENTH = 0.095  # less is told as a fraction


@dataclass(frozen=True)
class Step:
    """From ``slow`` to ``fast``, by name; ``ratio`` is how many times as fast, predicted."""

    slow: str
    fast: str
    ratio: float
    sentences: tuple[str, ...]


def step_of(one: tuple[str, TimeSummary | None], other: tuple[str, TimeSummary | None]) -> Step | None:
    """The step between two kernels; None if one has no time."""
    if one[1] is None or other[1] is None:
        return None
    (slow, x), (fast, y) = (one, other) if one[1].us >= other[1].us else (other, one)
    assert x is not None
    assert y is not None
    ratio = x.us / y.us
    times = f"{time_text(x.us)} and {time_text(y.us)}"
    bounds = f"{slow} is bound by {x.bound}, {fast} by {y.bound}"
    if ratio < 1 + _SAME:
        first = f"Both are predicted to take the same time on {x.gpu}: {times}; {bounds}."
    else:
        first = f"{fast} is predicted to be {ratio:.2f} times as fast as {slow} on {x.gpu}: {times}; {bounds}."
    return Step(slow, fast, ratio, (first, *_what_ifs(slow, x, fast, y), *_work(slow, x, fast, y))[: _MOST + 1])


def _what_ifs(slow: str, x: TimeSummary, fast: str, y: TimeSummary) -> list[str]:
    """Costs that the slower kernel has and the faster one has less of."""
    there = {each.cost: each.gain for each in y.what_ifs}
    return [
        f"Without {each.cost}, {slow} would be {each.gain:.2f} times as fast and {fast} "
        f"{there.get(each.cost, 1.0):.2f} times; {slow} would then be bound by {each.bound}."
        for each in x.what_ifs
        if each.gain - there.get(each.cost, 1.0) > _MORE
    ]


def _work(slow: str, x: TimeSummary, fast: str, y: TimeSummary) -> list[str]:
    """What the kernels do differently, over the whole launch."""
    found = []
    there = dict(y.amounts)
    for name, one in x.amounts:
        other = there.get(name, 0.0)
        if one > 0 and other > 0 and abs(one / other - 1) > 0.1:
            found.append((abs(one / other - 1), f"{fast} needs {_part(other / one)} the {name} that {slow} needs."))
    return [text for _, text in sorted(found, reverse=True)]


def _part(ratio: float) -> str:
    return f"{ratio:.2f} times" if ratio >= _TENTH else f"1/{round(1 / ratio):,} of"


def step_json(step: Step | None) -> dict[str, Any] | None:
    """As JSON types."""
    if step is None:
        return None
    return {"slow": step.slow, "fast": step.fast, "ratio": step.ratio, "sentences": list(step.sentences),
            "origin": "predicted"}  # fmt: skip
