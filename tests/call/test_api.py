"""gemm, matmul and kernels on NumPy arrays: results, types, layouts, and the choice of a kernel."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmsmith
from gemmsmith.fills import Array
from gemmsmith.ladder.registry import rungs, simulated_rungs
from gemmsmith.problem import BF16, DTYPES, FP16, FP32

TINY = {"TILE": 8}


def integers(rows: int, cols: int, seed: int, dtype: Any = np.float32) -> Array:
    """Small non-zero integers, whose products and sums are exact in every order."""
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 9, (rows, cols)) * rng.choice([-1, 1], (rows, cols))).astype(dtype)


def product(a: Array, b: Array) -> Array:
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)


def naive(a: Any, b: Any, c: Any = None, **options: Any) -> Any:
    return gemmsmith.gemm(a, b, c, kernel="naive", config=TINY, **options)


def test_matmul_returns_the_product() -> None:
    a, b = integers(65, 33, 0), integers(33, 17, 1)
    result = gemmsmith.matmul(a, b)
    assert type(result) is np.ndarray
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    assert np.array_equal(result, product(a, b))


def test_kernels_are_the_rungs() -> None:
    found = gemmsmith.kernels()
    assert found == rungs()
    assert [spec.rung for spec in found] == list(range(1, len(found) + 1))


def test_all_names_of_the_package_exist() -> None:
    assert {"gemm", "kernels", "matmul"} <= set(gemmsmith.__all__)
    assert all(hasattr(gemmsmith, name) for name in gemmsmith.__all__)


@pytest.mark.parametrize("spec", simulated_rungs(), ids=lambda spec: spec.name)
def test_every_rung_by_name_and_by_specification(spec: Any) -> None:
    dtype = spec.dtypes[0].numpy
    a, b = integers(35, 9, 2, dtype), integers(9, 34, 3, dtype)
    named = gemmsmith.gemm(a, b, kernel=spec.name)
    assert np.array_equal(named, product(a, b))
    assert np.array_equal(named, gemmsmith.gemm(a, b, kernel=spec, config=spec.config()))


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
def test_every_type_gives_fp32_where_it_is_asked_for(dtype: Any) -> None:
    a, b = integers(9, 40, 4, dtype.numpy), integers(40, 11, 5, dtype.numpy)
    for result in (gemmsmith.gemm(a, b), gemmsmith.matmul(a, b, out_dtype="fp32"),
                   gemmsmith.matmul(a, b, out_dtype=np.float32)):  # fmt: skip
        assert result.dtype == np.float32
        assert np.array_equal(result, product(a, b))


def test_16_bit_inputs_accumulate_in_fp32() -> None:
    a = np.full((1, 300), 1.0, ml_dtypes.bfloat16)
    assert gemmsmith.matmul(a, a.T.copy())[0, 0] == 300  # accumulated in bf16 it would stop at 256


# --- layouts


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("kernel", ["naive", "coalesced", None])
def test_transposed_views(kernel: str | None, trans_a: bool, trans_b: bool) -> None:
    a = integers(9, 12, 6).T if trans_a else integers(12, 9, 6)
    b = integers(7, 9, 7).T if trans_b else integers(9, 7, 7)
    config = TINY if kernel else None
    assert np.array_equal(gemmsmith.gemm(a, b, kernel=kernel, config=config), product(a, b))


SLICES = {
    "rows": lambda x: x[2:11],
    "columns": lambda x: x[:9, 3:12],
    "every second row": lambda x: x[:18:2, :9],
    "transposed columns": lambda x: x[3:12, :9].T,
    "unaligned": lambda x: x[1:10, 1:10],
    "row-major fortran": lambda x: np.asfortranarray(x[:9, :9]),
    "one column": lambda x: x[:9, 4:5],
    "one row": lambda x: x[4:5, :9],
    "np.matrix": lambda x: x[:9, :9].view(np.matrix),
}


@pytest.mark.parametrize("how", SLICES)
def test_views_of_a_larger_matrix(how: str) -> None:
    whole = integers(20, 20, 8)
    before = whole.copy()
    part = SLICES[how](whole)
    other = integers(part.shape[1], 5, 9)
    assert np.array_equal(naive(part, other), product(part, other))
    assert np.array_equal(naive(other.T, part.T), product(other.T, part.T))
    assert np.array_equal(whole, before)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 4, 3), (4, 0, 3), (4, 5, 0), (0, 0, 0), (1, 1, 1), (1, 9, 1)])
def test_empty_and_tiny(m: int, n: int, k: int) -> None:
    a, b, c = integers(m, k, 10), integers(k, n, 11), integers(m, n, 12)
    assert np.array_equal(naive(a, b), product(a, b))
    assert np.array_equal(naive(a, b, c, beta=2), product(a, b) + 2 * c)


# --- c, beta, out


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (2, -1), (0, 3), (-1.5, 0.5), (np.float64(2), np.int32(1))])
def test_alpha_and_beta(alpha: float, beta: float) -> None:
    a, b, c = integers(9, 10, 13), integers(10, 11, 14), integers(9, 11, 15)
    before = c.copy()
    result = naive(a, b, c, alpha=alpha, beta=beta)
    expected = product(a, b) * float(alpha) + c * float(beta)
    assert np.array_equal(result, expected.astype(np.float32))
    assert np.array_equal(c, before)
    assert not np.shares_memory(result, c)


def test_beta_zero_does_not_read_c() -> None:
    a, b = integers(3, 4, 16), integers(4, 5, 17)
    for c in (np.full((3, 5), np.nan, np.float32), None):
        assert np.array_equal(naive(a, b, c, beta=-0.0), product(a, b))


def test_alpha_zero_does_not_read_a_and_b() -> None:
    a, c = np.full((3, 3), np.nan, np.float32), integers(3, 3, 18)
    assert np.array_equal(naive(a, a, c, alpha=0, beta=1), c)


def test_out_is_returned_and_filled() -> None:
    a, b = integers(9, 10, 19), integers(10, 11, 20)
    out = np.full((9, 11), np.nan, np.float32)
    assert naive(a, b, out=out) is out
    assert np.array_equal(out, product(a, b))


def test_out_may_be_part_of_a_larger_matrix() -> None:
    a, b = integers(9, 10, 21), integers(10, 11, 22)
    whole = np.full((12, 20), 7, np.float32)
    out = whole[2:11, 4:15]
    assert naive(a, b, out=out) is out
    assert np.array_equal(out, product(a, b))
    out[:] = 7
    assert (whole == 7).all()


def test_out_may_be_c() -> None:
    a, b, c = integers(9, 10, 23), integers(10, 11, 24), integers(9, 11, 25)
    expected = product(a, b) - 2 * c
    assert naive(a, b, c, beta=-2, out=c) is c
    assert np.array_equal(c, expected)


def test_c_and_out_may_differ() -> None:
    a, b, c = integers(9, 10, 26), integers(10, 11, 27), integers(9, 30, 28)[:, 5:16]
    before, out = c.copy(), np.empty((9, 11), np.float32)
    naive(a, b, c, beta=3, out=out)
    assert np.array_equal(out, product(a, b) + 3 * before)
    assert np.array_equal(c, before)


# --- the choice of a kernel


def test_a_configuration_is_used() -> None:
    """Every legal configuration gives the same result, and an illegal one is refused, so it is not ignored."""
    a, b = integers(40, 20, 29), integers(20, 40, 30)
    for tile in (8, 16, 32):
        assert np.array_equal(gemmsmith.gemm(a, b, kernel="shared_tile", config={"TILE": tile}), product(a, b))
    with pytest.raises(gemmsmith.errors.ConfigError, match="TILE=12"):
        gemmsmith.gemm(a, b, kernel="shared_tile", config={"TILE": 12})


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_a_kernel_is_chosen_if_none_is_named(dtype: str, layout: str) -> None:
    a, b = (integers(6, 6, seed, DTYPES[dtype].numpy) for seed in (31, 32))
    left, right = (a.T if layout[0] == "T" else a), (b.T if layout[1] == "T" else b)
    assert np.array_equal(gemmsmith.matmul(left, right), product(left, right))
