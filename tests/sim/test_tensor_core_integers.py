"""Products of small integers, which are summed at once, have the bits of those that are summed term by term."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gemmsmith.sim.arithmetic import tensor_core
from gemmsmith.sim.arithmetic.tensor_core import HOPPER, WGMMA_BYTES, Accumulation, multiply_add

Array = np.ndarray[Any, np.dtype[Any]]
TYPES: dict[str, tuple[Any, Any, Accumulation]] = {
    "f16": (np.float16, np.uint16, HOPPER["f16"]),
    "bf16": (ml_dtypes.bfloat16, np.uint16, HOPPER["bf16"]),
    "tf32": (np.float32, np.uint32, HOPPER["tf32"]),
    "e4m3": (ml_dtypes.float8_e4m3fn, np.uint8, WGMMA_BYTES),
}


def operands(kind: str, largest: int, accumulators: Any) -> tuple[Array, Array, Array]:
    """Integers up to ``largest``, zeros of either sign among them, for K = 32."""
    rng = np.random.default_rng(largest)
    element, word, _ = TYPES[kind]
    a, b = (rng.integers(-largest, largest + 1, (32, side, 5)).astype(np.float32) for side in (16, 8))
    a[:, 0], b[:, 0] = 0.0, -1.0
    c = rng.integers(-(largest**2), largest**2 + 1, (16, 8, 5)).astype(accumulators)
    c[0] = -0.0
    return a.astype(element).view(word), b.astype(element).view(word), c


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("largest", [1, 8, 16, 200, 1024])
def test_sums_at_once_have_the_same_bits(kind: str, largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for accumulators in (np.float32, np.float16) if kind == "f16" and largest <= 200 else (np.float32,):
        a, b, c = operands(kind, largest, accumulators)
        found = multiply_add(kind, a, b, c, TYPES[kind][2])
        with monkeypatch.context() as patch:
            patch.setattr(tensor_core, "_is_exact", lambda *_: False)
            assert found.tobytes() == multiply_add(kind, a, b, c, TYPES[kind][2]).tobytes()


def test_only_sums_that_nothing_is_cut_from_are_made_at_once() -> None:
    ones = np.ones((4, 2, 1), np.float32)
    c = np.zeros((2, 2, 1), np.float32)
    assert tensor_core._is_exact(ones, ones, c, HOPPER["f16"])
    assert tensor_core._is_exact(ones, ones, c + 2.0**23, HOPPER["f16"])
    assert not tensor_core._is_exact(ones, ones, c + 2.0**24 - 4, HOPPER["f16"])
    assert not tensor_core._is_exact(ones, ones, c + 2.0**14 - 4, WGMMA_BYTES)
    assert not tensor_core._is_exact(ones / 2, ones, c, HOPPER["f16"])
    assert not tensor_core._is_exact(ones, ones, c + np.inf, HOPPER["f16"])
    assert not tensor_core._is_exact(ones, ones * np.nan, c, HOPPER["f16"])
