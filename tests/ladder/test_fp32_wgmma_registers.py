"""fp32_wgmma_registers on the simulator: layouts, edges, split K, unaligned rows, and numbers that bf16 cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import gemmsmith
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import disassemble
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.verify.oracles.bounds import accuracy

NAME = "fp32_wgmma_registers"
SPEC = rung_named(NAME)
SMALL = {"BM": 64, "BN": 16, "STAGES": 2}
Array = NDArray[np.float32]


def operands(m: int, n: int, k: int, layout: str, seed: int = 0) -> tuple[Array, Array]:
    dice = np.random.default_rng(seed)
    a = dice.standard_normal((m, k) if layout[0] == "N" else (k, m), np.float32)
    b = dice.standard_normal((k, n) if layout[1] == "N" else (n, k), np.float32)
    return a if layout[0] == "N" else a.T, b if layout[1] == "N" else b.T


def largest_error(got: Array, a: Array, b: Array) -> float:
    exact, scale = a.astype(float) @ b.astype(float), np.abs(a).astype(float) @ np.abs(b).astype(float)
    return float(np.max(np.abs(got - exact) / (accuracy("fp32", a.shape[1]).unit * scale)))


@pytest.mark.parametrize(("m", "n", "k", "layout", "changes"), [
    (80, 24, 136, "NN", {}), (68, 20, 100, "NN", {"SWAP": 1, "SPLIT": 2}), (24, 80, 136, "NT", {"SWAP": 1}),
    (68, 20, 100, "TT", {"SPLIT": 2}), (77, 15, 131, "TN", {}), (33, 70, 77, "NT", {"SWAP": 1, "SPLIT": 2}),
    (33, 70, 77, "NN", {"SWAP": 1}), (140, 40, 200, "NN", {"BM": 128, "BN": 48, "STAGES": 3, "SPLIT": 4}),
    (130, 30, 72, "TN", {"BM": 128, "BN": 32, "COMPENSATED": 0}), (70, 60, 200, "NT", {"BN": 64}),
])  # fmt: skip
def test_products_are_as_accurate_as_fp32(m: int, n: int, k: int, layout: str, changes: dict[str, int]) -> None:
    a, b = operands(m, n, k, layout)
    got = gemmsmith.gemm(a, b, kernel=NAME, config=SMALL | changes)
    assert largest_error(got, a, b) < 3


def test_a_batch_with_beta_and_a_bias() -> None:
    dice = np.random.default_rng(1)
    a, b = dice.standard_normal((2, 72, 40), np.float32), dice.standard_normal((40, 20), np.float32)
    c, bias = dice.standard_normal((2, 72, 20), np.float32), dice.standard_normal(20, np.float32)
    got = gemmsmith.gemm(a, b, c, alpha=0.5, beta=2.0, bias=bias, kernel=NAME, config=SMALL | {"SPLIT": 2})
    np.testing.assert_allclose(got, 0.5 * (a.astype(float) @ b) + 2.0 * c + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("split", [1, 2])
def test_numbers_beyond_bf16_and_not_finite_ones_follow_ieee(split: int) -> None:
    a, b = operands(70, 12, 70, "NN", 2)
    a[3, 5], a[9, 69], b[7, 4], a[20, 0], b[0, 2] = np.inf, np.nan, -np.inf, 3e38, 2e-3
    got = gemmsmith.gemm(a, b, kernel=NAME, config=SMALL | {"SPLIT": split})
    with np.errstate(all="ignore"):
        exact = a.astype(float) @ b.astype(float)
    assert np.array_equal(np.isnan(got), np.isnan(exact))
    infinite = np.isinf(exact)
    assert np.array_equal(got[infinite], exact[infinite].astype(np.float32))
    finite = np.isfinite(exact) & np.isfinite(got)
    np.testing.assert_allclose(got[finite], exact[finite], rtol=1e-4, atol=1e-4)


def test_subnormals_are_kept() -> None:
    a, b = operands(66, 12, 66, "NN", 3)
    a *= np.float32(1e-38)
    got = gemmsmith.gemm(a, b, kernel=NAME, config=SMALL)
    exact = a.astype(float) @ b.astype(float)
    assert np.max(np.abs(got - exact)) <= 70 * 2.0**-149


@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_the_large_operand_is_loaded_by_tma_and_split_without_spills(layout: str) -> None:
    problem = Problem(64, 8192, 8192, trans_b=layout[1] == "T")
    for changes in ({"SWAP": 1, "SPLIT": 2}, {"SWAP": 1, "BN": 128, "STAGES": 2, "COMPENSATED": 0}):
        compiled = compile_for(SPEC, SPEC.config(changes), problem, "sm_90")
        used, code = compiled.resources, disassemble(compiled)
        assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)
        assert "warning" not in compiled.log
        assert len([i for i in code.instructions if i.base == "HGMMA"]) == 6 * 4, "six products, four steps of k"
        assert len([i for i in code.instructions if i.base == "HGMMA" and "!UPT" in i.text]) == 2, "each half from zero"
        assert code.counts["UTMALDG"] > 0
        assert "LDGSTS" not in code.counts
