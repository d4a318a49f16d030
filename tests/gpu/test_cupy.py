"""gemmsmith with CuPy: cupy.matmul's types and shapes, the current stream, and out=."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]


@pytest.fixture(name="cupy")
def _cupy() -> Any:
    return pytest.importorskip("cupy")


def randn(cupy: Any, *shape: int, dtype: str = "float32") -> Any:
    return cupy.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((6, 5), (5, 7)), ((5,), (5, 7)), ((6, 5), (5,)), ((5,), (5,)), ((3, 6, 5), (5, 7)), ((2, 1, 6, 5), (3, 5, 7)),
    ((6, 5), (3, 5, 7)),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_type_shape_and_values(cupy: Any, kind: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = randn(cupy, *a, dtype=kind), randn(cupy, *b, dtype=kind)
    found, expected = gemmsmith.matmul(x, y), cupy.matmul(x, y)
    assert isinstance(found, cupy.ndarray)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    tolerance = 2e-2 if kind == "float16" else 1e-5
    cupy.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_promotion_and_requested_types(cupy: Any) -> None:
    half, single = randn(cupy, 6, 5, dtype="float16"), randn(cupy, 5, 7)
    assert gemmsmith.matmul(half, single).dtype == np.float32
    assert gemmsmith.matmul(half, half.T, out_dtype=cupy.float32).dtype == np.float32
    small = cupy.full((4, 16), 100, cupy.int8)
    host = cupy.asnumpy(small)
    assert np.array_equal(cupy.asnumpy(gemmsmith.matmul(small, small.T)), np.matmul(host, host.T))


def test_strides_and_out(cupy: Any) -> None:
    a, b = randn(cupy, 12, 10)[::-2, ::2], randn(cupy, 7, 5).T
    cupy.testing.assert_allclose(gemmsmith.matmul(a, b), cupy.matmul(a, b), rtol=1e-5, atol=1e-5)
    for out in (cupy.empty((6, 7), cupy.float32), cupy.empty((7, 6), cupy.float32).T, cupy.empty((6, 7), cupy.float64)):
        assert gemmsmith.matmul(a, b, out=out) is out
        cupy.testing.assert_allclose(out, cupy.matmul(a, b), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="out has shape"):
        gemmsmith.matmul(a, b, out=cupy.empty((6, 6), cupy.float32))
    with pytest.raises(TypeError, match=r"cupy\.matmul"):
        gemmsmith.matmul(a.astype(cupy.float64), b)
    with pytest.raises(ValueError, match="differ"):
        gemmsmith.matmul(a, b.T)


def test_arrays_without_extents(cupy: Any) -> None:
    one, a = cupy.array(2, cupy.float32), randn(cupy, 6, 5)
    for x, y in ((one, a), (a, one), (one, one)):
        for function in (cupy.matmul, gemmsmith.matmul):
            with pytest.raises(ValueError):  # noqa: PT011  the texts differ
                function(x, y)
    for x, y in ((randn(cupy, 6, 0), randn(cupy, 0, 7)), (randn(cupy, 0, 5), randn(cupy, 5, 7))):
        found = gemmsmith.matmul(x, y)
        assert found.shape == cupy.matmul(x, y).shape
        assert not found.any()


def test_the_current_stream(cupy: Any) -> None:
    a, b = randn(cupy, 512, 512, dtype="float16"), randn(cupy, 512, 512, dtype="float16")
    expected = gemmsmith.matmul(a, b)
    cupy.cuda.Device().synchronize()
    late = cupy.zeros_like(a)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(200):
            late[...] = a * 0
        late[...] = a
        out = gemmsmith.matmul(late, b)  # on this stream: after the copy, without a wait
    stream.synchronize()
    assert bool((out == expected).all())
