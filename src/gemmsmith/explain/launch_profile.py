"""The profile of a launch of any kernel, and what bounds it: counts are simulated, time is predicted."""

from __future__ import annotations

import math
from typing import Any

from gemmsmith.call.any_kernel.result import LaunchResult
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import UsageError
from gemmsmith.explain.bottleneck import DRAM, FMA, ISSUE, L2, LSU, OPS, Work, conflicts_of, estimate, lines_of
from gemmsmith.explain.diagnosis import MODEL, Diagnosis, finding_json
from gemmsmith.explain.findings import GENERAL_RULES, Case, Finding
from gemmsmith.explain.occupancy import Occupancy, Waves, occupancy, waves
from gemmsmith.explain.profile import FFMA, REQUESTS, SECTOR, Profile, plain, to_json
from gemmsmith.explain.roofline import Roofline
from gemmsmith.explain.sampling import Counted
from gemmsmith.explain.simulated_profile import profile_of
from gemmsmith.gpus import GPU
from gemmsmith.problem import Problem

NO_PRODUCT = Problem(0, 0, 0)  # a launch that is no matrix product has no M, N and K
_NAMES = {FMA: "the FMA pipe", ISSUE: "instruction issue", LSU: "the load/store pipe", L2: "L2", DRAM: "DRAM"}


def launch_profile(result: LaunchResult, sass: Sass | None = None) -> Profile:
    """The counts of a simulated launch as ``gemmsmith profile`` shows them."""
    if result.counters is None:
        raise UsageError("the launch was not counted", "run it on the simulator with count=True")
    launched = result.launched

    def text_of(file: str) -> list[str]:
        return [line.expandtabs(4).rstrip() for line in launched.files.get(file, "").splitlines()]

    return profile_of(launched.name, "", NO_PRODUCT, launched.compiled, Counted(result.counters.raw),
                      sass or disassemble(launched.compiled), launched.file, text_of)  # fmt: skip


def launch_json(profile: Profile) -> dict[str, Any]:
    """The profile as JSON types, without the shape of a product."""
    made = {name: value for name, value in to_json(profile).items() if name not in ("problem", "config")}
    return made | {"smem": profile.geometry.smem}


def diagnose_launch(profile: Profile, sass: Sass, gpu: GPU, array_bytes: int) -> Diagnosis:
    """What bounds a launch on ``gpu``; ``array_bytes`` is the size of its arrays, which DRAM moves at most once."""
    used, geometry = profile.resources, profile.geometry
    held = occupancy(gpu, threads=geometry.threads, registers=used.registers, static_smem=used.static_smem,
                     dynamic_smem=geometry.smem, barriers=used.barriers)  # fmt: skip
    if not held.fits:
        raise UsageError(f"{profile.kernel} cannot be launched on {gpu.name}: {held.why}", "use a smaller block")
    filled = waves(gpu, geometry.blocks, held.blocks_per_sm)
    work = _work(profile, held, filled, array_bytes)
    case = Case(profile, gpu, held, filled, work, estimate(work, gpu, 0))
    found = [finding for rule in GENERAL_RULES if (finding := rule(case, sass)) is not None]
    found += [few] if (few := _few_blocks(case)) is not None else []
    ordered = sorted(found, key=lambda each: (-round(each.gain, 2), -each.saved))
    return Diagnosis(case, _roof(case), _sentences(case), tuple(ordered))


def _work(profile: Profile, held: Occupancy, filled: Waves, array_bytes: int) -> Work:
    touched = SECTOR * (profile.sectors("ld") + profile.sectors("st"))
    issued = sum(count for _, count in profile.machine_mix)
    return Work(
        fma=dict(profile.machine_mix).get("multiply-add", profile.value(FFMA) / 32), issued=max(1.0, issued),
        shared_requests=sum(profile.value(REQUESTS[op]) for op in OPS),
        wavefronts=sum(profile.wavefronts(op) for op in OPS),
        global_requests=profile.requests("ld") + profile.requests("st") - profile.value(REQUESTS["ldgsts"]),
        lines=sum(lines_of(profile, op) for op in ("ld", "st")), l2_bytes=touched,
        dram_bytes=min(touched, float(array_bytes)), waits=0.0, wait_cycles=0.0, together=False,
        blocks=profile.geometry.blocks, resident=held.blocks_per_sm, imbalance=filled.imbalance,
    )  # fmt: skip


