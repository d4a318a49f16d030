"""Fills: seeded, never constant, never symmetric, and exact where they claim to be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gemmsmith.errors import DTypeError, ProblemError, UsageError
from gemmsmith.fills import EXACT_LIMIT, FILLS, LARGEST_INTEGER, fill_named, integer_bound, is_exact, operands
from gemmsmith.problem import BF16, FP16, FP32, INT8, INT32, TF32, DType, Problem

FLOATS = (FP32, FP16, BF16, TF32)

PAIRS = [(fill, dtype) for fill in FILLS for dtype in FLOATS if fill != "bits" or dtype == FP32]
# The zeros are what these fills are for.
DENSE = [pair for pair in PAIRS if pair[0] not in ("zero sums", "zero runs")]


@pytest.mark.parametrize(("fill", "dtype"), PAIRS, ids=str)
def test_shapes_types_and_seeds(fill: str, dtype: DType) -> None:
    problem = Problem(40, 30, 20, dtype, trans_a=True, beta=1.0)
    one, same, other = (operands(problem, fill, seed) for seed in (3, 3, 4))
    assert (one.a.shape, one.b.shape, one.c.shape) == ((20, 40), (20, 30), (40, 30))
    assert (one.a.dtype, one.b.dtype, one.c.dtype) == (dtype.numpy, dtype.numpy, np.float32)
    for name in ("a", "b", "c"):
        assert getattr(one, name).tobytes() == getattr(same, name).tobytes()
        assert getattr(one, name).tobytes() != getattr(other, name).tobytes()


@pytest.mark.parametrize(("fill", "dtype"), DENSE, ids=str)
def test_no_fill_is_symmetric_or_constant(fill: str, dtype: DType) -> None:
    """Not constant, not symmetric, no repeated row or column, A differs from B and C, and almost no zeros."""
    data = operands(Problem(32, 32, 32, dtype, beta=1.0), fill, 1)
    a, b, c = (x.view(f"<u{x.dtype.itemsize}").astype(np.int64) for x in (data.a, data.b, data.c))
    for x in (a, b, c):
        assert (x != x.T).mean() > 0.8
        assert len(np.unique(x, axis=0)) == len(np.unique(x, axis=1)) == 32
        assert (x == 0).mean() < 0.02
        for flipped in (x[::-1], x[:, ::-1], np.roll(x, 1, axis=0), np.roll(x, 1, axis=1)):
            assert (x != flipped).mean() > 0.8
    for x, y in itertools.combinations((a, b, c), 2):
        assert (x != y).mean() > 0.8


def test_normal_is_zero_mean_and_uniform_is_positive() -> None:
    problem = Problem(200, 200, 200, beta=1.0)
    normal = operands(problem, "normal", 0).a.astype(np.float64)
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    for dtype in FLOATS:
        uniform = operands(problem.with_(dtype=dtype), "uniform", 0).a.astype(np.float64)
        assert uniform.min() >= 0
        assert uniform.max() < 1
        assert abs(uniform.mean() - 0.5) < 0.02


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("k", [0, 1, 17, 1000, 16384, 2**20, 2**24 - 128])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (2.0, -1.0), (-3.0, 100.0)])
def test_integer_sums_stay_exact(dtype: DType, k: int, alpha: float, beta: float) -> None:
    problem = Problem(2, 2, k, dtype, alpha=alpha, beta=beta)
    if abs(alpha) * k + abs(beta) * LARGEST_INTEGER > EXACT_LIMIT:
        with pytest.raises(ProblemError, match="cannot be exact"):
            integer_bound(problem)
        return
    bound = integer_bound(problem)
    assert 1 <= bound <= LARGEST_INTEGER
    assert abs(alpha) * k * bound**2 + abs(beta) * LARGEST_INTEGER < 2**24
    if k > 2**15:
        return
    data = operands(problem, "integers", 2)
    for x, largest in ((data.a, bound), (data.b, bound), (data.c, LARGEST_INTEGER)):
        wide = x.astype(np.float64)
        assert (wide == np.trunc(wide)).all()
        assert (wide != 0).all()
        assert np.abs(wide).max(initial=0) <= largest


def test_the_integer_bound_is_not_needlessly_small() -> None:
    assert integer_bound(Problem(1, 1, 64)) == LARGEST_INTEGER
    k = 20_000
    bound = integer_bound(Problem(1, 1, k))
    assert k * (bound + 1) ** 2 > EXACT_LIMIT


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
def test_wide_spans_magnitudes_and_stays_finite(dtype: DType) -> None:
    data = operands(Problem(100, 100, 100, dtype), "wide", 0)
    exponents = np.log2(np.abs(data.a.astype(np.float64)))
    assert np.isfinite(exponents).all()
    assert exponents.max() - exponents.min() > (15 if dtype == FP16 else 40)
    assert 0.4 < (data.a.astype(np.float64) > 0).mean() < 0.6


def test_subnormal_products_are_around_the_smallest_normal() -> None:
    data = operands(Problem(50, 50, 50, beta=1.0), "subnormal", 0)
    products = np.abs(data.a.astype(np.float64) * data.b.astype(np.float64))
    assert (products < 2.0**-126).mean() > 0.2
    assert (products > 2.0**-149).all()
    assert (np.abs(data.c) < 2.0**-126).mean() > 0.2


def test_specials_are_few_and_of_every_kind() -> None:
    found: set[str] = set()
    for seed in range(40):
        data = operands(Problem(32, 32, 32, beta=1.0), "specials", seed)
        for x in (data.a, data.b, data.c):
            strange = x[~(np.isfinite(x) & (np.abs(x) > 1e-30))]
            assert strange.size <= 3
            found |= {str(value) for value in strange}
    assert {"nan", "inf", "-inf", "0.0", "-0.0"} <= found


def test_bits_include_all_patterns_even_signalling_nans() -> None:
    bits = operands(Problem(500, 500, 500), "bits", 0).a.view(np.uint32)
    exponent_all_ones = bits & 0x7F800000 == 0x7F800000
    signalling = exponent_all_ones & (bits & 0x00400000 == 0) & (bits & 0x003FFFFF != 0)
    assert signalling.sum() > 100
    assert abs((bits & 1).mean() - 0.5) < 0.01


@pytest.mark.parametrize("shape", [(0, 4, 4), (4, 0, 4), (4, 4, 0), (1, 1, 1)])
@pytest.mark.parametrize("fill", FILLS)
def test_empty_and_tiny(fill: str, shape: tuple[int, int, int]) -> None:
    problem = Problem(*shape, beta=1.0)
    data = operands(problem, fill, 0)
    assert (data.a.shape, data.b.shape, data.c.shape) == (problem.a_shape, problem.b_shape, problem.c_shape)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: fill_named("zeros"), UsageError, "unknown fill 'zeros'"),
        (lambda: fill_named(None), UsageError, "unknown fill None"),
        (lambda: operands(Problem(1, 1, 1), "ones"), UsageError, "unknown fill 'ones'"),
        (lambda: operands(Problem(1, 1, 1), "normal", -1), UsageError, "seed must be"),
        (lambda: operands(Problem(1, 1, 1), "normal", 1.5), UsageError, "seed must be"),
        (lambda: operands(Problem(1, 1, 1), "normal", True), UsageError, "seed must be"),
        (lambda: operands(Problem(1, 1, 1, FP16), "bits"), DTypeError, "'bits' is for fp32, not fp16"),
        (lambda: operands(Problem(1, 1, 2**24), "integers"), ProblemError, "cannot be exact"),
        (lambda: operands(Problem(1, 1, 1, alpha=2.0**30), "integers"), ProblemError, "cannot be exact"),
        (lambda: operands(Problem(1, 1, 1, beta=2.0**20), "integers"), ProblemError, "cannot be exact"),
    ],
)
def test_wrong_use(call: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("fill", ["normal", "uniform", "integers"])
@pytest.mark.parametrize("out", [FP32, INT32, INT8], ids=str)
def test_integers_for_integer_types(fill: str, out: DType) -> None:
    made = operands(Problem(40, 50, 60, INT8, out, bias="column"), fill)
    assert made.a.dtype == np.int8
    assert made.c.dtype == out.numpy
    assert made.bias is not None
    assert made.bias.shape == (50,)
    assert made.bias.dtype == out.numpy
    assert np.count_nonzero(made.a) > 0.9 * made.a.size
    assert len(np.unique(made.a)) > 1


@pytest.mark.parametrize("fill", ["wide", "subnormal", "specials", "bits"])
def test_fills_that_are_not_for_integers(fill: str) -> None:
    with pytest.raises(DTypeError, match="int8"):
        operands(Problem(4, 4, 4, INT8), fill)


def test_the_matrices_of_a_batch_are_stacked() -> None:
    made = operands(Problem(3, 4, 5, batch=6, stride_a=0))
    assert (made.a.shape, made.b.shape, made.c.shape) == ((3, 5), (30, 4), (18, 4))
    assert made.bias is None
    assert not np.array_equal(made.b[:5], made.b[5:10])


def test_opposites_cancel_to_small_sums_of_large_partial_sums() -> None:
    data = operands(Problem(6, 5, 801, FP16, FP16), "opposites", 0)
    products = data.a.astype(np.float64)[:, :, None] * data.b.astype(np.float64)[None]
    assert np.abs(products.cumsum(axis=1)).max() > 65_504
    assert np.abs(products.sum(axis=1)).max() < 65_504
    assert products[:, :800].sum(axis=1) == pytest.approx(np.broadcast_to(data.a[:, :1].astype(np.float64), (6, 5)))


def test_integers_to_a_k_have_zeros_from_there_on() -> None:
    data, whole = (operands(Problem(4, 4, 20), fill, 3) for fill in ("integers to 16", "integers"))
    assert np.array_equal(data.a[:, :16], whole.a[:, :16])
    assert not data.a[:, 16:].any()
    assert not data.b[16:].any()
    assert is_exact("integers to 16")
    assert not is_exact("normal")
