"""Two kernels side by side: sentences on their differences, the most important first.

Differences are ordered by the speedup of the slower kernel if it had the faster kernel's value, according to the time
model in ``bottleneck``. Ties, such as gains hidden by another bound, are ordered by the cycles saved on the resource.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from gemmsmith.compile.sass import Sass
from gemmsmith.errors import UsageError
from gemmsmith.explain.bottleneck import FMA, ISSUE, LATENCY, LSU, Work, conflicts_of, estimate
from gemmsmith.explain.comparison_rows import Row, measured_rows, origin_of, rows_of
from gemmsmith.explain.diagnosis import IN_SHORT, MODEL, Diagnosis, diagnose
from gemmsmith.explain.findings import Case
from gemmsmith.explain.profile import Profile, plain
from gemmsmith.gpus import GPU
from gemmsmith.notebook_html import card, folded, listing, paragraph, table

_MOST_SENTENCES = 6
_SAME = 0.02  # relative differences up to 2 % count as equal


@dataclass(frozen=True)
class Comparison:
    """Two kernels on one GPU; ``sentences`` start with the most important difference."""

    left: Diagnosis
    right: Diagnosis
    gpu: GPU
    sentences: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def level(self) -> str:
        """What was executed and counted, with the reason where it is not the machine code."""
        profile = self.left.case.profile
        return f"{profile.level} ({profile.level_reason})" if profile.level_reason else profile.level

    def _repr_html_(self) -> str:
        """Its form in a notebook."""
        names = [each.case.profile.kernel for each in (self.left, self.right)]
        heads = ("", *(f"{letter} {name}" for letter, name in zip("XY", names, strict=True)))
        sections = [
            folded(name, table(heads, [(row.name, row.shown(row.left), row.shown(row.right)) for row in rows]))
            for name, rows in groupby(self.rows, key=lambda row: row.section)
        ]
        problem = self.left.case.profile.problem
        title = f"{' and '.join(names)} on {self.gpu.name}" + (f", {problem}" if problem.flops else "")
        return card(title, [listing(self.sentences), *sections, paragraph(IN_SHORT, small=True)])


def compare(
    left: tuple[Profile, Sass], right: tuple[Profile, Sass], gpu: GPU, measured: tuple[Profile, Profile] | None = None,
    doubtful: bool = False,
) -> Comparison:  # fmt: skip
    """Compare simulated profiles; measured profiles add hardware-only metrics.

    doubtful: a kernel is wrong, races or was not checked; then none is called faster.
    """
    if left[0].problem.with_(dtype=right[0].problem.dtype) != right[0].problem:
        raise UsageError(f"{left[0].problem} and {right[0].problem} differ", "compare kernels on one shape")
    one, other = diagnose(*left, gpu), diagnose(*right, gpu)
    rows = rows_of(one, other, left[1], right[1]) + (measured_rows(*measured) if measured else [])
    return Comparison(one, other, gpu, _sentences(one, other, doubtful), tuple(rows))


def _sentences(left: Diagnosis, right: Diagnosis, doubtful: bool = False) -> tuple[str, ...]:
    a, b = left.case, right.case
    slow, fast = (a, b) if a.estimate.seconds >= b.estimate.seconds else (b, a)
    times = slow.estimate.seconds / fast.estimate.seconds
    names = slow.profile.kernel, fast.profile.kernel
    if names[0] == names[1]:
        names = f"{names[0]} {slow.profile.config}", f"{names[1]} {fast.profile.config}"
    if doubtful:
        first = (f"Which is faster is not said of kernels that are not known to be right; predicted on {a.gpu.name}: "
                 f"{names[1]} {_ms(fast)}, {names[0]} {_ms(slow)}")  # fmt: skip
    elif times < 1 + _SAME:
        first = f"Both are predicted to take the same time on {a.gpu.name}, {_ms(slow)}"
    else:
        first = (f"{names[1]} is predicted to be {times:.2f} times as fast as {names[0]} on {a.gpu.name}: {_ms(fast)} "
                 f"vs {_ms(slow)}")  # fmt: skip
    bounds = (f"; both are bound by {_bound(slow)}." if slow.estimate.bound == fast.estimate.bound
              else f"; {names[1]} is bound by {_bound(fast)}, {names[0]} by {_bound(slow)}.")  # fmt: skip
    found = [made for rule in _RULES if (made := rule(slow, fast, *names)) is not None]
    found.sort(key=lambda item: (-round(item[0], 2), -item[1]))
    reasons = [text for _, _, text in found[: _MOST_SENTENCES - 1]]
    if doubtful:
        reasons = [without_gain(text) for text in reasons]
    if len(reasons) < 2 and (same := _same(a, b)):
        reasons.append(f"Equal in both: {', '.join(same)}.")
    return (first + bounds, *reasons)


def without_gain(sentence: str) -> str:
    """A difference without the speedup that it has alone."""
    head, gain, _ = sentence.rpartition(" (alone: ")
    return f"{head}." if gain else sentence


def _same(one: Case, other: Case) -> list[str]:
    """Quantities that are equal, with their values."""
    a, b = one.work, other.work
    values = {
        "{:,.0f} global load requests": (one.profile.requests("ld"), other.profile.requests("ld")),
        "{:.2g} instructions per 32 multiply-adds": (a.issued / a.fma, b.issued / b.fma),
        "{:.3g} shared-memory wavefronts per 32 multiply-adds": (a.wavefronts / a.fma, b.wavefronts / b.fma),
        "{:.0%} occupancy": (one.occupancy.fraction, other.occupancy.fraction),
    }
    return [text.format(value) for text, (value, there) in values.items() if not _differ(value, there)]


def _ms(case: Case) -> str:
    return f"{case.estimate.seconds * 1e3:.3g} ms"


def _bound(case: Case) -> str:
    name = case.estimate.bound
    if name == FMA and case.work.tensor:
        return "the tensor cores"
    return name if name in (ISSUE, LATENCY) else f"the {name}"


Difference = tuple[float, float, str]


def _effect(slow: Case, better: Work, resource: str, text: str) -> Difference:
    """(speedup of the slower kernel, share of its time saved on the resource, sentence)."""
    then = estimate(better, slow.gpu, slow.profile.problem.flops)
    gain = slow.estimate.longest / then.longest
    saved = (slow.estimate.of(resource) - then.of(resource)) / slow.estimate.longest
    effect = "no speedup" if abs(gain - 1) < 0.005 else f"×{gain:.2f} speedup"
    return gain, saved, f"{text} (alone: {effect})."


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _SAME * max(abs(one), abs(other))


def _coalescing(slow: Case, fast: Case, a: str, b: str) -> Difference | None:
    pairs = zip(slow.profile.packed_per_sector[:1] + slow.profile.bytes_per_sector[:1],
                fast.profile.packed_per_sector[:1] + fast.profile.bytes_per_sector[:1], strict=True)  # fmt: skip
    if any(math.isnan(used) or math.isnan(other) or not _differ(used, other) for used, other in pairs):
        return None  # a broadcast is no lack of coalescing
    scale = slow.work.global_requests / max(1.0, fast.work.global_requests)
    better = replace(slow.work, lines=min(slow.work.lines, fast.work.lines * scale))
    return _effect(slow, better, LSU, f"Coalescing: of the 32 bytes in each sector, the global loads of {b} use "
                                      f"{fast.profile.bytes_per_sector[0]:.1f}, those of {a} "
                                      f"{slow.profile.bytes_per_sector[0]:.1f}")  # fmt: skip


def _global(slow: Case, fast: Case, a: str, b: str) -> Difference | None:
    one, other = (case.profile.requests("ld") + case.profile.tma("load", "requests") for case in (slow, fast))
    if not _differ(one, other):
        return None
    better = replace(slow.work, global_requests=fast.work.global_requests, lines=fast.work.lines,
                     l2_bytes=fast.work.l2_bytes)  # fmt: skip
    return _effect(slow, better, LSU, f"Global memory: {b} makes {other:,.0f} load requests, {a} {one:,.0f}")


def _shared(slow: Case, fast: Case, a: str, b: str) -> Difference | None:
    one, other = (case.work.wavefronts / max(1.0, case.work.fma) for case in (slow, fast))
    if not _differ(one, other):
        return None
    better = replace(slow.work, wavefronts=fast.work.wavefronts, shared_requests=fast.work.shared_requests)
    return _effect(slow, better, LSU,
                   f"Shared memory: {b} needs {other:.3g} wavefronts per 32 multiply-adds, {a} {one:.3g}")  # fmt: skip


def _conflicts(slow: Case, fast: Case, a: str, b: str) -> Difference | None:
    shares = [conflicts_of(c.profile) / c.work.wavefronts if c.work.wavefronts else 0.0 for c in (slow, fast)]
    if abs(shares[0] - shares[1]) < _SAME:
        return None
    clean = slow.work.wavefronts - conflicts_of(slow.profile)
    better = replace(slow.work, wavefronts=clean / (1 - shares[1]))
    return _effect(slow, better, LSU, f"Bank conflicts: they cause {shares[1]:.0%} of the wavefronts of {b}, "
                                      f"{shares[0]:.0%} of those of {a}")  # fmt: skip


def _instructions(slow: Case, fast: Case, a: str, b: str) -> Difference | None:
    one, other = (case.work.issued / case.work.fma for case in (slow, fast))
    if not _differ(one, other):
        return None
    better = replace(slow.work, issued=other * slow.work.fma)
    return _effect(slow, better, ISSUE,
                   f"Instructions: {b} issues {other:.2g} per 32 multiply-adds, {a} {one:.2g}")  # fmt: skip


def _waiting(slow: Case, fast: Case, a: str, b: str) -> Difference | None:
    one, other = slow.work, fast.work
    if not _differ(one.waits * one.together, other.waits * other.together):
        return None
    better = replace(one, waits=other.waits, wait_cycles=other.wait_cycles, together=other.together)
    words = [f"stalls {w.waits:,.0f} times per block" if w.together and w.waits else "never stalls a whole block"
             for w in (one, other)]  # fmt: skip
    return _effect(slow, better, LATENCY, f"Waits for global memory between barriers: {b} {words[1]}, {a} {words[0]}")


def _occupancy(slow: Case, fast: Case, a: str, b: str) -> Difference | None:
    if slow.occupancy.warps_per_sm == fast.occupancy.warps_per_sm:
        return None
    better = replace(slow.work, resident=fast.work.resident)
    return _effect(slow, better, LATENCY,
                   f"Occupancy: {b} has {fast.occupancy.fraction:.0%} ({' and '.join(fast.occupancy.limiters)}), "
                   f"{a} {slow.occupancy.fraction:.0%} ({' and '.join(slow.occupancy.limiters)})")  # fmt: skip


def _balance(slow: Case, fast: Case, a: str, b: str) -> Difference | None:
    if not _differ(slow.waves.imbalance, fast.waves.imbalance):
        return None
    better = replace(slow.work, imbalance=fast.work.imbalance)
    words = [f"{case.waves.imbalance:.2f} with {name} ({case.waves.grid:,} blocks)"
             for case, name in ((fast, b), (slow, a))]  # fmt: skip
    text = f"Load balance: the busiest SM's work over the average is {words[0]}, {words[1]}"
    return _effect(slow, better, ISSUE, text)


_RULES: tuple[Callable[[Case, Case, str, str], Difference | None], ...] = (
    _coalescing, _global, _shared, _conflicts, _instructions, _waiting, _occupancy, _balance,
)  # fmt: skip


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as JSON types; each row names its origin."""
    sides = [(d.case.profile.kernel, d.case.profile.config) for d in (comparison.left, comparison.right)]
    problem = comparison.left.case.profile.problem
    return {
        "x": {"kernel": sides[0][0], "config": sides[0][1]}, "y": {"kernel": sides[1][0], "config": sides[1][1]},
        "gpu": comparison.gpu.name, "origin": "predicted", "model": MODEL, "counted": comparison.level,
        "problem": {"m": problem.m, "n": problem.n, "k": problem.k, "dtype": problem.dtype.name},
        "sentences": list(comparison.sentences),
        "rows": [{"section": r.section, "name": r.name, "x": _json(r.left), "y": _json(r.right),
                  "origin": origin_of(r)} for r in comparison.rows],
    }  # fmt: skip


def _json(value: float | str) -> float | str | None:
    return value if isinstance(value, str) else plain(value)
