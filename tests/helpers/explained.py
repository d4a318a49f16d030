"""Profiles and diagnoses that several tests share: profiles are computed once per test run, the rest per process."""

from __future__ import annotations

from functools import cache

from shared_results import shared

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_kernel
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.explain.diagnosis import Diagnosis, diagnose
from gemmsmith.explain.profile import Profile
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import DTYPES, Problem

LADDER = ("naive", "coalesced", "shared_tile", "register_block", "block_tile_1d", "block_tile_2d", "vectorized",
          "padded", "rectangular", "warp_tile", "async_copy", "warp_tile_mixed")  # fmt: skip


@cache
def compiled(name: str, arch: str = "sm_90", dtype: str = "") -> CompiledKernel:
    spec = rung_named(name)
    return compile_kernel(spec, spec.config(), dtype=DTYPES[dtype] if dtype else spec.dtypes[0], arch=arch)


@cache
def sass(name: str, arch: str = "sm_90", dtype: str = "") -> Sass:
    return disassemble(compiled(name, arch, dtype))


@cache
def profiled(name: str, m: int, n: int, k: int, sample: int = 0, depth: int = 0, arch: str = "sm_90",
             dtype: str = "") -> Profile:  # fmt: skip
    spec = rung_named(name)
    problem = Problem(m, n, k, dtype=DTYPES[dtype] if dtype else spec.dtypes[0])
    return shared(
        ("profiled", name, problem, sample, depth, arch),
        lambda: simulate(spec, spec.config(), problem, compiled(name, arch, dtype), sample=sample, depth=depth,
                         sass=sass(name, arch, dtype)),
    )  # fmt: skip


@cache
def diagnosed(name: str, gpu: str = "H200") -> Diagnosis:
    """At 4096³, extrapolated from one block and K up to 128."""
    chosen = gpu_named(gpu)
    arch = f"sm_{chosen.arch}"
    return diagnose(profiled(name, 4096, 4096, 4096, 1, 64, arch), sass(name, arch), chosen)
