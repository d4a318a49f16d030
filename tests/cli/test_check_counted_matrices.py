"""gemmsmith check of kernels for many small matrices: the number that they take counts them, and is no extent."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

from gemmsmith.kernel.counted_products import counts_matrices, counts_pointers, unclear_extents
from gemmsmith.kernel.signature import Argument, Signature

# Sixteen matrices for each block: a group of four threads has one.
SMALL = """
constexpr int DIM = 4;
__global__ void small(const float* a, const float* b, float* c, int count) {
    int group = (blockIdx.x * blockDim.x + threadIdx.x) / DIM, j = threadIdx.x % DIM;
    if (group >= count) return;
    const size_t base = (size_t)group * DIM * DIM;
    for (int i = 0; i < DIM; ++i) {
        float sum = 0.0f;
        for (int l = 0; l < DIM; ++l) sum += a[base + i * DIM + l] * b[base + l * DIM + j];
        c[base + i * DIM + j] = sum;
    }
}
void run(const float* a, const float* b, float* c, int count) {
    small<<<(count + 15) / 16, 64>>>(a, b, c, count);
}
"""
TABLES = """
__global__ void many(const float* const* As, const float* const* Bs, float* const* Cs, int m, int n, int k, int items) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    for (int item = blockIdx.z; item < items; item += gridDim.z) {
        if (row >= m || col >= n) continue;
        float sum = 0.0f;
        for (int l = 0; l < k; ++l) sum += As[item][row * k + l] * Bs[item][l * n + col];
        Cs[item][row * n + col] = sum;
    }
}
void run(const float* const* As, const float* const* Bs, float* const* Cs, int m, int n, int k, int items) {
    many<<<dim3((n + 7) / 8, (m + 7) / 8, items < 65535 ? items : 65535), dim3(8, 8)>>>(As, Bs, Cs, m, n, k, items);
}
"""
BATCH = ("--trial", "a batch of three")


@pytest.mark.parametrize("source", [SMALL, TABLES])
def test_a_number_of_matrices(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, source, capsys, *BATCH)
    assert (code, found["status"]) == (0, "right"), found


def test_a_mistake_beyond_the_first_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SMALL.replace("b[base + l", "b[base % 32 + l"), capsys, *BATCH)
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_number_whose_meaning_is_not_known_accuses_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one matrix follows another is told by a shift."""
    code, error = check(tmp_path, SMALL.replace("group * DIM * DIM", "group << 4"), capsys, "--trial", "random data")
    assert code == 2, error
    assert "what count means is not clear" in error


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if (i < count) x = a[i * 8 * 8];", True),
        ("const int at = (i < count ? i : count - 1) * D * D;", True),
        ("if (i >= count) return; p = a + i * 64;", True),
        ("if (row < count) x = a[row * D + k];", False),  # rows of one matrix
        ("if (i < count) x = a[i * count * D * D];", False),
        ("x = a[i * D * D];", False),
    ],
)
def test_what_counts_matrices(body: str, expected: bool) -> None:
    assert counts_matrices("count", body, {"M": 8, "N": 8, "K": 8}, {"D": 8}) is expected


def test_what_counts_pointers() -> None:
    body = (
        "for (int i = blockIdx.z; i < many; i += gridDim.z) { const float* A = As[i]; if (row < m) s += A[row * k]; }"
    )
    assert counts_pointers("many", ["As", "Bs"], body)
    assert not counts_pointers("m", ["As", "Bs"], body)


def test_numbers_that_may_be_anything() -> None:
    body, grid = "if (i < count && row < size && col < q) x = a[row * p];", "dim3((q + 7) / 8, (q + 7) / 8)"
    named = Signature("k", tuple(Argument(name, "N", "i") for name in ("count", "size", "q", "p", "rows")))
    assert unclear_extents(named, body, grid) == ("count",)
