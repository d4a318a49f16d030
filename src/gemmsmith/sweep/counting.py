"""A point without a GPU: compiled, verified and counted on the simulator; or its occupancy predicted alone."""

from __future__ import annotations

import math

from gemmsmith.call.binding import aligned_config
from gemmsmith.errors import CompileError, SimulationError, UsageError
from gemmsmith.explain.instruction_mix import MULTIPLY_ADD
from gemmsmith.explain.occupancy import launched_blocks, occupancy
from gemmsmith.explain.profile import CONFLICTS, FFMA, Profile
from gemmsmith.explain.sampling import QUICK_DEPTH, QUICK_SAMPLE
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.store.results import Measurement, Pairs
from gemmsmith.sweep.families import Variant
from gemmsmith.sweep.grid import Point
from gemmsmith.sweep.results import Outcome
from gemmsmith.sweep.workbench import Workbench, reasons_of, resources
from gemmsmith.verify.cases import tile_of
from gemmsmith.verify.harness import refusal, verify_launch
from gemmsmith.verify.leniency import is_lenient, verify_leniently
from gemmsmith.verify.verdict import Verdict

_DEEPEST = 128  # the k-tile of a user's file is not known; published kernels have no deeper one


def count_point(point: Point, bench: Workbench) -> Outcome:
    """Verify a point and count it on the simulator."""
    variant, problem = point.variant, point.problem
    if variant is None or problem is None:
        return Outcome(point, "illegal", point.reasons)
    try:
        compiled = bench.compiled(variant, problem)
        geometry = bench.geometry(variant, problem)
        found = bench.occupancy(compiled, geometry.threads, geometry.smem)
        if not found.fits:
            return Outcome(point, "failed", (found.why,))
        verdict = _verified(variant, problem, bench)
        fitted = aligned_config(variant.spec, variant.config, problem)
        profile = simulate(variant.spec, fitted, problem, compiled, sample=QUICK_SAMPLE, depth=QUICK_DEPTH,
                           sass=bench.sass(compiled))  # fmt: skip
    except (CompileError, SimulationError, UsageError) as error:
        return Outcome(point, "failed", reasons_of(error))
    blocks = launched_blocks(bench.gpu, geometry, variant.spec.persistent, found.blocks_per_sm)
    measurement = Measurement(
        identity=bench.identity(variant, problem, compiled), problem=problem, origin="simulated",
        verified=verdict.trusted, rejected="" if verdict.trusted else "; ".join(verdict.reasons[:1]) or "wrong",
        rho=(verdict.rho, math.nan), counters=(*resources(compiled, found, blocks, bench.gpu), *_counts(profile)),
    )  # fmt: skip
    if not verdict.trusted:
        return Outcome(point, "wrong", (*verdict.reasons[:3], f"repeat: {verdict.repeat}"), measurement)
    return Outcome(point, "ok", (), measurement, ", ".join(found.limiters))


def predict_point(point: Point, bench: Workbench) -> Outcome:
    """The occupancy of a point's kernel with its registers, threads or shared memory set by hand."""
    variant, problem = point.variant, point.problem
    if variant is None or problem is None:
        return Outcome(point, "illegal", point.reasons)
    try:
        compiled = bench.compiled(variant, problem)
        geometry = bench.geometry(variant, problem)
        used, given = compiled.resources, dict(point.resources)
        static = used.static_smem
        if "smem" in given:
            static = min(static, given["smem"])
        found = occupancy(
            bench.gpu, threads=given.get("threads", geometry.threads), barriers=used.barriers, static_smem=static,
            registers=given.get("registers", used.registers),
            dynamic_smem=given["smem"] - static if "smem" in given else geometry.smem,
        )  # fmt: skip
    except (CompileError, UsageError) as error:
        return Outcome(point, "failed", reasons_of(error))
    counters = {
        "registers": found.registers, "threads": found.threads, "smem_bytes": found.static_smem + found.dynamic_smem,
        "blocks_per_sm": found.blocks_per_sm, "warps_per_sm": found.warps_per_sm, "occupancy": found.fraction,
    }  # fmt: skip
    measurement = Measurement(bench.identity(variant, problem, compiled), problem, "predicted", verified=False,
                              counters=tuple(counters.items()))  # fmt: skip
    limiter = ", ".join(found.limiters)
    return Outcome(point, "ok", (), measurement, limiter if found.fits else f"{limiter}: no block fits")


def small_problem(variant: Variant, problem: Problem) -> Problem:
    """A few tiles to verify on: ragged for a rung; for a file, as ragged as the sweep's own shape.

    A file may be written for whole tiles only; a rung may not.
    """
    bm, bn, bk = tile_of(variant.spec, variant.config)
    if variant.spec.is_rung:
        return problem.with_(m=bm + 1, n=max(1, bn - 1), k=bk + 1)
    small = problem.with_(m=_shortened(problem.m, bm), n=_shortened(problem.n, bn), k=_shortened(problem.k, _DEEPEST))
    if refusal(variant.spec.signature, small):  # it takes one extent for M, N and K
        side = _shortened(problem.m, math.lcm(bm, bn, _DEEPEST))
        small = problem.with_(m=side, n=side, k=side)
    return small


def _shortened(extent: int, period: int) -> int:
    """The least extent above one period with the same remainder, and at most ``extent``."""
    return min(extent, period + extent % period)


def _verified(variant: Variant, problem: Problem, bench: Workbench) -> Verdict:
    small = small_problem(variant, problem)
    key = str(small), variant.text, problem.dtype

    def judge(c: str) -> Verdict:
        return verify_launch(SimDevice(bench.arch), variant.spec, variant.config, small, compile_fn=bench.compiler,
                             mode="exact", c=c)  # fmt: skip

    if key not in bench.verdicts:
        bench.verdicts[key] = verify_leniently(judge, is_lenient(variant.spec))[0]
    return bench.verdicts[key]


def _counts(profile: Profile) -> Pairs:
    """The profile's metrics, and the ratios to a warp's multiply-adds that a sweep compares."""
    ffma = profile.value(FFMA) / 32
    mix = dict(profile.machine_mix)
    multiply_adds = mix.get(MULTIPLY_ADD, 0)

    def per_thousand(count: float) -> float:
        return 1000 * count / ffma if ffma else math.nan

    wavefronts = {op: profile.wavefronts(op) for op in ("ld", "st", "ldgsts")}

    def share(*ops: str) -> float:
        total = sum(wavefronts[op] for op in ops)
        return sum(profile.value(CONFLICTS[op]) for op in ops) / total if total else 0.0

    derived = {
        "instructions_per_ffma": sum(mix.values()) / multiply_adds if multiply_adds else math.nan,
        "wavefronts_per_kffma": per_thousand(sum(wavefronts.values())),
        "load_conflicts": share("ld"), "store_conflicts": share("st", "ldgsts"),
        "sectors_per_kffma": per_thousand(profile.sectors("ld") + profile.sectors("st")),
        "global_requests_per_kffma": per_thousand(profile.requests("ld") + profile.requests("st")),
        "barriers_per_kffma": per_thousand(profile.barriers),
    }  # fmt: skip
    return (*profile.metrics, *derived.items())
