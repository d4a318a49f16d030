"""A mask on the last k-tile: a k of each thread that is compared with K."""

from __future__ import annotations

import pytest

from gemmsmith.verify.code.source_guards import threads_compare

SEEN = [
    "if (t * 16 + threadIdx.x < K) x = 1;",
    "int tx = threadIdx.x; As[tx] = k0 + tx < K ? A[k0 + tx] : 0;",
    "int tx = threadIdx.x; int own = k0 + tx; bool in = row < M && own < K;",
    "int a = threadIdx.x % 8; if (k0 + a >= K) return;",
    "int t = threadIdx.x; for (int e = t; e < 64; e += 32) { int r = e / 8, k = e % 8; x = k0 + k < K ? 1 : 0; }",
]
NOT_SEEN = [
    "if (k0 + 16 < K) prefetch(k0 + 16);",
    "int row = threadIdx.y; if (row < M && k0 < K) x = 1;",
    "int row = threadIdx.y; x = row * K + 1;",
    "int tx = threadIdx.x; if (tx < K / 8) x = 1;",
    "int tx = threadIdx.x; if (tx < KB) x = 1;",
    "int k0 = 0, tx = threadIdx.x; if (k0 + 16 < K) x = tx;",
    "int t = threadIdx.x; for (int k = t; k < K; k += 32) x += A[k];",
]


@pytest.mark.parametrize("text", SEEN)
def test_masks(text: str) -> None:
    assert threads_compare(text, "K")


@pytest.mark.parametrize("text", NOT_SEEN)
def test_what_is_no_mask(text: str) -> None:
    assert not threads_compare(text, "K")
