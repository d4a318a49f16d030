"""Kernels that stand in for rungs at first calls give their bits, in every configuration and layout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rung_launch import bits, launched

from gemmsmith.compile.render import render_for
from gemmsmith.fills import Operands
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.registry import rung_named
from gemmsmith.ladder.stand_in import stand_in
from gemmsmith.problem import BF16, FP32, Problem

REGISTERS, SPLIT_BEFORE = rung_named("fp32_wgmma_registers"), rung_named("fp32_wgmma_bf16x6")
SIMT, CLUSTER, SPLIT_K = rung_named("simt_best"), rung_named("wgmma_cluster"), rung_named("wgmma_split_k")
SMALL = dict(SIMT.small)


def operands(problem: Problem, special: bool = False) -> Operands:
    rng = np.random.default_rng(7)

    def matrix(shape: tuple[int, int]) -> np.ndarray:
        scale = np.exp2(rng.integers(-12, 13, shape)).astype(np.float32)
        return rng.standard_normal(shape).astype(np.float32) * scale

    a, b, c = (matrix(shape) for shape in (problem.a_shape, problem.b_shape, problem.c_shape))
    if special:
        a[0, 0], a[-1, -1], b[0, -1] = np.inf, 1e38, np.nan
    kind, out = problem.dtype.numpy, problem.out_dtype.numpy
    return Operands(a.astype(kind), b.astype(kind), c.astype(out))


CASES = [
    (REGISTERS, {"BM": 64, "BN": 16, "STAGES": 2, "SPLIT": 2, "SWAP": 1}, "NT"),
    (REGISTERS, {"BM": 64, "BN": 16, "STAGES": 2, "SPLIT": 8, "SWAP": 0}, "TN"),
    (REGISTERS, {"BM": 64, "BN": 16, "STAGES": 2, "SPLIT": 1, "SWAP": 0, "COMPENSATED": 0}, "NN"),
    (REGISTERS, {"BM": 64, "BN": 96, "STAGES": 2, "SPLIT": 4, "SWAP": 1, "COMPENSATED": 0}, "TT"),
    (REGISTERS, {"BM": 192, "BN": 32, "STAGES": 2, "SPLIT": 1, "SWAP": 0, "COMPENSATED": 1}, "NT"),
    (SPLIT_BEFORE, {"BM": 64, "BN": 64, "STAGES": 3, "CONSUMERS": 1, "GROUP": 2}, "NT"),
    (SPLIT_BEFORE, {"BM": 64, "BN": 64, "STAGES": 3, "CONSUMERS": 1, "BLOCKED_SUMS": 0}, "TN"),
    (SPLIT_K, {"BM": 64, "BN": 16, "STAGES": 2, "SPLIT": 2, "SWAP": 1, "DEPTH": 2}, "NT"),
    (SPLIT_K, {"BM": 64, "BN": 16, "STAGES": 2, "SPLIT": 4}, "TN"),
    (SPLIT_K, {"BM": 64, "BN": 16, "STAGES": 2, "SPLIT": 1, "SWAP": 1, "UNALIGNED_OPERANDS": 1}, "NN"),
    (CLUSTER, dict(CLUSTER.small), "NT"),
    (CLUSTER, {**dict(CLUSTER.small), "CLUSTER_M": 1, "SLICES": 3}, "NT"),
    (CLUSTER, {**dict(CLUSTER.small), "CLUSTER_M": 1, "CLUSTER_K": 2}, "NN"),
    (SIMT, {}, "NN"),
    (SIMT, SMALL, "NT"),
    (SIMT, {**SMALL, "SHARERS": 3}, "TN"),
    (SIMT, {**SMALL, "SHARERS": 2, "TEAMS": 2}, "NN"),
    (SIMT, {**SMALL, "TEAMS": 2, "CLUSTER_K": 4}, "TT"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "changes", "layout"), CASES, ids=lambda value: str(getattr(value, "name", value)))
def test_it_has_the_bits_of_the_rung(spec, changes, layout) -> None:  # type: ignore[no-untyped-def]
    m, n = 19 if changes.get("SWAP") else 37, 70
    k = 400 if "DEPTH" in changes else 200  # 7 k-tiles, which stages of two divide otherwise than stages of one
    k = 1100 if spec is SPLIT_BEFORE else k  # two blocks of 8 k-tiles, and a part of one
    kind = FP32 if FP32 in spec.dtypes else BF16
    problem = Problem(m, n, k, dtype=kind, trans_a=layout[0] == "T", trans_b=layout[1] == "T", alpha=1.5, beta=0.5)
    config, data = spec.config(changes), operands(problem, special=layout == "NT")
    other = stand_in(spec, config, problem, resident=16)
    assert other is not None
    expected = launched(spec, config, problem, data)
    found = launched(other, other.config(), problem, data)
    np.testing.assert_array_equal(bits(found), bits(expected))


def test_without_k_or_alpha_nothing_is_read() -> None:
    for k, alpha in ((0, 1.0), (100, 0.0)):
        problem = Problem(5, 7, k, dtype=FP32, alpha=alpha, beta=0.5)
        config, data = REGISTERS.config({"SPLIT": 2}), operands(problem)
        other = stand_in(REGISTERS, config, problem)
        assert other is not None
        np.testing.assert_array_equal(launched(other, other.config(), problem, data), data.c * np.float32(0.5))


def test_a_kernel_serves_every_configuration_and_layout() -> None:
    problem = Problem(64, 64, 64, dtype=FP32)
    requests = set()
    for trans_a in (False, True):
        for trans_b in (False, True):
            for spec, changes, _ in CASES:
                kind = FP32 if FP32 in spec.dtypes else BF16
                each = replace(problem, trans_a=trans_a, trans_b=trans_b, dtype=kind, out_dtype=kind)
                other = stand_in(spec, spec.config(changes), each, resident=16)
                assert other is not None
                requests.add(render_for(other, other.config(), each, "sm_90"))
    assert len(requests) == len(("wgmma_plain", "fp32_split", "fp32_fma"))


def test_other_rungs_and_large_products_have_none() -> None:
    assert stand_in(rung_named("warp_tile"), Config(()), Problem(1, 1, 1)) is None
    assert stand_in(SIMT, SIMT.config(), Problem(8192, 8192, 8192)) is None
    sliced = CLUSTER.config({**dict(CLUSTER.small), "CLUSTER_M": 1, "SLICES": 3})
    problem = Problem(512, 64, 512, BF16, BF16)
    assert stand_in(CLUSTER, sliced, problem, resident=24) is not None
    assert stand_in(CLUSTER, sliced, problem, resident=23) is None  # the kernel may have no slices then
