"""gemmsmith check on kernels that mix up M, N and K, with host code that passes one number for all three."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

KERNEL = """
__global__ void mixed(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= N || col >= M) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * N + k] * B[k * K + col];
    C[row * M + col] = sum;
}
"""
TENSORS = """
#include <torch/extension.h>
torch::Tensor product(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.size(0) == a.size(1) && b.size(0) == b.size(1) && a.size(0) == b.size(0), "squares");
    int n = a.size(0);
    auto c = torch::empty({n, n}, a.options());
    mixed<<<dim3((n + 7) / 8, (n + 7) / 8), dim3(8, 8)>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n, n, n);
    return c;
}
"""
PLAIN = """
void product(const float* a, const float* b, float* c, int n) {
    mixed<<<dim3((n + 7) / 8, (n + 7) / 8), dim3(8, 8)>>>(a, b, c, n, n, n);
}
"""
RECTANGLES = """
void product(const float* a, const float* b, float* c, int m, int n, int k) {
    mixed<<<dim3((n + 7) / 8, (m + 7) / 8), dim3(8, 8)>>>(a, b, c, m, n, k);
}
"""


@pytest.mark.parametrize(("host", "strict"), [(TENSORS, ()), (PLAIN, ("--strict",))], ids=["torch", "plain"])
def test_one_number_for_all_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str, strict: tuple[str, ...]
) -> None:
    code, found = check(tmp_path, KERNEL + host, capsys, *strict)
    assert (code, found["status"]) == (len(strict), "square_only"), found
    assert "passes `n` for M, N and K" in str(found["found"])
    assert "M = N = K only" in found["verdict"]


@pytest.mark.parametrize("host", [RECTANGLES, PLAIN + RECTANGLES.replace("product", "other")], ids=["alone", "beside"])
def test_host_code_with_three_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str) -> None:
    code, found = check(tmp_path, KERNEL + host, capsys)
    assert (code, found["status"]) == (1, "wrong")


def test_a_mistake_beyond_mixed_sizes_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, KERNEL.replace("k < K", "k < K - 1") + PLAIN, capsys)
    assert (code, found["status"]) == (1, "wrong")


def test_a_grid_that_is_given_holds_for_all_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who says how the kernel is launched does not mean the host code's one size."""
    code, found = check(tmp_path, KERNEL + PLAIN, capsys, "--grid", "ceil(N/8),ceil(M/8)")
    assert (code, found["status"]) == (1, "wrong")
