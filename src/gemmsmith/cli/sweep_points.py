"""What ``gemmsmith sweep`` does at one point without a GPU: compile, verify, count; or predict occupancy alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from gemmsmith import __version__
from gemmsmith.bench.arithmetic import arithmetic
from gemmsmith.bench.kernel_contender import source_digest
from gemmsmith.call.binding import aligned_code, aligned_config
from gemmsmith.cli.launch_report import is_lenient, leniently
from gemmsmith.cli.options import Compiler
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import CompileError, GemmsmithError, SimulationError, UsageError
from gemmsmith.explain.instruction_mix import MULTIPLY_ADD
from gemmsmith.explain.occupancy import Occupancy, launched_blocks, occupancy, waves
from gemmsmith.explain.profile import CONFLICTS, FFMA, Profile
from gemmsmith.explain.sampling import QUICK_DEPTH, QUICK_SAMPLE
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.gpus import GPU
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import DType, Problem
from gemmsmith.run.contender import Identity
from gemmsmith.shapes import Shape
from gemmsmith.sim.device import SimDevice
from gemmsmith.store.results import Measurement, Pairs
from gemmsmith.sweep.sweep import Outcome, Point, Variant
from gemmsmith.verify.cases import tile_of
from gemmsmith.verify.harness import refusal, verify_launch
from gemmsmith.verify.verdict import Verdict

_DEEPEST = 128  # how deep a file's slices are is not known; those of kernels in print are not deeper


@dataclass
class Workbench:
    """A GPU to predict for, a compiler, and what points that differ only in size share: verdicts and machine code."""

    gpu: GPU
    arch: str
    compiler: Compiler
    verdicts: dict[tuple[str, str, DType], Verdict] = field(default_factory=dict)
    listings: dict[str, Sass] = field(default_factory=dict)

    def compiled(self, variant: Variant, problem: Problem) -> CompiledKernel:
        return self.compiler(variant.spec, *aligned_code(variant.spec, variant.config, problem), self.arch)

    def geometry(self, variant: Variant, problem: Problem) -> Geometry:
        config, seen = aligned_code(variant.spec, variant.config, problem)
        return variant.spec.geometry(seen, config)

    def sass(self, compiled: CompiledKernel) -> Sass:
        if compiled.key not in self.listings:
            self.listings[compiled.key] = disassemble(compiled)
        return self.listings[compiled.key]

    def held(self, compiled: CompiledKernel, threads: int, dynamic: int) -> Occupancy:
        used = compiled.resources
        return occupancy(self.gpu, threads=threads, registers=used.registers, static_smem=used.static_smem,
                         dynamic_smem=dynamic, barriers=used.barriers)  # fmt: skip

    def wave_shape(self, variant: Variant, wanted: float, shape: Shape) -> Shape:
        """About ``wanted`` waves of whole tiles, nearly square; a fraction of a wave is never rounded away."""
        problem = Problem(*shape, dtype=variant.spec.dtypes[0])
        geometry = self.geometry(variant, problem)
        held = self.held(self.compiled(variant, problem), geometry.threads, geometry.smem)
        if not held.fits:
            raise UsageError(held.why)
        capacity = self.gpu.sms * held.blocks_per_sm
        across = max(n for n in range(1, math.isqrt(capacity) + 1) if capacity % n == 0)
        a_wave = capacity // across
        rows, full = round(wanted * a_wave), round(wanted)
        if rows == full * a_wave and wanted != full:
            rows += 1 if wanted > full else -1
        bm, bn, _ = tile_of(variant.spec, variant.config)
        return bm * max(1, rows), bn * across, shape[2]


def counted(point: Point, bench: Workbench) -> Outcome:
    """Verify a point and count it on the simulator."""
    variant, problem = point.variant, point.problem
    if variant is None or problem is None:
        return Outcome(point, "illegal", point.reasons)
    try:
        compiled = bench.compiled(variant, problem)
        geometry = bench.geometry(variant, problem)
        held = bench.held(compiled, geometry.threads, geometry.smem)
        if not held.fits:
            return Outcome(point, "failed", (held.why,))
        verdict = _verified(variant, problem, bench)
        fitted = aligned_config(variant.spec, variant.config, problem)
        found = simulate(variant.spec, fitted, problem, compiled, sample=QUICK_SAMPLE, depth=QUICK_DEPTH,
                         sass=bench.sass(compiled))  # fmt: skip
    except (CompileError, SimulationError, UsageError) as error:
        return Outcome(point, "failed", why(error))
    blocks = launched_blocks(bench.gpu, geometry, variant.spec.persistent, held.blocks_per_sm)
    measurement = Measurement(
        identity=identity_of(variant, problem, compiled), problem=problem, origin="simulated",
        verified=verdict.trusted, rejected="" if verdict.trusted else "; ".join(verdict.reasons[:1]) or "wrong",
        rho=(verdict.rho, math.nan), counters=(*resources(compiled, held, blocks, bench.gpu), *_counts(found)),
    )  # fmt: skip
    if not verdict.trusted:
        return Outcome(point, "wrong", (*verdict.reasons[:3], f"repeat: {verdict.repeat}"), measurement)
    return Outcome(point, "ok", (), measurement, ", ".join(held.limiters))


def predicted(point: Point, bench: Workbench) -> Outcome:
    """Occupancy of a point's kernel with its registers, threads or shared memory set by hand."""
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
        held = occupancy(
            bench.gpu, threads=given.get("threads", geometry.threads), barriers=used.barriers, static_smem=static,
            registers=given.get("registers", used.registers),
            dynamic_smem=given["smem"] - static if "smem" in given else geometry.smem,
        )  # fmt: skip
    except (CompileError, UsageError) as error:
        return Outcome(point, "failed", why(error))
    counters = {
        "registers": held.registers, "threads": held.threads, "smem_bytes": held.static_smem + held.dynamic_smem,
        "blocks_per_sm": held.blocks_per_sm, "warps_per_sm": held.warps_per_sm, "occupancy": held.fraction,
    }  # fmt: skip
    measurement = Measurement(identity_of(variant, problem, compiled), problem, "predicted", verified=False,
                              counters=tuple(counters.items()))  # fmt: skip
    limiter = ", ".join(held.limiters)
    return Outcome(point, "ok", (), measurement, limiter if held.fits else f"{limiter}: no block fits")


