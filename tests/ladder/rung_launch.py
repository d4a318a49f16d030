"""How the ladder's suites run a rung: a small configuration of each, guarded memory, exactly the operands given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
from fp16_parts_rule import fp16x3_reference
from fp32_tensor_rule import fp32_tensor_reference
from ptx_only import compile_to_ptx
from shared_sums_rule import shared_sums_reference
from tensor_core_rule import tensor_core_reference

from gemmsmith.call.binding import CompileFn, bind, workspace_bytes
from gemmsmith.cli.compiler import Compiler
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.render import arch_number
from gemmsmith.fills import Array, Operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.prologue import Addresses
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, simulated_rungs
from gemmsmith.problem import FP32, DType, Problem
from gemmsmith.prologue.split_fp16 import fp16_preparation
from gemmsmith.run.memory import Damage, GuardedMatrix
from gemmsmith.shapes import Shape
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.cases import tile_of
from gemmsmith.verify.fma import ordered_fma_reference
from gemmsmith.verify.harness import SIMULATOR_GUARD_BYTES, verify_launch
from gemmsmith.verify.verdict import Verdict

RUNGS = tuple(spec.name for spec in simulated_rungs())
FP32_RUNGS = tuple(spec.name for spec in simulated_rungs() if spec.dtypes[0].name == "fp32" and not spec.tensor_cores)
# Those of a single launch last: some suites try all they have on the last one alone.
TENSOR_RUNGS = tuple(
    spec.name for spec in sorted(simulated_rungs(), key=lambda s: s.preparation is None) if spec.tensor_cores
)

# The cheapest configurations that still have every part: several warps, several pieces a thread, vectors of full
# width, tiles that are not square where the rung allows it.
SMALL: dict[str, dict[str, int]] = {
    "naive": {"TILE": 8},
    "coalesced": {"TILE": 8},
    "shared_tile": {"TILE": 8},
    "register_block": {"TILE": 16, "SIDE": 2},
    "block_tile_1d": {"BM": 64, "BN": 32, "BK": 8, "TM": 8},
    "block_tile_2d": {"BM": 64, "BN": 32, "BK": 8, "TM": 4, "TN": 4},
    "vectorized": {"BM": 32, "BN": 64, "BK": 16, "TM": 4, "TN": 4, "VEC": 4},
    "padded": {"BM": 64, "BN": 32, "BK": 16, "TM": 4, "TN": 4},
    "rectangular": {"BM": 32, "BN": 64, "BK": 16, "TM": 4, "TN": 8, "UNROLL": 4},
    "warp_tile": {"BM": 64, "BN": 64, "BK": 8, "WM": 64, "WN": 32, "WNITER": 2, "TM": 4, "TN": 4, "UNROLL": 2},
    "async_copy": {"BM": 32, "BN": 64, "BK": 8, "TM": 4, "TN": 8, "UNROLL": 2, "STAGES": 3},
    "warp_tile_mixed": {"BM": 64, "BN": 64, "BK": 8, "WM": 64, "WN": 32, "WNITER": 2, "TM": 4, "TN": 4, "UNROLL": 2},
    "wmma": {"BM": 64, "BN": 64, "BK": 16, "WM": 32, "WN": 32},
    "mma_swizzled": {"BM": 64, "BN": 64, "BK_BYTES": 32, "WM": 32, "WN": 32},
    "mma_pipelined": {"BM": 64, "BN": 64, "BK_BYTES": 64, "WM": 32, "WN": 32, "STAGES": 3, "GROUP": 2},
    "fp32_tensor_bf16x6": {"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 3, "GROUP": 2},
    "simt_best": {"BM": 32, "BN": 64, "BK": 8, "WM": 32, "WN": 32, "TM": 8, "TN": 4, "GROUP": 2},
    "fp32_tensor_fp16x3": {"BM": 64, "BN": 64, "WM": 32, "WN": 32, "GROUP": 2},
}

assembling = Compiler()


def compiler(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
    """Defaults and presets as users compile them; what only these suites have is simulated, and so stays PTX.

    Those are rungs that a test broke, and small configurations. That others assemble, too, is seen where configurations
    are sampled (test_presets.py) and in every type and layout of tensor cores (test_tensor_core_rungs.py).
    """
    ours = spec.source.parent == rung_named("naive").source.parent
    known = ours and any(_tiles(config) == _tiles(c) for c in (spec.config(), *(p.config for p in spec.presets)))
    return (assembling if known else compile_to_ptx)(spec, config, problem, arch)


def _tiles(config: Config) -> dict[str, int]:
    """What was chosen; ALIGNED follows from the operands."""
    return {name: value for name, value in config.values if name != "ALIGNED"}


def small(name: str) -> tuple[KernelSpec, Config]:
    """The rung in its small configuration, and so is the one that computes what it refuses."""
    spec = rung_named(name)
    if spec.arithmetic == "fp16x3":
        spec = replace(spec, preparation=fp16_preparation(*small("fp32_tensor_bf16x6")))
    return spec, spec.config(SMALL.get(name))


def tile(name: str) -> Shape:
    """BM, BN and BK of the small configuration; TILE is all three of the plain rungs."""
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

    Tensor cores have an order of summation of their own: in mode 'bits' they are held to the bits of that.
    """
    with ExitStack() as stack:
        device = device or SimDevice()
        if mode == "bits":
            rule = rule_of(spec, device.arch, dict(config).get("PROMOTE", 0), config)
            stack.enter_context(patch("gemmsmith.verify.compare.ordered_fma_reference", rule))
        verdict = verify_launch(device, spec, config, problem, compile_fn=compile_fn, mode=mode,
                                fill=fill, seed=seed, offsets=offsets)  # fmt: skip
    assert verdict.trusted, str(verdict)
    return verdict


def rule_of(
    spec: KernelSpec, arch: str = "sm_90", promote: int = 16, config: Config | None = None
) -> Callable[[Problem, Array, Array, Array], Array]:
    """How a rung sums, written down independently of it."""
    values = dict(config or ())
    if values.get("SHARERS", 0) > 0 or values.get("TEAMS", 1) > 1:
        return partial(shared_sums_reference, config=config)
    if not spec.tensor_cores:
        return ordered_fma_reference
    if spec.dtypes == (FP32,):
        return partial(fp16x3_reference if spec.arithmetic == "fp16x3" else fp32_tensor_reference, promote=promote)
    return partial(tensor_core_reference, arch=arch_number(arch))


def expected_bits(spec: KernelSpec, problem: Problem, data: Operands) -> Array:
    """C as the rung must compute it: an ordered sum of fma, or the tensor core's rule."""
    return bits(rule_of(spec)(problem, data.a, data.b, data.c))


def launched(spec: KernelSpec, config: Config, problem: Problem, data: Operands) -> Array:
    """C after one launch on exactly these operands, which must be all that changed.

    What must not be read (C where beta is 0, A and B where alpha is 0) faults if it is.
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
    """fp32 numbers as patterns, so that NaN equals itself and −0 differs from +0."""
    return np.ascontiguousarray(values, np.float32).view(np.uint32)
