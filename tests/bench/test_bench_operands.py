"""Rotating operand sets, and the oracle that judges them."""

from __future__ import annotations

import math
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from fake_bench import FakeMemory

from gemmsmith.bench.oracle import Oracle
from gemmsmith.bench.rotation import MOST_SETS, Rotation, extent, shifts
from gemmsmith.errors import UnsupportedError
from gemmsmith.fills import operands
from gemmsmith.problem import BF16, FP16, Problem
from gemmsmith.verify.oracles.bounds import accuracy

MB = 1 << 20
GB = 1 << 30
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]


# --- number of sets


@pytest.mark.parametrize("size", [64, 128, 512, 1024, 2048])
def test_sets_exceed_twice_the_l2_by_less_than_one(size: int) -> None:
    found = extent(Problem(size, size, size), 60 * MB, 140 * GB)
    assert found.covers
    assert found.sets * found.set_bytes >= 120 * MB
    assert found.sets == 2 or (found.sets - 1) * found.set_bytes < 120 * MB


def test_large_problems_have_two_sets_limited_by_memory() -> None:
    large = Problem(16384, 16384, 16384)
    assert extent(large, 60 * MB, 140 * GB).sets == 2
    assert extent(large, 60 * MB, 8 * GB).sets == 1
    with pytest.raises(UnsupportedError, match=r"needs 3\.00 GiB of operands, and 4\.00 GiB are free"):
        extent(large, 60 * MB, 4 * GB)


def test_tiny_problems_do_not_cover_the_l2() -> None:
    found = extent(Problem(8, 8, 8), 60 * MB, 140 * GB)
    assert (found.sets, found.covers) == (MOST_SETS, False)


# --- contents


@pytest.mark.parametrize(("trans_a", "trans_b"), LAYOUTS)
def test_every_set_has_its_own_operands_and_set_0s_product(trans_a: bool, trans_b: bool) -> None:
    problem = Problem(12, 9, 15, trans_a=trans_a, trans_b=trans_b)
    data = operands(problem, "integers")
    memory = FakeMemory()
    expected = (data.a.T if trans_a else data.a) @ (data.b.T if trans_b else data.b)
    with Rotation(memory, problem, data, 3000) as rotation:
        assert len(rotation.sets) > 3
        seen = set()
        for index, where in enumerate(rotation.sets):
            a, b = (
                memory.view(address, values.nbytes).view(np.float32).reshape(values.shape)
                for address, values in ((where.a, data.a), (where.b, data.b))
            )
            seen.add(a.tobytes() + b.tobytes())
            assert all(address % 256 == 0 for address in (where.a, where.b, where.c))
            c = memory.view(where.c, 12 * 9 * 4).view(np.float32).reshape(12, 9)
            assert np.isnan(c).all(), "preset to NaN"
            c[...] = (a.T if trans_a else a) @ (b.T if trans_b else b)
            assert np.array_equal(rotation.product(index), expected)
        assert len(seen) > len(rotation.sets) / 2, "most sets differ"
    assert not memory.live


def test_matrices_do_not_touch() -> None:
    problem = Problem(16, 16, 16)
    with Rotation(FakeMemory(), problem, operands(problem), 20_000) as rotation:
        starts = sorted(address for s in rotation.sets for address in (s.a, s.b, s.c))
    assert all(b - a >= 1024 + 1024 for a, b in pairwise(starts))


def test_shifts_are_whole_rows_within_the_matrix() -> None:
    problem = Problem(5, 7, 3, trans_b=True)
    assert shifts(problem, 0) == (0, 0)
    for index in range(20):
        a, b = shifts(problem, index)
        assert 0 <= a < 5
        assert 0 <= b < 7


def test_changed_inputs_are_named_and_restored() -> None:
    problem = Problem(8, 8, 8)
    memory, data = FakeMemory(), operands(problem)
    with Rotation(memory, problem, data, 4000) as rotation:
        assert rotation.inputs_changed() == ""
        memory.view(rotation.sets[0].b, 4)[:] = 0
        assert rotation.inputs_changed() == "B"
        assert rotation.inputs_changed() == ""


