"""Two kernels side by side: what differs, the differences that matter first, and in words.

A difference matters as much as the slower kernel would gain from having the faster one's value, by the model of
``bottleneck``; where that is nothing, because something else bounds it, as many cycles as it saves on its resource.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gemmsmith.compile.sass import Sass
from gemmsmith.errors import UsageError
from gemmsmith.explain.bottleneck import ISSUE, LATENCY, LSU, Work, conflicts_of, estimate
from gemmsmith.explain.diagnosis import MODEL, Diagnosis, diagnose
from gemmsmith.explain.findings import Case
from gemmsmith.explain.metrics import METRICS
from gemmsmith.explain.profile import CONFLICTS, FFMA, REQUESTS, Profile, plain
from gemmsmith.gpus import GPU

_MOST_SENTENCES = 6
_LOOP_OPCODES = 12
_SAME = 0.02  # differences below two percent are none


@dataclass(frozen=True)
class Row:
    """One quantity of both kernels; ``form`` is a format string, or '' for text."""

    section: str
    name: str
    left: float | str
    right: float | str
    form: str = "{:,.0f}"

    def shown(self, value: float | str) -> str:
        if isinstance(value, str):
            return value
        return "–" if math.isnan(value) else self.form.format(value)


@dataclass(frozen=True)
class Comparison:
    """Two kernels on one GPU; ``sentences`` have the differences that matter, the largest first."""

    left: Diagnosis
    right: Diagnosis
    gpu: GPU
    sentences: tuple[str, ...]
    rows: tuple[Row, ...]


def compare(
    left: tuple[Profile, Sass], right: tuple[Profile, Sass], gpu: GPU, measured: tuple[Profile, Profile] | None = None
) -> Comparison:
    """Compare simulated profiles; measured ones, where there are, add what only a GPU knows."""
    if left[0].problem.with_(dtype=right[0].problem.dtype) != right[0].problem:
        raise UsageError(f"{left[0].problem} and {right[0].problem} differ", "compare kernels on one shape")
    one, other = diagnose(*left, gpu), diagnose(*right, gpu)
    rows = _rows(one, other, left[1], right[1]) + (_measured(*measured) if measured else [])
    return Comparison(one, other, gpu, _sentences(one, other), tuple(rows))


def _sentences(left: Diagnosis, right: Diagnosis) -> tuple[str, ...]:
    a, b = left.case, right.case
    slow, fast = (a, b) if a.estimate.seconds >= b.estimate.seconds else (b, a)
    times = slow.estimate.seconds / fast.estimate.seconds
    names = slow.profile.kernel, fast.profile.kernel
    if names[0] == names[1]:
        names = f"{names[0]} {slow.profile.config}", f"{names[1]} {fast.profile.config}"
    if times < 1 + _SAME:
        first = f"Both are predicted to take the same time on {a.gpu.name}, {_ms(slow)}"
    else:
        first = (f"{names[1]} is predicted to be {times:.2f} times as fast as {names[0]} on {a.gpu.name}: {_ms(fast)} "
                 f"against {_ms(slow)}")  # fmt: skip
    bounds = (f"; both are bound by {_the(slow)}." if slow.estimate.bound == fast.estimate.bound
              else f"; {names[1]} is bound by {_the(fast)}, {names[0]} by {_the(slow)}.")  # fmt: skip
    found = [made for rule in _RULES if (made := rule(slow, fast, *names)) is not None]
    found.sort(key=lambda item: (-round(item[0], 2), -item[1]))
    told = [text for _, _, text in found[: _MOST_SENTENCES - 1]]
    if len(told) < 2 and (same := _same(a, b)):
        told.append(f"The same in both: {', '.join(same)}.")
    return (first + bounds, *told)


def _same(one: Case, other: Case) -> list[str]:
    """What does not differ, with its value."""
    a, b = one.work, other.work
    values = {
        "{:,.0f} global load requests": (one.profile.requests("ld"), other.profile.requests("ld")),
        "{:.2g} instructions for 32 multiply-adds": (a.issued / a.fma, b.issued / b.fma),
        "{:.2g} wavefronts of shared memory for 32 multiply-adds": (a.wavefronts / a.fma, b.wavefronts / b.fma),
        "occupancy {:.0%}": (one.held.fraction, other.held.fraction),
    }
    return [text.format(value) for text, (value, there) in values.items() if not _differ(value, there)]


def _ms(case: Case) -> str:
    return f"{case.estimate.seconds * 1e3:.3g} ms"


def _the(case: Case) -> str:
    name = case.estimate.bound
    return name if name in (ISSUE, LATENCY) else f"the {name}"


Said = tuple[float, float, str]


def _effect(slow: Case, better: Work, resource: str, text: str) -> Said:
    """(gain of the slower kernel, cycles it saves on the resource as a share of its time, sentence)."""
    then = estimate(better, slow.gpu, slow.profile.problem.flops)
    gain = slow.estimate.longest / then.longest
    saved = (slow.estimate.of(resource) - then.of(resource)) / slow.estimate.longest
    effect = "nothing" if abs(gain - 1) < 0.005 else f"{gain:.2f} times the speed"
    return gain, saved, f"{text} (by itself worth {effect})."


def _differ(one: float, other: float) -> bool:
    return abs(one - other) > _SAME * max(abs(one), abs(other))


def _coalescing(slow: Case, fast: Case, a: str, b: str) -> Said | None:
    used, other = slow.profile.packed_per_sector[0], fast.profile.packed_per_sector[0]
    if math.isnan(used) or math.isnan(other) or not _differ(used, other):
        return None
    scale = slow.work.global_requests / max(1.0, fast.work.global_requests)
    better = replace(slow.work, lines=min(slow.work.lines, fast.work.lines * scale))
    return _effect(slow, better, LSU, f"Coalescing: {b} uses {fast.profile.bytes_per_sector[0]:.1f} of the 32 bytes "
                                      "in each sector that its global loads touch, "
                                      f"{a} {slow.profile.bytes_per_sector[0]:.1f}")  # fmt: skip


def _global(slow: Case, fast: Case, a: str, b: str) -> Said | None:
    one, other = slow.profile.requests("ld"), fast.profile.requests("ld")
    if not _differ(one, other):
        return None
    better = replace(slow.work, global_requests=fast.work.global_requests, lines=fast.work.lines,
                     l2_bytes=fast.work.l2_bytes)  # fmt: skip
    return _effect(slow, better, LSU, f"Global memory: {b} makes {other:,.0f} load requests, {a} {one:,.0f}")


def _shared(slow: Case, fast: Case, a: str, b: str) -> Said | None:
    one, other = (case.work.wavefronts / case.work.fma for case in (slow, fast))
    if not _differ(one, other):
        return None
    better = replace(slow.work, wavefronts=fast.work.wavefronts, shared_requests=fast.work.shared_requests)
    return _effect(slow, better, LSU,
                   f"Shared memory: {b} needs {other:.2g} wavefronts for 32 multiply-adds, {a} {one:.2g}")  # fmt: skip


def _conflicts(slow: Case, fast: Case, a: str, b: str) -> Said | None:
    shares = [conflicts_of(c.profile) / c.work.wavefronts if c.work.wavefronts else 0.0 for c in (slow, fast)]
    if abs(shares[0] - shares[1]) < _SAME:
        return None
    clean = slow.work.wavefronts - conflicts_of(slow.profile)
    better = replace(slow.work, wavefronts=clean / (1 - shares[1]))
    return _effect(slow, better, LSU, f"Bank conflicts: {shares[1]:.0%} of {b}'s wavefronts are conflicts, "
                                      f"{shares[0]:.0%} of {a}'s")  # fmt: skip


def _instructions(slow: Case, fast: Case, a: str, b: str) -> Said | None:
    one, other = (case.work.issued / case.work.fma for case in (slow, fast))
    if not _differ(one, other):
        return None
    better = replace(slow.work, issued=other * slow.work.fma)
    return _effect(slow, better, ISSUE,
                   f"Instructions: {b} issues {other:.2g} for 32 multiply-adds, {a} {one:.2g}")  # fmt: skip


def _waiting(slow: Case, fast: Case, a: str, b: str) -> Said | None:
    one, other = slow.work, fast.work
    if not _differ(one.waits * one.together, other.waits * other.together):
        return None
    better = replace(one, waits=other.waits, wait_cycles=other.wait_cycles, together=other.together)
    words = [f"waits {w.waits:,.0f} times a block" if w.together and w.waits else "never waits as a block"
             for w in (one, other)]  # fmt: skip
    return _effect(slow, better, LATENCY, f"Waiting for global memory between barriers: {b} {words[1]}, {a} {words[0]}")


def _occupancy(slow: Case, fast: Case, a: str, b: str) -> Said | None:
    if slow.held.warps_per_sm == fast.held.warps_per_sm:
        return None
    better = replace(slow.work, resident=fast.work.resident)
    return _effect(slow, better, LATENCY,
                   f"Occupancy: {b} has {fast.held.fraction:.0%} ({' and '.join(fast.held.limiters)}), "
                   f"{a} {slow.held.fraction:.0%} ({' and '.join(slow.held.limiters)})")  # fmt: skip


def _balance(slow: Case, fast: Case, a: str, b: str) -> Said | None:
    if not _differ(slow.filled.imbalance, fast.filled.imbalance):
        return None
    better = replace(slow.work, imbalance=fast.work.imbalance)
    words = [f"{case.filled.imbalance:.2f} with {name} ({case.filled.grid:,} blocks)"
             for case, name in ((fast, b), (slow, a))]  # fmt: skip
    text = f"Filling the GPU: the busiest SM's share over the average's is {words[0]}, {words[1]}"
    return _effect(slow, better, ISSUE, text)


_RULES: tuple[Callable[[Case, Case, str, str], Said | None], ...] = (
    _coalescing, _global, _shared, _conflicts, _instructions, _waiting, _occupancy, _balance,
)  # fmt: skip


def _rows(left: Diagnosis, right: Diagnosis, sass_left: Sass, sass_right: Sass) -> list[Row]:
    def both(section: str, name: str, value: Callable[[Diagnosis], float | str], form: str = "{:,.0f}") -> Row:
        return Row(section, name, value(left), value(right), form)

    def count(section: str, name: str, value: Callable[[Profile], float], form: str = "{:,.0f}") -> Row:
        return both(section, name, lambda d: value(d.case.profile), form)

    def per_fma(value: Callable[[Profile], float]) -> Callable[[Profile], float]:
        return lambda p: value(p) / (p.value(FFMA) / 32) if p.value(FFMA) else math.nan

    rows = [
        both("predicted", "time, ms", lambda d: d.case.estimate.seconds * 1e3, "{:.3g}"),
        both("predicted", "TFLOPS", lambda d: d.case.estimate.tflops, "{:.1f}"),
        both("predicted", "bound by", lambda d: d.bound),
        count("resources", "registers a thread", lambda p: p.resources.registers),
        count("resources", "shared memory, B a block", lambda p: p.resources.static_smem + p.geometry.smem),
        count("resources", "spilled, B a thread", lambda p: p.resources.spill_loads + p.resources.spill_stores),
        count("resources", "threads a block", lambda p: p.geometry.threads),
        count("resources", "blocks", lambda p: p.geometry.blocks),
        both("occupancy", "warps an SM", lambda d: d.case.held.warps_per_sm),
        both("occupancy", "occupancy", lambda d: d.case.held.fraction, "{:.1%}"),
        both("occupancy", "limited by", lambda d: ", ".join(d.case.held.limiters)),
        both("occupancy", "waves", lambda d: d.case.filled.waves, "{:.2f}"),
        count("coalescing", "global load requests", lambda p: p.requests("ld")),
        count("coalescing", "global load sectors", lambda p: p.sectors("ld")),
        count("coalescing", "sectors a load request", lambda p: _over(p.sectors("ld"), p.requests("ld")), "{:.2f}"),
        count("coalescing", "bytes used of 32, loads", lambda p: p.bytes_per_sector[0], "{:.1f}"),
        count("coalescing", "bytes used of 32, stores", lambda p: p.bytes_per_sector[1], "{:.1f}"),
        count("shared memory", "load requests", lambda p: p.value(REQUESTS["ld"])),
        count("shared memory", "load wavefronts", lambda p: p.wavefronts("ld")),
        count("shared memory", "load bank conflicts", lambda p: p.value(CONFLICTS["ld"])),
        count("shared memory", "ldmatrix requests", lambda p: p.value(REQUESTS["ldsm"])),
        count("shared memory", "ldmatrix wavefronts", lambda p: p.wavefronts("ldsm")),
        count("shared memory", "store wavefronts", lambda p: p.wavefronts("st")),
        count("shared memory", "store bank conflicts", lambda p: p.value(CONFLICTS["st"])),
        count("shared memory", "cp.async wavefronts", lambda p: p.wavefronts("ldgsts")),
        count("shared memory", "load wavefronts/FFMA", per_fma(lambda p: p.wavefronts("ld")), "{:.3f}"),
    ]
    for name in dict.fromkeys(n for d in (left, right) for n, _ in d.case.profile.machine_mix):
        rows.append(both("instruction mix", name, lambda d, name=name: _share(d.case.profile, name), "{:.1%}"))  # type: ignore[misc]
    rows += _loop_rows(sass_left, sass_right)
    rows.append(both("roofline", "flops a byte, DRAM", lambda d: d.roof.intensity, "{:.1f}"))
    rows.append(both("roofline", "flops a byte, L2 (least)", lambda d: d.roof.l2_intensity, "{:.1f}"))
    return [row for row in rows if row.left not in (0, "") or row.right not in (0, "")]


def _over(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _share(profile: Profile, name: str) -> float:
    mix = dict(profile.machine_mix)
    return mix.get(name, 0) / (sum(mix.values()) or 1)


def _loop_rows(left: Sass, right: Sass) -> list[Row]:
    """Opcodes of both main loops; the most frequent, and arithmetic first."""
    loops = [sass.main_loop() for sass in (left, right)]
    counts = [dict(loop.counts) if loop else {} for loop in loops]
    names = sorted({*counts[0], *counts[1]}, key=lambda n: -max(counts[0].get(n, 0), counts[1].get(n, 0)))
    one, other = counts
    rows = [Row("main loop", "instructions", sum(one.values()), sum(other.values()))]
    return rows + [Row("main loop", n, one.get(n, 0), other.get(n, 0)) for n in names[:_LOOP_OPCODES]]


def _measured(left: Profile, right: Profile) -> list[Row]:
    return [
        Row("measured", f"{metric.title}, {metric.unit}", left.value(metric.name), right.value(metric.name), "{:,.4g}")
        for metric in METRICS
        if metric.hardware_only and not (math.isnan(left.value(metric.name)) and math.isnan(right.value(metric.name)))
    ]


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Plain types; 'measured' rows are measured, all others predicted or simulated."""
    sides = [(d.case.profile.kernel, d.case.profile.config) for d in (comparison.left, comparison.right)]
    problem = comparison.left.case.profile.problem
    return {
        "x": {"kernel": sides[0][0], "config": sides[0][1]}, "y": {"kernel": sides[1][0], "config": sides[1][1]},
        "gpu": comparison.gpu.name, "origin": "predicted", "model": MODEL,
        "problem": {"m": problem.m, "n": problem.n, "k": problem.k, "dtype": problem.dtype.name},
        "sentences": list(comparison.sentences),
        "rows": [{"section": r.section, "name": r.name, "x": _json(r.left), "y": _json(r.right),
                  "origin": origin_of(r)} for r in comparison.rows],
    }  # fmt: skip


def origin_of(row: Row) -> str:
    """Where a row's figures come from."""
    known = {"measured": "measured", "predicted": "predicted", "occupancy": "predicted", "roofline": "predicted",
             "instruction mix": "predicted", "resources": "compiler", "main loop": "compiler"}  # fmt: skip
    return known.get(row.section, "simulated")


def _json(value: float | str) -> float | str | None:
    return value if isinstance(value, str) else plain(value)