def with_resources(outcome: Outcome, bench: Workbench) -> Outcome:
    """A measured point with what its kernel uses added to what was measured."""
    variant, problem, found = outcome.point.variant, outcome.point.problem, outcome.measurement
    if variant is None or problem is None or found is None:
        return outcome
    compiled = bench.compiled(variant, problem)
    geometry = bench.geometry(variant, problem)
    held = bench.held(compiled, geometry.threads, geometry.smem)
    blocks = launched_blocks(bench.gpu, geometry, variant.spec.persistent, held.blocks_per_sm)
    added = dict(resources(compiled, held, blocks, bench.gpu)) | dict(found.counters)
    return replace(outcome, measurement=replace(found, counters=tuple(added.items())), limiter=", ".join(held.limiters))


def resources(compiled: CompiledKernel, held: Occupancy, blocks: int, gpu: GPU) -> Pairs:
    """What a kernel uses, by ptxas; and how it fills the GPU, predicted."""
    used = compiled.resources
    filled = waves(gpu, blocks, held.blocks_per_sm) if held.fits else None
    return (
        ("registers", used.registers), ("smem_bytes", held.static_smem + held.dynamic_smem),
        ("spill_bytes", used.spill_stores + used.spill_loads), ("threads", held.threads),
        ("blocks_per_sm", held.blocks_per_sm), ("occupancy", held.fraction), ("grid_blocks", blocks),
        ("waves", filled.waves if filled else math.nan),
        ("wave_efficiency", filled.efficiency if filled else math.nan),
    )  # fmt: skip


def identity_of(variant: Variant, problem: Problem, compiled: CompiledKernel) -> Identity:
    kind = "rung" if variant.spec.is_rung else "file"
    fitted = aligned_config(variant.spec, variant.config, problem)
    digest = source_digest(variant.spec, fitted, problem, compiled.arch)
    return Identity(
        variant.spec.name, kind, variant.text, variant.spec.arithmetic or arithmetic(compiled), __version__, digest
    )


def why(error: GemmsmithError) -> tuple[str, ...]:
    """What went wrong, with the compiler's first complaint."""
    log = error.log if isinstance(error, CompileError) else ""
    complaint = next((line.strip() for line in log.splitlines() if "error" in line.lower()), "")
    return tuple(filter(None, (error.message, complaint)))


def small_problem(variant: Variant, problem: Problem) -> Problem:
    """A few tiles to verify on: for a rung with ragged edges, for a file as ragged as the sweep's own shape.

    A file may be written for whole tiles only; a rung may not.
    """
    bm, bn, bk = tile_of(variant.spec, variant.config)
    if variant.spec.is_rung:
        return problem.with_(m=bm + 1, n=max(1, bn - 1), k=bk + 1)
    small = problem.with_(m=_short(problem.m, bm), n=_short(problem.n, bn), k=_short(problem.k, _DEEPEST))
    if refusal(variant.spec.signature, small):  # it takes one extent for all
        side = _short(problem.m, math.lcm(bm, bn, _DEEPEST))
        small = problem.with_(m=side, n=side, k=side)
    return small


def _short(extent: int, period: int) -> int:
    """The least extent of more than one period with the same rest; the whole extent where that is no more."""
    return min(extent, period + extent % period)


def _verified(variant: Variant, problem: Problem, bench: Workbench) -> Verdict:
    small = small_problem(variant, problem)
    key = str(small), variant.text, problem.dtype

    def judge(c: str) -> Verdict:
        return verify_launch(SimDevice(bench.arch), variant.spec, variant.config, small, compile_fn=bench.compiler,
                             mode="exact", c=c)  # fmt: skip

    if key not in bench.verdicts:
        bench.verdicts[key] = leniently(judge, is_lenient(variant.spec, "", False), "")[0]
    return bench.verdicts[key]


def _counts(found: Profile) -> Pairs:
    """The profile's metrics, then what a sweep compares: ratios to the multiply-adds of a warp."""
    ffma = found.value(FFMA) / 32
    mix = dict(found.machine_mix)
    arithmetic = mix.get(MULTIPLY_ADD, 0)

    def per_thousand(count: float) -> float:
        return 1000 * count / ffma if ffma else math.nan

    wavefronts = {op: found.wavefronts(op) for op in ("ld", "st", "ldgsts")}

    def share(*ops: str) -> float:
        total = sum(wavefronts[op] for op in ops)
        return sum(found.value(CONFLICTS[op]) for op in ops) / total if total else 0.0

    derived = {
        "instructions_per_ffma": sum(mix.values()) / arithmetic if arithmetic else math.nan,
        "wavefronts_per_kffma": per_thousand(sum(wavefronts.values())),
        "load_conflicts": share("ld"), "store_conflicts": share("st", "ldgsts"),
        "sectors_per_kffma": per_thousand(found.sectors("ld") + found.sectors("st")),
        "global_requests_per_kffma": per_thousand(found.requests("ld") + found.requests("st")),
        "barriers_per_kffma": per_thousand(found.barriers),
    }  # fmt: skip
    return (*found.metrics, *derived.items())
