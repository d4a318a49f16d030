"""The error gate: correct fp32 passes, small errors do not, and NaN can only fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gemmsmith.fills import FILLS, operands
from gemmsmith.problem import BF16, FP16, FP32, TF32, DType, Problem, arithmetic_of
from gemmsmith.verify.oracles.bounds import (
    ZERO_MEAN_GATE,
    absolute_floor,
    accuracy,
    error_ratios,
    gate,
    theory,
)
from gemmsmith.verify.oracles.fma import ordered_fma_reference
from gemmsmith.verify.oracles.reference import Reference, float64_reference

BIG = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("fill", ["normal", "uniform", "wide", "subnormal", "integers", "specials"])
@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
@pytest.mark.parametrize("k", [1, 7, 64, 1000, 4096])
def test_correct_sums_pass(fill: str, dtype: DType, k: int) -> None:
    problem = Problem(20, 20, k, dtype, alpha=0.7, beta=-1.3)
    data = operands(problem, fill, k)
    got = ordered_fma_reference(problem, data.a, data.b, data.c)
    ratios = error_ratios(problem, got, float64_reference(problem, data.a, data.b, data.c))
    # Half of the gate: there is room for other orders of summation.
    assert (ratios <= gate(k, FILLS[fill].errors_grow) / 2).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_zero_mean_ratios_do_not_grow(reverse: bool) -> None:
    problem = Problem(12, 12, 16384)
    data = operands(problem, "normal", 5)
    step = -1 if reverse else 1
    got = ordered_fma_reference(problem, data.a[:, ::step], data.b[::step], data.c)
    assert error_ratios(problem, got, float64_reference(problem, data.a, data.b, data.c)).max() <= 4


def test_one_dropped_term_at_k_16384_is_caught_and_theory_would_not() -> None:
    problem = Problem(16, 16, 16384)
    data = operands(problem, "normal", 5)
    reference = float64_reference(problem, data.a, data.b, data.c)
    rng = np.random.default_rng(0)
    dropped = rng.integers(0, problem.k, problem.c_shape)
    rows, columns = np.indices(problem.c_shape)
    terms = data.a[rows, dropped].astype(np.float64) * data.b[dropped, columns]
    ratios = error_ratios(problem, (reference.value - terms).astype(np.float32), reference)
    assert (~(ratios <= gate(problem.k))).mean() > 0.9
    assert (ratios <= theory(problem.k)).mean() > 0.9


@pytest.mark.parametrize(
    ("k", "grows", "expected"),
    [(1, False, 16), (10**6, False, 16), (1, True, 16), (64, True, 16), (256, True, 32), (65536, True, 512)],
)
def test_the_gate(k: int, grows: bool, expected: float) -> None:
    assert gate(k, grows) == expected


def test_theory_is_the_textbook_bound() -> None:
    assert theory(0) == pytest.approx(2)
    assert theory(1000) == pytest.approx(1002, rel=1e-4)
    assert theory(1000) > 1002
    assert theory(2**24) == math.inf


def one(value: float, magnitude: float = 1.0, **changes: object) -> Reference:
    def array(x: object) -> np.ndarray:
        return np.array([[x]])

    fields = {"value": value, "exact": value, "magnitude": magnitude, "may_overflow": False, "undecided": False}
    return Reference(**{name: array(x) for name, x in (fields | changes).items()})


def ratio(got: float, reference: Reference, problem: Problem | None = None) -> float:
    return float(error_ratios(problem or Problem(1, 1, 4), np.float32([[got]]), reference)[0, 0])


@pytest.mark.parametrize("expected", [0.0, 1.0, np.inf, -np.inf])
@pytest.mark.parametrize("changes", [{}, {"may_overflow": True}, {"magnitude": 0.0}, {"magnitude": np.nan}], ids=str)
def test_nan_can_only_fail(expected: float, changes: dict[str, object]) -> None:
    assert not ratio(np.nan, one(expected, **changes)) <= ZERO_MEAN_GATE


CLASSES = [0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("expected", CLASSES)
@pytest.mark.parametrize("got", CLASSES)
def test_classes_must_agree(expected: float, got: float) -> None:
    same = got == expected or (math.isnan(got) and math.isnan(expected))
    assert (ratio(got, one(expected)) <= ZERO_MEAN_GATE) is same


@pytest.mark.parametrize(("ulps", "accepted"), [(0, True), (15.9, True), (16.1, False), (-15.9, True), (-16.1, False)])
def test_the_gate_is_exact(ulps: float, accepted: bool) -> None:
    reference = one(1.0 - ulps * 2.0**-24)
    assert (ratio(1.0, reference) <= ZERO_MEAN_GATE) is accepted


@pytest.mark.parametrize(
    ("got", "accepted"), [(0.0, True), (-0.0, True), (1e-45, False), (1e-30, False), (np.nan, False)]
)
def test_zero_magnitude_requires_zero(got: float, accepted: bool) -> None:
    assert (ratio(got, one(0.0, 0.0)) <= ZERO_MEAN_GATE) is accepted


@pytest.mark.parametrize(("steps", "accepted"), [(0, True), (6, True), (7, False), (2**20, False)])
def test_the_floor_accepts_only_underflow(steps: int, accepted: bool) -> None:
    """K = 4 and alpha = 1 allow (4 + 2)·2**−149; flushing 2**−127 to zero is 2**22 of them."""
    assert absolute_floor(Problem(1, 1, 4)) == 6 * 2.0**-149
    assert (ratio(steps * 2.0**-149, one(0.0, 2.0**-149)) <= ZERO_MEAN_GATE) is accepted


def test_flushing_to_zero_is_caught() -> None:
    problem = Problem(20, 20, 3)
    data = operands(problem, "subnormal", 0)
    got = ordered_fma_reference(problem, data.a, data.b, data.c)
    reference = float64_reference(problem, data.a, data.b, data.c)
    assert (error_ratios(problem, got, reference) <= 16).all()
    flushed = np.where(np.abs(got) < 2.0**-126, np.float32(0), got)
    assert (flushed != got).any()
    assert not (error_ratios(problem, flushed, reference) <= 16).all()


@pytest.mark.parametrize(
    ("value", "exact", "got", "accepted"),
    [
        (np.inf, 2.0**128, np.inf, True), (np.inf, 2.0**128, BIG, True), (np.inf, 2.0**128, -np.inf, False),
        (np.inf, 2.0**128, 2.0**126, False), (np.inf, 2.0**128, np.nan, False), (BIG, BIG, np.inf, True),
        (2.0**100, 2.0**100, -np.inf, True), (2.0**100, 2.0**100, np.nan, False), (np.nan, -np.inf, -np.inf, True),
        (np.nan, -np.inf, np.nan, True), (np.nan, -np.inf, np.inf, False), (np.nan, -np.inf, 0.0, False),
    ],
)  # fmt: skip
def test_at_the_edge_of_overflow(value: float, exact: float, got: float, accepted: bool) -> None:
    reference = one(value, 2.0**128, exact=exact, may_overflow=True)
    assert (ratio(got, reference) <= ZERO_MEAN_GATE) is accepted


@pytest.mark.parametrize(("got", "accepted"), [(np.inf, True), (-np.inf, True), (np.nan, True), (1.0, False)])
def test_undecided_signs(got: float, accepted: bool) -> None:
    assert (ratio(got, one(np.inf, undecided=True)) <= ZERO_MEAN_GATE) is accepted


def test_overflow_in_either_order_is_accepted() -> None:
    """Partial sums may overflow in one order and not in another; both are accepted."""
    problem = Problem(1, 1, 4)
    a = np.float32([[2.0**64, 2.0**64, -(2.0**64), -(2.0**64)]])
    b = np.full((4, 1), 2.0**63, np.float32)
    c = np.zeros((1, 1), np.float32)
    reference = float64_reference(problem, a, b, c)
    for order in ([0, 1, 2, 3], [0, 2, 1, 3]):
        got = ordered_fma_reference(problem, a[:, order], b, c)
        assert (error_ratios(problem, got, reference) <= 16).all()


@pytest.mark.parametrize("arithmetic", ["fp32", "fp16", "bf16", "tf32"])
@pytest.mark.parametrize("k", [16, 512, 4096, 65_536])
def test_an_all_zero_result_exceeds_every_gate(arithmetic: str, k: int) -> None:
    """On zero-mean data C is about √K, and the magnitude K·2/π."""
    allowed = accuracy(arithmetic, k)
    assert math.sqrt(k) / (allowed.unit * k * 2 / math.pi) > 3 * allowed.gate


def test_gates_of_tensor_cores() -> None:
    assert arithmetic_of(FP16, tensor_cores=False) == arithmetic_of(FP32, tensor_cores=False) == "fp32"
    assert arithmetic_of(BF16, tensor_cores=True) == "bf16"
    assert arithmetic_of(TF32, tensor_cores=False) == "tf32"
    assert accuracy("int8", 4096) == accuracy("fp32", 4096)
    assert accuracy("fp16", 4096).gate == 32
    assert accuracy("fp16", 4096, errors_grow=True).gate == 512
    assert accuracy("tf32", 4096).gate == pytest.approx(0.5 + 32 * 2.0**-13)
