"""What the points of a sweep share: a GPU to predict for, a compiler, verdicts and machine code by point."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gemmsmith.bench.arithmetic import arithmetic
from gemmsmith.bench.kernel_contender import source_digest
from gemmsmith.call.binding import CompileFn, aligned_code, aligned_config
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import CompileError, GemmsmithError, UsageError
from gemmsmith.explain.occupancy import Occupancy, occupancy, waves
from gemmsmith.gpus import GPU
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import DType, Problem
from gemmsmith.run.contender import Identity
from gemmsmith.shapes import Shape
from gemmsmith.store.results import Pairs
from gemmsmith.sweep.families import Variant
from gemmsmith.verify.cases import tile_of
from gemmsmith.verify.verdict import Verdict


@dataclass
class Workbench:
    """One sweep's GPU and compiler. Points that differ only in size share a verdict and a listing.

    version   of gemmsmith, for records
    """

    gpu: GPU
    arch: str
    compiler: CompileFn
    version: str = ""
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

    def occupancy(self, compiled: CompiledKernel, threads: int, dynamic: int) -> Occupancy:
        used = compiled.resources
        return occupancy(self.gpu, threads=threads, registers=used.registers, static_smem=used.static_smem,
                         dynamic_smem=dynamic, barriers=used.barriers)  # fmt: skip

    def wave_shape(self, variant: Variant, wanted: float, shape: Shape) -> Shape:
        """About ``wanted`` waves of whole tiles, nearly square; a fraction of a wave is never rounded away."""
        problem = Problem(*shape, dtype=variant.spec.dtypes[0])
        geometry = self.geometry(variant, problem)
        found = self.occupancy(self.compiled(variant, problem), geometry.threads, geometry.smem)
        if not found.fits:
            raise UsageError(found.why)
        capacity = self.gpu.sms * found.blocks_per_sm
        across = max(n for n in range(1, math.isqrt(capacity) + 1) if capacity % n == 0)
        rows_per_wave = capacity // across
        rows, full = round(wanted * rows_per_wave), round(wanted)
        if rows == full * rows_per_wave and wanted != full:
            rows += 1 if wanted > full else -1
        bm, bn, _ = tile_of(variant.spec, variant.config)
        return bm * max(1, rows), bn * across, shape[2]

    def identity(self, variant: Variant, problem: Problem, compiled: CompiledKernel) -> Identity:
        kind = "rung" if variant.spec.is_rung else "file"
        fitted = aligned_config(variant.spec, variant.config, problem)
        digest = source_digest(variant.spec, fitted, problem, compiled.arch)
        multiplies_in = variant.spec.arithmetic or arithmetic(compiled)
        return Identity(variant.spec.name, kind, variant.text, multiplies_in, self.version, digest)


def resources(compiled: CompiledKernel, found: Occupancy, blocks: int, gpu: GPU) -> Pairs:
    """What a kernel uses, by ptxas, and the predicted occupancy and waves."""
    used = compiled.resources
    filled = waves(gpu, blocks, found.blocks_per_sm) if found.fits else None
    return (
        ("registers", used.registers), ("smem_bytes", found.static_smem + found.dynamic_smem),
        ("spill_bytes", used.spill_stores + used.spill_loads), ("threads", found.threads),
        ("blocks_per_sm", found.blocks_per_sm), ("occupancy", found.fraction), ("grid_blocks", blocks),
        ("waves", filled.waves if filled else math.nan),
        ("wave_efficiency", filled.efficiency if filled else math.nan),
    )  # fmt: skip


def reasons_of(error: GemmsmithError) -> tuple[str, ...]:
    """What went wrong, and the compiler's first error message."""
    log = error.log if isinstance(error, CompileError) else ""
    complaint = next((line.strip() for line in log.splitlines() if "error" in line.lower()), "")
    return tuple(filter(None, (error.message, complaint)))