def _roof(case: Case) -> Roofline:
    """Bytes only: how many operations a kernel needs is known for products alone."""
    none = math.nan
    return Roofline(case.gpu.name, 0, int(case.work.dram_bytes), case.work.l2_bytes, none, none, none, "", none)


def _few_blocks(case: Case) -> Finding | None:
    if case.waves.grid >= case.gpu.sms:
        return None
    return Finding(
        "too few blocks", f"The grid has {case.waves.grid:,} blocks for {case.gpu.sms} SMs; the others are idle.",
        (("blocks", float(case.waves.grid)),), case.gpu.sms / case.waves.grid,
        "Launch more blocks: smaller blocks, less work for each, or more data.", 0.0,
    )  # fmt: skip


def _sentences(case: Case) -> tuple[str, ...]:
    made = [_bound(case), _global(case.profile, "ld"), _global(case.profile, "st")]
    if case.work.wavefronts:
        excess = conflicts_of(case.profile)
        share = f"bank conflicts cause {excess / case.work.wavefronts:.0%} of them" if excess else "no bank conflicts"
        made.append(f"Shared memory serves {case.work.wavefronts:,.0f} wavefronts; {share}.")
    held, filled = case.occupancy, case.waves
    made.append(
        f"Occupancy: {held.blocks_per_sm} block{'s' if held.blocks_per_sm > 1 else ''} per SM, {held.warps_per_sm} of "
        f"{case.gpu.warps_per_sm} warps ({held.fraction:.0%}), limited by {' and '.join(held.limiters)}; the grid of "
        f"{filled.grid:,} blocks takes {filled.waves:.2f} waves."
    )
    return tuple(filter(None, made))


def _bound(case: Case) -> str:
    now = case.estimate
    ranked = sorted((item for item in now.cycles if item[0] in _NAMES and item[1]), key=lambda item: -item[1])
    if not ranked:
        return "The launch does nothing that takes time."
    costs = [f"{_NAMES[name]} {cycles:,.0f}" for name, cycles in ranked[1:3]]
    rest = f"; {' and '.join(costs)}" if costs else ""
    return (f"Bound by {_NAMES[ranked[0][0]]}: {ranked[0][1]:,.0f} cycles of the busiest SM{rest}. That is "
            f"{now.seconds * 1e6:.3g} µs on {case.gpu.name}, without launch overhead and memory latency.")  # fmt: skip


def _global(profile: Profile, op: str) -> str:
    requests, word = profile.requests(op), "loads" if op == "ld" else "stores"
    if not requests:
        return f"The kernel {'loads nothing from' if op == 'ld' else 'stores nothing to'} global memory."
    used = profile.bytes_per_sector[0 if op == "ld" else 1]
    return (f"Global {word}: {requests:,.0f} requests touch {profile.sectors(op) / requests:.1f} sectors each and use "
            f"{used:.1f} of the 32 bytes of a sector.")  # fmt: skip


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as JSON types; every figure is predicted."""
    case = diagnosis.case
    return {
        "kernel": case.profile.kernel, "gpu": case.gpu.name, "arch": case.profile.arch, "origin": "predicted",
        "counts_origin": case.profile.origin, "model": MODEL, "bound": diagnosis.bound,
        "sentences": list(diagnosis.sentences), "seconds": case.estimate.seconds,
        "cycles_per_sm": {name: plain(value) for name, value in case.estimate.cycles if name in _NAMES},
        "occupancy": {"blocks_per_sm": case.occupancy.blocks_per_sm, "warps_per_sm": case.occupancy.warps_per_sm,
                      "fraction": case.occupancy.fraction, "limiters": list(case.occupancy.limiters)},
        "findings": [finding_json(each) for each in diagnosis.findings],
    }  # fmt: skip
