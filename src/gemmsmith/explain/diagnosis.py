"""From a profile to a diagnosis: what bounds the kernel, with numbers, and fixes ordered by estimated gain."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

from gemmsmith.compile.sass import Sass
from gemmsmith.errors import UsageError
from gemmsmith.explain.bottleneck import DRAM, FMA, ISSUE, L2, LATENCY, LSU, conflicts_of, estimate, units_of, work_of
from gemmsmith.explain.findings import RULES, Case, Finding, fma_per_request
from gemmsmith.explain.occupancy import Waves, occupancy, waves
from gemmsmith.explain.profile import REQUESTS, Profile, plain
from gemmsmith.explain.roofline import Roofline, roofline
from gemmsmith.gpus import GPU, rate_unit
from gemmsmith.notebook_html import card, folded, listing, paragraph
from gemmsmith.problem import ceil_div

MODEL = (
    "Predicted, not measured. Counts are simulated. Time is estimated from the cycles that each resource of an SM "
    "needs, assuming perfect overlap, plus waits that no other work fills, with rounded latencies at boost clock. A "
    "real kernel may be slower or faster."
)

IN_SHORT = "Times are predicted, not measured; counts are simulated."
WORTH = 1.005  # smaller gains are rounding
_CLEAR = 1.05  # a change that was tried comes first from this gain on
_NAMES = {
    FMA: "the FMA pipe", ISSUE: "instruction issue", LSU: "the load/store pipe", L2: "L2", DRAM: "DRAM",
    LATENCY: "waiting for memory between barriers",
}  # fmt: skip


@dataclass(frozen=True)
class Diagnosis:
    """What bounds one kernel on one GPU, predicted from simulated counts."""

    case: Case
    roof: Roofline
    sentences: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def bound(self) -> str:
        """The resource with the most cycles."""
        return self.case.estimate.bound

    def _repr_html_(self) -> str:
        """Its form in a notebook."""
        advice = [f"{each.kind}: {each.sentence} {each.fix}" for each in self.findings if each.gain > WORTH]
        parts = [listing(self.sentences), folded("what to do, by estimated gain", listing(advice)),
                 paragraph(IN_SHORT, small=True)]  # fmt: skip
        return card(f"{self.case.profile.kernel} on {self.case.gpu.name}", parts)


def first_finding(found: Diagnosis) -> Finding | None:
    """The change that was tried and helps, else the one whose cost is largest."""
    worth = [each for each in found.findings if each.gain >= WORTH]
    return next((each for each in worth if each.confirmed and each.gain >= _CLEAR), next(iter(worth), None))


def diagnose(profile: Profile, sass: Sass, gpu: GPU) -> Diagnosis:
    """Explain a simulated profile on ``gpu``."""
    case = case_of(profile, gpu)
    roof = roofline(profile, gpu)
    found = [finding for rule in RULES if (finding := rule(case, sass)) is not None]
    ordered = sorted(found, key=lambda f: (-round(f.gain, 2), -f.saved))
    return Diagnosis(case, roof, _sentences(case, roof), tuple(ordered))


def case_of(profile: Profile, gpu: GPU) -> Case:
    """Occupancy, work and estimated time of a simulated profile on ``gpu``."""
    used, geometry = profile.resources, profile.geometry
    held = occupancy(gpu, threads=geometry.threads, registers=used.registers, static_smem=used.static_smem,
                     dynamic_smem=geometry.smem, barriers=used.barriers)  # fmt: skip
    if not held.fits:
        raise UsageError(f"{profile.kernel} cannot be launched on {gpu.name}: {held.why}", "use a smaller block")
    if not profile.problem.flops:
        raise UsageError(f"{profile.problem} has no arithmetic to explain", "give M, N and K of at least 1")
    filled = _shared_out(waves(gpu, geometry.blocks, held.blocks_per_sm), profile.pieces)
    work = work_of(profile, gpu, held, filled)
    return Case(profile, gpu, held, filled, work, estimate(work, gpu, profile.problem.flops))


def _shared_out(filled: Waves, pieces: int) -> Waves:
    """Blocks of a persistent kernel get whole pieces of work: some may get one more than others."""
    if not pieces or not filled.grid:
        return filled
    return replace(filled, imbalance=filled.imbalance * ceil_div(pieces, filled.grid) * filled.grid / pieces)


SPEED = 1  # which sentence has the estimated time


def _sentences(case: Case, roof: Roofline) -> tuple[str, ...]:
    """Five or six sentences: the bound first, then the numbers behind it."""
    made = [_bound(case), _speed(case), _global(case)]
    if case.work.wavefronts:
        made.append(_shared(case))
    return (*made, _filling(case), _roof(roof))


def _bound(case: Case) -> str:
    names = _NAMES | ({FMA: "the tensor cores"} if case.work.tensor else {})
    now, work, slow = case.estimate, case.work, 32 / units_of(case.gpu).lsu_lanes
    # Cycles of an SM per warp-wide multiply-add.
    each = work.fma * work.imbalance / case.gpu.sms or 1.0
    ranked = [name for name, _ in sorted(now.cycles, key=lambda item: -item[1])]
    first, *others = dict.fromkeys([*ranked[:3], FMA])
    note = ""
    if first == LSU:
        far, near = max(work.lines, work.global_requests * slow), max(work.wavefronts, work.shared_requests * slow)
        share = max(far, near) / (far + near)
        note = f" ({share:.0%} for {'global' if far > near else 'shared'} memory)"
    costs = [f"{names[name]} {now.of(name) / each:.2f}" for name in others]
    rest = f"{', '.join(costs[:-1])} and {costs[-1]}" if len(costs) > 1 else "".join(costs)
    least = f"; {rest}" if rest else ""
    if now.longest > 1.005 * now.of(first):  # too few resident blocks to fill the waits
        least += f"; waits and work do not overlap, {now.longest / each:.2f} in total"
    return (f"Bound by {names[first]}: {now.of(first) / each:.2f} cycles per warp-wide multiply-add on each SM"
            f"{note}{least}.")  # fmt: skip


def _speed(case: Case) -> str:
    now, kind = case.estimate, case.work.tensor or "fp32"
    peak = case.gpu.required_peak(kind)
    time = f"{now.seconds * 1e3:.3g} ms" if now.seconds >= 1e-3 else f"{now.seconds * 1e6:.3g} µs"
    return (f"{case.profile.problem} takes an estimated {time} on {case.gpu.name}: {now.tflops:.1f} "
            f"{rate_unit(kind)}, {now.tflops / peak:.0%} of its {kind} peak of {peak:g}.")  # fmt: skip


def _global(case: Case) -> str:
    profile = case.profile
    requests, sectors = profile.requests("ld"), profile.sectors("ld")
    if profile.tma("load", "requests"):
        return _by_tma(case)
    if not requests:
        return "The kernel loads nothing from global memory."
    used = profile.bytes_per_sector[0]
    return (f"Global loads touch {sectors / requests:.1f} sectors per request and use {used:.1f} of the 32 bytes in "
            f"each. Each request feeds {fma_per_request(case):.3g} warp-wide multiply-adds."
    )  # fmt: skip


def _by_tma(case: Case) -> str:
    profile = case.profile
    loads, sectors, multicast = profile.tma("load", "requests"), profile.tma("load", "sectors"), profile.multicast
    wide = f", and multicast writes each byte to {multicast:.3g} blocks" if multicast > 1 else ""
    each = profile.tma("load", "bytes") / loads
    return (f"TMA loads {loads:,.0f} boxes of {each:,.0f} bytes: {sectors:,.0f} sectors of L2{wide}. Each "
            f"box feeds {case.work.fma / loads:.3g} warp-wide multiply-adds.")  # fmt: skip


def _shared(case: Case) -> str:
    excess, waves_ = conflicts_of(case.profile), case.work.wavefronts
    loads = case.profile.value(REQUESTS["ld"])
    if case.work.tensor:
        loads += case.profile.value(REQUESTS["ldsm"])
    each = "{:.3g}"  # tiny on tensor cores
    conflicts = f"bank conflicts cause {excess / waves_:.0%} of them" if excess else "there are no bank conflicts"
    fma = max(1.0, case.work.fma)  # a kernel may multiply without a multiply-add
    return (f"Shared memory serves {each.format(waves_ / fma)} wavefronts per 32 multiply-adds "
            f"({each.format(loads / fma)} load instructions); {conflicts}.")  # fmt: skip


def _filling(case: Case) -> str:
    held, filled = case.occupancy, case.waves
    blocks = f"{held.blocks_per_sm} block{'s' if held.blocks_per_sm > 1 else ''}"
    return (f"Occupancy: {blocks} per SM, {held.warps_per_sm} of {case.gpu.warps_per_sm} warps ({held.fraction:.0%}), "
            f"limited by {' and '.join(held.limiters)}; the grid of {filled.grid:,} blocks takes {filled.waves:.2f} "
            "waves.")  # fmt: skip


def _roof(roof: Roofline) -> str:
    return (f"Roofline: {roof.intensity:.0f} flop per byte of compulsory DRAM traffic (ridge of {roof.gpu}: "
            f"{roof.ridge:.0f}), so the problem is {roof.bound}-bound; at L2, at least {roof.l2_intensity:.1f} flop "
            "per byte.")  # fmt: skip


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as JSON types; every figure is predicted."""
    case = diagnosis.case
    profile, problem, now = case.profile, case.profile.problem, case.estimate
    return {
        "kernel": profile.kernel, "config": profile.config, "gpu": case.gpu.name, "arch": profile.arch,
        "origin": "predicted", "counts_origin": profile.origin, "model": MODEL,
        "problem": {"m": problem.m, "n": problem.n, "k": problem.k, "dtype": problem.dtype.name},
        "sampled_blocks": profile.sampled_blocks, "sampled_depth": profile.sampled_depth,
        "bound": diagnosis.bound, "sentences": list(diagnosis.sentences),
        "cycles_per_sm": {name: plain(value) for name, value in now.cycles},
        "seconds": now.seconds, "tflops": now.tflops,
        "units": dataclasses.asdict(units_of(case.gpu)),
        "work": dataclasses.asdict(case.work),
        "roofline": roof_json(diagnosis.roof),
        "occupancy": {"blocks_per_sm": case.occupancy.blocks_per_sm, "warps_per_sm": case.occupancy.warps_per_sm,
                      "fraction": case.occupancy.fraction, "limiters": list(case.occupancy.limiters),
                      "why": case.occupancy.why},
        "waves": dataclasses.asdict(case.waves),
        "findings": [
            finding_json(f) for f in diagnosis.findings
        ],
    }  # fmt: skip


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as JSON types; ``pattern`` is the access that costs most, if one is known."""
    made = {
        "kind": finding.kind, "sentence": finding.sentence, "fix": finding.fix, "gain": plain(finding.gain),
        "origin": finding.origin, "numbers": {name: plain(value) for name, value in finding.numbers},
    }  # fmt: skip
    made |= {"gain_of_copy": plain(finding.copy_gain)} if finding.copy_gain else {}
    pattern = finding.pattern
    if pattern is None:
        return made
    place = {"file": pattern.file, "line": pattern.line, "called_at": pattern.called_at or None}
    return made | {
        "where": finding.where, "lanes": finding.lanes, "tried": finding.tried or None, "diff": finding.diff or None,
        "pattern": {"space": pattern.space, "array": pattern.array or None, "writes": pattern.writes,
                    "bytes_per_lane": pattern.width, "stride": pattern.stride, "source": pattern.source, **place},
    }  # fmt: skip


def roof_json(roof: Roofline) -> dict[str, Any]:
    """The roofline. Its L2 traffic is the most that is possible; the time model's, in ``work``, is what it assumes."""
    names = {"l2_bytes": "most_l2_bytes", "l2_intensity": "least_l2_intensity"}
    return {names.get(name, name): plain(value) if isinstance(value, float) else value
            for name, value in dataclasses.asdict(roof).items()}  # fmt: skip
