"""How the ladder's tests run a rung: in its small configuration, in guarded memory, on exactly the operands given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
from fp32_tensor_rule import fp32_tensor_reference
from lane_sums_rule import lane_sums_reference
from ptx_only import compile_to_ptx
from shared_sums_rule import shared_sums_reference
from split_fp16_rule import fp16x3_reference
from tensor_core_rule import tensor_core_reference

from gemmsmith.call.binding import CompileFn, bind, workspace_bytes
from gemmsmith.cli.compiler import Compiler
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.target import arch_number
from gemmsmith.fills import Array, Operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named, simulated_rungs
from gemmsmith.problem import FP32, DType, Problem
from gemmsmith.prologue.split_fp16 import split_fp16_prologue
from gemmsmith.run.memory import Damage, GuardedMatrix
from gemmsmith.shapes import Shape
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.cases import tile_of
from gemmsmith.verify.harness import SIMULATOR_GUARD_BYTES, verify_launch
from gemmsmith.verify.oracles.fma import ordered_fma_reference
from gemmsmith.verify.verdict import Verdict

# Those of Hopper have their own suite: test_hopper_rungs.py.
PORTABLE = tuple(spec for spec in simulated_rungs() if not spec.arch_specific)
RUNGS = tuple(spec.name for spec in PORTABLE)
FP32_RUNGS = tuple(spec.name for spec in PORTABLE if spec.dtypes[0].name == "fp32" and not spec.tensor_cores)
# Those with a single launch last: some suites run all their cases on the last one only.
TENSOR_RUNGS = tuple(spec.name for spec in sorted(PORTABLE, key=lambda s: s.prologue is None) if spec.tensor_cores)

assembling = Compiler()


def compiler(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
    """Defaults and presets are compiled as users compile them; broken rungs and small configurations only to PTX.

    Other configurations are assembled where they are sampled (test_presets.py), and in every type and layout of tensor
    cores (test_tensor_core_rungs.py).
    """
    ours = spec.source.parent == rung_named("naive").source.parent
    known = ours and any(_tiles(config) == _tiles(c) for c in (spec.config(), *(p.config for p in spec.presets)))
    return (assembling if known else compile_to_ptx)(spec, config, problem, arch)


def _tiles(config: Config) -> dict[str, int]:
    """Without ALIGNED, which follows from the operands."""
    return {name: value for name, value in config.values if name != "ALIGNED"}


def small(name: str) -> tuple[KernelSpec, Config]:
    """The rung in its small configuration, with a fallback in its own."""
    spec = rung_named(name)
    if spec.arithmetic == "fp16x3":
        spec = replace(spec, prologue=split_fp16_prologue(*small("fp32_tensor_bf16x6")))
    return spec, spec.small_config()


def tile(name: str) -> Shape:
    """BM, BN and BK of the small configuration; the first rungs have TILE for all three."""
    spec, config = small(name)
    bm, bn, bk = tile_of(spec, config)
    return bm, bn, dict(config.values).get("TILE", bk)


def problem_of(name: str, shape: Shape) -> Problem:
    """A problem of that shape in the rung's first element type."""
    return Problem(*shape, dtype=rung_named(name).dtypes[0])