def test_half_operands() -> None:
    problem = Problem(8, 6, 10, dtype=BF16)
    data, memory = operands(problem), FakeMemory()
    with Rotation(memory, problem, data, 4000) as rotation:
        raw = memory.view(rotation.sets[0].a, 160).view(ml_dtypes.bfloat16).reshape(8, 10)
        assert np.array_equal(raw, data.a)


# --- the oracle


def rounded(values: np.ndarray, bits: int) -> np.ndarray:  # type: ignore[type-arg]
    """fp32 truncated to ``bits`` fraction bits, as tensor cores do for TF32."""
    mask = np.uint32(0xFFFFFFFF ^ ((1 << (23 - bits)) - 1))
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) & mask).view(np.float32)


@pytest.mark.parametrize("k", [1, 7, 64, 1024, 4096])
def test_tf32_is_accepted_as_tf32_and_refused_as_fp32(k: int) -> None:
    problem = Problem(96, 96, k)
    data = operands(problem)
    oracle = Oracle(problem, data)
    got = (rounded(data.a, 10).astype(np.float64) @ rounded(data.b, 10).astype(np.float64)).astype(np.float32)
    assert oracle.judge(got, "tf32").why == ""
    assert "wrong" in oracle.judge(got, "fp32").why


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("k", [16, 4096, 65536])
def test_zeros_and_a_missing_term_are_never_accepted(precision: str, k: int) -> None:
    problem = Problem(24, 24, k)
    data = operands(problem)
    oracle = Oracle(problem, data)
    exact = data.a.astype(np.float64) @ data.b.astype(np.float64)
    assert oracle.judge(exact.astype(np.float32), precision).why == ""
    assert "wrong" in oracle.judge(np.zeros((24, 24), np.float32), precision).why
    without = exact - data.a[:, :16].astype(np.float64) @ data.b[:16].astype(np.float64)
    assert "wrong" in oracle.judge(without.astype(np.float32), precision).why


@pytest.mark.parametrize("kind", [FP16, BF16])
def test_truncated_sums_pass_only_as_tensor_arithmetic(kind: object) -> None:
    problem = Problem(16, 16, 4096, dtype=kind)  # type: ignore[arg-type]
    data = operands(problem)
    a, b = data.a.astype(np.float32), data.b.astype(np.float32)
    total = np.zeros((16, 16), np.float32)
    for start in range(0, 4096, 16):
        exact = total.astype(np.float64) + a[:, start : start + 16].astype(np.float64) @ b[start : start + 16]
        near = exact.astype(np.float32)
        total = np.where(np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near)
    found = Oracle(problem, data).judge(total, str(kind))
    assert found.why == ""
    assert found.rho > 1


def test_nan_is_always_wrong() -> None:
    problem = Problem(8, 8, 8)
    data = operands(problem)
    got = (data.a.astype(np.float64) @ data.b.astype(np.float64)).astype(np.float32)
    got[2, 3] = np.nan
    for precision in ("fp32", "tf32", "bf16"):
        found = Oracle(problem, data).judge(got, precision)
        assert found.why.startswith("1 of 64 outputs wrong")
        assert math.isnan(found.rho)


def test_projection_detects_one_wrong_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsmith.verify.harness._AFFORDABLE", 1)
    problem = Problem(150, 50, 60)  # rows are judged in several blocks
    data = operands(problem)
    oracle = Oracle(problem, data)
    got = (data.a.astype(np.float64) @ data.b.astype(np.float64)).astype(np.float32)
    assert oracle.judge(got, "fp32").why == ""
    got[107] *= np.float32(1.0001)
    assert oracle.judge(got, "fp32").why.startswith("1 of 150 rows wrong")
    got[8, 0] = np.nan
    assert oracle.judge(got, "fp32").why.startswith("2 of 150 rows wrong")


def test_the_fp32_gate_is_that_of_verification() -> None:
    assert accuracy("fp32", 4096).gate == 16
    assert accuracy("tf32", 4096).unit == 2**13 * accuracy("fp16", 4096).unit
