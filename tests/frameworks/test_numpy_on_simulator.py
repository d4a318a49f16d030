"""matmul with NumPy arrays on the simulator: the values of numpy.matmul, for operands that need every step."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmsmith


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8],
                         ids=lambda kind: np.dtype(kind).name)  # fmt: skip
def test_a_broadcast_batch_with_negative_strides(kind: Any) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-9, 9, (2, 1, 3, 5)).astype(kind)[..., ::-1]
    b = rng.integers(-9, 9, (2, 6, 5)).astype(kind).swapaxes(-1, -2)
    found, expected = gemmsmith.matmul(a, b), np.matmul(a, b)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(found, expected)


def test_vectors() -> None:
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    assert np.array_equal(gemmsmith.matmul(a, a[1]), a @ a[1])
    assert gemmsmith.matmul(a[0], a[1]) == a[0] @ a[1]
    assert isinstance(gemmsmith.matmul(a[0], a[1]), np.float32)


def test_elements_that_are_not_aligned() -> None:
    room = np.zeros(4 * 15 + 1, np.uint8)
    a = room[1:].view(np.float32).reshape(3, 5)
    a[:] = np.arange(15).reshape(3, 5)
    assert not a.flags.aligned
    out = np.zeros(4 * 9 + 1, np.uint8)[1:].view(np.float32).reshape(3, 3)
    assert np.array_equal(gemmsmith.matmul(a, a.T, out=out), a @ a.T)


def test_int8_wraps_around_and_wider_results_are_there_on_request() -> None:
    a = np.full((2, 16), 100, np.int8)
    assert np.array_equal(gemmsmith.matmul(a, a.T), np.matmul(a, a.T))
    assert np.array_equal(gemmsmith.matmul(a, a.T, out_dtype="int32"), np.full((2, 2), 160_000))