def aligned(problem: Problem, multiple: int = 8) -> Problem:
    """The same with leading dimensions on 16 bytes, so that whole tiles take the vector path."""
    lda, ldb, ldc = (-(-ld // multiple) * multiple for ld in (problem.lda, problem.ldb, problem.ldc))
    return replace(problem, lda=lda, ldb=ldb, ldc=ldc)


def verified(spec: KernelSpec, config: Config, problem: Problem, *, device: SimDevice | None = None,
             mode: str = "bits", fill: str | None = None, seed: int = 0,
             offsets: tuple[int, int, int] = (0, 0, 0), compile_fn: CompileFn = compiler) -> Verdict:  # fmt: skip
    """One launch through the harness; the assertion shows the verdict, which says how to repeat it.

    In mode 'bits', tensor cores must give the bits of their own order of summation.
    """
    with ExitStack() as stack:
        device = device or SimDevice()
        if mode == "bits":
            where = on_alignment(spec, config, problem, offsets) if spec.name == "gemv" else config
            rule = rule_of(spec, device.arch, dict(config).get("PROMOTE", 0), where)
            stack.enter_context(patch("gemmsmith.verify.oracles.compare.ordered_fma_reference", rule))
        verdict = verify_launch(device, spec, config, problem, compile_fn=compile_fn, mode=mode,
                                fill=fill, seed=seed, offsets=offsets)  # fmt: skip
    assert verdict.trusted, str(verdict)
    return verdict


def rule_of(
    spec: KernelSpec, arch: str = "sm_90", promote: int = 16, config: Config | None = None
) -> Callable[[Problem, Array, Array, Array], Array]:
    """How a rung accumulates, written independently of it."""
    values = dict(config or ())
    if spec.name == "gemv":
        return partial(lane_sums_reference, config=config or spec.small_config())
    parts = 1 if spec.tensor_cores else values.get("CLUSTER_K", 1)
    if values.get("SHARERS", 0) > 0 or values.get("TEAMS", 1) > 1 or parts > 1:
        return partial(shared_sums_reference, config=config)
    if not spec.tensor_cores:
        return ordered_fma_reference
    if spec.dtypes == (FP32,):
        return partial(fp16x3_reference if spec.arithmetic == "fp16x3" else fp32_tensor_reference, promote=promote)
    return partial(tensor_core_reference, arch=arch_number(arch))


def on_alignment(spec: KernelSpec, config: Config, problem: Problem, offsets: tuple[int, int, int] = (0, 0, 0)
                 ) -> Config:  # fmt: skip
    """The configuration for matrices that start so many elements beyond an aligned address."""
    a, b, c = (offset * problem.dtype.itemsize for offset in offsets)
    return spec.specialize(config, problem, (a, b, c))


def expected_bits(spec: KernelSpec, problem: Problem, data: Operands, config: Config | None = None) -> Array:
    """C as the rung must compute it: fma in the order of k, or the rule of tensor cores. The order of gemv depends on
    the configuration, by default the small one for such operands."""
    if spec.name == "gemv":
        config = config or on_alignment(spec, spec.small_config(), problem)
    return bits(rule_of(spec, config=config)(problem, data.a, data.b, data.c))


def launched(spec: KernelSpec, config: Config, problem: Problem, data: Operands) -> Array:
    """C after one product of exactly these operands; nothing else may change.

    Forbidden reads fault: C if beta is 0, A and B if alpha is 0.
    """
    device = SimDevice()

    def matrix(name: str, shape: tuple[int, int], ld: int, dtype: DType) -> GuardedMatrix:
        created = GuardedMatrix.create(device, shape, ld, dtype, name=name, guard_bytes=SIMULATOR_GUARD_BYTES)
        return stack.enter_context(created)

    with ExitStack() as stack:
        a = matrix("A", problem.a_shape, problem.lda, problem.dtype)
        b = matrix("B", problem.b_shape, problem.ldb, problem.dtype)
        c = matrix("C", problem.c_shape, problem.ldc, problem.out_dtype)
        a.upload(data.a)
        b.upload(data.b)
        c.upload(data.c)
        if problem.beta == 0:
            c.poison()
            device.forbid_reads(c.address, "beta is 0: C must not be read")
        if problem.alpha == 0:
            device.forbid_reads(a.address, "alpha is 0: A must not be read")
            device.forbid_reads(b.address, "alpha is 0: B must not be read")
        addresses = Addresses(a.address, b.address, c.address)
        workspace = device.allocate(workspace_bytes(spec, config, problem, addresses))
        for step in bind(device, spec, config, problem, addresses, workspace, compiler):
            device.launch(step.loaded, step.launch)
            device.synchronize()
        after = c.read_back(is_input=False)
        damage: tuple[Damage, ...] = a.damage(is_input=True) + b.damage(is_input=True) + after.damage
    assert not damage, "; ".join(map(str, damage))
    return after.values


def bits(values: Array) -> Array:
    """fp32 numbers as bit patterns: NaN equals itself, and −0 differs from +0."""
    return np.ascontiguousarray(values, np.float32).view(np.uint32)
