"""The table of a comparison: one row per quantity, with the values of both kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gemmsmith.compile.sass import Sass
from gemmsmith.explain.diagnosis import Diagnosis
from gemmsmith.explain.metrics import METRICS
from gemmsmith.explain.profile import CONFLICTS, MACHINE, REQUESTS, Profile

_LOOP_OPCODES = 12
PER_FMA = "wavefronts per 32 multiply-adds"


@dataclass(frozen=True)
class Row:
    """One quantity of both kernels; ``form`` formats numbers. ``origin``: of its figures, where not the section's."""

    section: str
    name: str
    left: float | str
    right: float | str
    form: str = "{:,.0f}"
    origin: str = ""

    def shown(self, value: float | str) -> str:
        if isinstance(value, str):
            return value
        return "–" if math.isnan(value) else self.form.format(value)


def rows_of(left: Diagnosis, right: Diagnosis, sass_left: Sass, sass_right: Sass) -> list[Row]:
    def both(section: str, name: str, value: Callable[[Diagnosis], float | str], form: str = "{:,.0f}") -> Row:
        return Row(section, name, value(left), value(right), form)

    def count(section: str, name: str, value: Callable[[Profile], float], form: str = "{:,.0f}") -> Row:
        return both(section, name, lambda d: value(d.case.profile), form)

    rows = [
        both("predicted", "time, ms", lambda d: d.case.estimate.seconds * 1e3, "{:.3g}"),
        both("predicted", "TFLOPS", lambda d: d.case.estimate.tflops, "{:.1f}"),
        both("predicted", "bound by", lambda d: d.bound),
        count("resources", "registers per thread", lambda p: p.resources.registers),
        count("resources", "shared memory per block, B", lambda p: p.resources.static_smem + p.geometry.smem),
        count("resources", "spilled per thread, B", lambda p: p.resources.spill_loads + p.resources.spill_stores),
        count("resources", "threads per block", lambda p: p.geometry.threads),
        count("resources", "blocks", lambda p: p.geometry.blocks),
        both("occupancy", "warps per SM", lambda d: d.case.occupancy.warps_per_sm),
        both("occupancy", "occupancy", lambda d: d.case.occupancy.fraction, "{:.1%}"),
        both("occupancy", "limited by", lambda d: ", ".join(d.case.occupancy.limiters)),
        both("occupancy", "waves", lambda d: d.case.waves.waves, "{:.2f}"),
        count("coalescing", "global load requests", lambda p: p.requests("ld")),
        count("coalescing", "global load sectors", lambda p: p.sectors("ld")),
        count("coalescing", "sectors per load request", lambda p: _over(p.sectors("ld"), p.requests("ld")), "{:.2f}"),
        count("coalescing", "bytes used of 32, loads", lambda p: p.bytes_per_sector[0], "{:.1f}"),
        count("coalescing", "bytes used of 32, stores", lambda p: p.bytes_per_sector[1], "{:.1f}"),
        count("TMA", "boxes loaded", lambda p: p.tma("load", "requests")),
        count("TMA", "sectors loaded", lambda p: p.tma("load", "sectors")),
        count("TMA", "blocks per loaded byte", lambda p: p.multicast if p.tma("load", "requests") else 0, "{:.3g}"),
        count("TMA", "boxes stored", lambda p: p.tma("store", "requests")),
        count("shared memory", "load requests", lambda p: p.value(REQUESTS["ld"])),
        count("shared memory", "load wavefronts", lambda p: p.wavefronts("ld")),
        count("shared memory", "load and ldmatrix conflicts", lambda p: p.value(CONFLICTS["ld"])),
        count("shared memory", "ldmatrix requests", lambda p: p.value(REQUESTS["ldsm"])),
        count("shared memory", "ldmatrix wavefronts", lambda p: p.wavefronts("ldsm")),
        count("shared memory", "store wavefronts", lambda p: p.wavefronts("st")),
        count("shared memory", "store bank conflicts", lambda p: p.value(CONFLICTS["st"])),
        count("shared memory", "cp.async wavefronts", lambda p: p.wavefronts("ldgsts")),
        both("shared memory", PER_FMA, lambda d: _over(d.case.work.wavefronts, d.case.work.fma), "{:.3g}"),
    ]
    executed = all(d.case.profile.level == MACHINE for d in (left, right))
    for name in dict.fromkeys(n for d in (left, right) for n, _ in d.case.profile.machine_mix):
        one, other = (_share(d.case.profile, name) for d in (left, right))
        rows.append(Row("instruction mix", name, one, other, "{:.1%}", "simulated" if executed else ""))
    rows += _loop_rows(sass_left, sass_right)
    rows.append(both("roofline", "flop per byte, DRAM", lambda d: d.roof.intensity, "{:.1f}"))
    rows.append(both("roofline", "flop per byte, L2 (at least)", lambda d: d.roof.l2_intensity, "{:.1f}"))
    return [row for row in rows if row.left not in (0, "") or row.right not in (0, "")]


def _over(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _share(profile: Profile, name: str) -> float:
    mix = dict(profile.machine_mix)
    return mix.get(name, 0) / (sum(mix.values()) or 1)


def _loop_rows(left: Sass, right: Sass) -> list[Row]:
    """Opcode counts of both main loops, the most frequent first."""
    loops = [sass.main_loop() for sass in (left, right)]
    counts = [dict(loop.counts) if loop else {} for loop in loops]
    names = sorted({*counts[0], *counts[1]}, key=lambda n: -max(counts[0].get(n, 0), counts[1].get(n, 0)))
    one, other = counts
    rows = [Row("main loop", "instructions", sum(one.values()), sum(other.values()))]
    return rows + [Row("main loop", n, one.get(n, 0), other.get(n, 0)) for n in names[:_LOOP_OPCODES]]


def measured_rows(left: Profile, right: Profile) -> list[Row]:
    return [
        Row("measured", f"{metric.title}, {metric.unit}", left.value(metric.name), right.value(metric.name), "{:,.4g}")
        for metric in METRICS
        if metric.hardware_only and not (math.isnan(left.value(metric.name)) and math.isnan(right.value(metric.name)))
    ]


def origin_of(row: Row) -> str:
    """The origin of a row's figures."""
    known = {"measured": "measured", "predicted": "predicted", "occupancy": "predicted", "roofline": "predicted",
             "instruction mix": "predicted", "resources": "compiler", "main loop": "compiler"}  # fmt: skip
    return row.origin or known.get(row.section, "simulated")
