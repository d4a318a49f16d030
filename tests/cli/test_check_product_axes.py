"""gemmsmith check on launches of several products: along which axis of the grid they lie, and what they share."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SIZES = ("--m", "16", "--n", "48", "--k", "8")

ALONG_Y = """
__global__ void many(const float* A, const float* B, float* C, int M, int N, int K) {
    int element = blockIdx.x * blockDim.x + threadIdx.x;
    if (element >= M * N) return;
    int row = element / N, col = element % N, b = blockIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[b * M * K + row * K + k] * B[b * K * N + k * N + col];
    C[b * M * N + element] = sum;
}
void solve(const float* A, const float* B, float* C, int M, int N, int K, int count) {
    many<<<dim3((M * N + 127) / 128, count), 128>>>(A, B, C, M, N, K);
}
"""
ONE_BLOCK = """
__global__ void small(const float* A, const float* B, float* C, int M, int N, int K) {
    const float* a = A + (size_t)blockIdx.x * M * K;
    const float* b = B + (size_t)blockIdx.x * K * N;
    float* c = C + (size_t)blockIdx.x * M * N;
    for (int e = threadIdx.x; e < M * N; e += blockDim.x) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += a[e / N * K + k] * b[k * N + e % N];
        c[e] = sum;
    }
}
void solve(const float* A, const float* B, float* C, int problems, int M, int N, int K) {
    small<<<problems, 256>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("source", "right", "wrong"), [
    (ALONG_Y, "B[b * K * N", "B[b * K * M"),
    (ALONG_Y, "C[b * M * N", "C[b * M * K"),
    (ONE_BLOCK, "A + (size_t)blockIdx.x * M * K", "A + (size_t)blockIdx.x * M * N"),
])  # fmt: skip
def test_products_along_y_and_x(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, right: str, wrong: str
) -> None:
    code, found = check(tmp_path, source, capsys, *SIZES)
    assert (code, found["status"]) == (0, "right"), found
    assert "launch site" in found["launch"]["source"]
    code, found = check(tmp_path, source.replace(right, wrong), capsys, *SIZES)
    assert (code, found["status"]) == (1, "wrong"), found


def test_blocks_of_one_product_are_no_products(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``gy`` counts tiles, though the kernel is not told it: the grid is not understood, and is guessed."""
    tiles = """
__global__ void tiles(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void solve(const float* A, const float* B, float* C, int M, int N, int K, int gy) {
    tiles<<<dim3((N + 15) / 16, gy), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
    code, found = check(tmp_path, tiles, capsys, *SIZES)
    assert (code, found["status"]) == (0, "right"), found
    assert "guessed" in found["launch"]["source"]


SHARED_KEYS = """
__global__ void scores(const float* q, const float* k, float* s, int M, int N, int K) {
    q += (size_t)blockIdx.z * M * K;
    k += (size_t)(blockIdx.z / 4) * N * K;
    s += (size_t)blockIdx.z * M * N;
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int d = 0; d < K; ++d) sum += q[row * K + d] * k[col * K + d];
    s[row * N + col] = sum;
}
void attention(const float* q, const float* k, float* s, int M, int N, int K, int heads) {
    scores<<<dim3((N + 15) / 16, (M + 15) / 16, heads), dim3(16, 16)>>>(q, k, s, M, N, K);
}
"""


def test_heads_that_share_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SHARED_KEYS, capsys, *SIZES)
    assert (code, found["status"]) == (0, "right"), found
    assert "it makes heads products, and 4 in a row share one matrix of k" in str(found), found
    for right, wrong in (("s += (size_t)blockIdx.z", "s += (size_t)(blockIdx.z / 4)"), ("N * K;", "N * N;"),
                         ("d < K;", "d < K - 1;")):  # fmt: skip
        code, found = check(tmp_path, SHARED_KEYS.replace(right, wrong), capsys, *SIZES)
        assert (code, found["status"]) == (1, "wrong"), (wrong, found)


def test_products_that_share_without_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Forgotten heads look the same as keys that are shared: neither right nor wrong."""
    untold = SHARED_KEYS.replace("blockIdx.z / 4", "blockIdx.z / H").replace("int K) {", "int K, int H) {").replace(
        "M, N, K);", "M, N, K, 3);")  # fmt: skip
    code, found = check(tmp_path, untold, capsys, *SIZES)
    assert code == 2, found
    assert "3 in a row use one matrix of k" in found, found


NAMED_AFTER_AN_EXTENT = """
__global__ void tensor_matmul(const float* A, const float* B, float* C, int N, int M, int K, int L) {
    int n = blockIdx.z, m = blockIdx.y * blockDim.y + threadIdx.y, l = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N || m >= M || l >= L) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[n * M * K + m * K + k] * B[k * L + l];
    C[n * M * L + m * L + l] = sum;
}
void solution(float* a, float* b, float* c, int N, int M, int K, int L) {
    tensor_matmul<<<dim3((L + 15) / 16, (M + 15) / 16, N), dim3(16, 16)>>>(a, b, c, N, M, K, L);
}
"""


def test_a_batch_that_is_called_n(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """N products of M rows and L columns: L is no pitch, and one B is for all."""
    code, found = check(tmp_path, NAMED_AFTER_AN_EXTENT, capsys, *SIZES)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, NAMED_AFTER_AN_EXTENT.replace("n * M * L", "n * M * K"), capsys, *SIZES)
    assert (code, found["status"]) == (1, "wrong"), found
