"""Two launches of any kernels side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gemmsmith.compile.sass import Sass
from gemmsmith.explain.bottleneck import conflicts_of
from gemmsmith.explain.comparison import Comparison
from gemmsmith.explain.comparison_rows import PER_FMA, origin_of, rows_of
from gemmsmith.explain.diagnosis import MODEL, Diagnosis
from gemmsmith.explain.findings import Case
from gemmsmith.explain.profile import plain
from gemmsmith.gpus import GPU

_SAME = 0.02  # relative differences up to 2 % count as equal
_OF_PRODUCTS = ("TFLOPS", PER_FMA)
_QUANTITIES: dict[str, Callable[[Case], float]] = {
    "global load sectors": lambda case: case.profile.sectors("ld"),
    "global store sectors": lambda case: case.profile.sectors("st"),
    "shared-memory wavefronts": lambda case: case.work.wavefronts,
    "bank conflicts": lambda case: conflicts_of(case.profile),
    "instructions (estimated)": lambda case: case.work.issued,
    "barriers": lambda case: case.profile.barriers,
    "warps per SM": lambda case: float(case.occupancy.warps_per_sm),
}


def compare_launches(
    left: tuple[Diagnosis, Sass], right: tuple[Diagnosis, Sass], gpu: GPU, doubtful: bool = False
) -> Comparison:
    """Compare two diagnosed launches; ``doubtful``: none is called faster, since one is not known to be right."""
    rows = [row for row in rows_of(left[0], right[0], left[1], right[1])
            if row.section != "roofline" and row.name not in _OF_PRODUCTS]  # fmt: skip
    return Comparison(left[0], right[0], gpu, _sentences(left[0].case, right[0].case, doubtful), tuple(rows))


def _sentences(one: Case, other: Case, doubtful: bool) -> tuple[str, ...]:
    slow, fast = (one, other) if one.estimate.seconds >= other.estimate.seconds else (other, one)
    letters = ("X", "Y") if slow is one else ("Y", "X")
    times = slow.estimate.seconds / fast.estimate.seconds if fast.estimate.seconds else 1.0
    micro = f"{fast.estimate.seconds * 1e6:.3g} µs vs {slow.estimate.seconds * 1e6:.3g} µs"
    first = f"Both are predicted to take the same time on {one.gpu.name}: {micro}."
    if times > 1 + _SAME:
        first = f"{letters[1]} is predicted to be {times:.2f} times as fast as {letters[0]} on {one.gpu.name}: {micro}."
    if doubtful:
        first = (f"Which is faster is not said of kernels that are not known to be right; predicted on {one.gpu.name}: "
                 f"{letters[1]} and {letters[0]} take {micro}.")  # fmt: skip
    made = [first]
    for name, value in _QUANTITIES.items():
        a, b = value(one), value(other)
        if abs(a - b) > _SAME * max(abs(a), abs(b)):
            made.append(f"{name[0].upper()}{name[1:]}: X has {a:,.0f}, Y {b:,.0f}.")
    return tuple(made)


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON types; each row names its origin."""
    sides = [{"kernel": each.case.profile.kernel} for each in (comparison.left, comparison.right)]
    return {
        "x": sides[0], "y": sides[1], "gpu": comparison.gpu.name, "origin": "predicted", "model": MODEL,
        "sentences": list(comparison.sentences),
        "rows": [{"section": row.section, "name": row.name, "x": _json(row.left), "y": _json(row.right),
                  "origin": origin_of(row)} for row in comparison.rows],
    }  # fmt: skip


def _json(value: float | str) -> float | str | None:
    return value if isinstance(value, str) else plain(value)
