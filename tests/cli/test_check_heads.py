"""gemmsmith check on products of attention: one for each head of each sequence, whose numbers the grid multiplies."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

BATCH = ("--trial", "a batch of three")
SCORES = """
__global__ void scores(const float* q, const float* k, float* s, int B, int H, int T, int D) {
    int b = blockIdx.z / H, h = blockIdx.z % H;
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= T || col >= T) return;
    float sum = 0.0f;
    for (int i = FIRST; i < D; ++i) sum += q[((b * H + h) * T + row) * D + i] * k[((b * H + h) * T + col) * D + i];
    s[((b * H + h) * T + row) * T + col] = sum;
}
void run(const float* q, const float* k, float* s, int B, int H, int T, int D) {
    dim3 grid((T + 15) / 16, (T + 15) / 16, B * H);
    scores<<<grid, dim3(16, 16)>>>(q, k, s, B, H, T, D);
}
"""


def test_one_product_for_each_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SCORES.replace("FIRST", "0"), capsys, *BATCH)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, SCORES.replace("FIRST", "1"), capsys, "--trial", "integers, bit for bit")
    assert (code, found["status"]) == (1, "wrong"), found


BESIDE = SCORES.replace("FIRST", "0").replace("(b * H + h) * T + row) * D", "(b * T + row) * H + h) * D").replace(
    "(b * H + h) * T + col) * D", "(b * T + col) * H + h) * D")  # fmt: skip
SIZES = ("--m", "16", "--n", "16", "--k", "8")


def test_heads_beside_one_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, BESIDE, capsys, *SIZES)
    assert (code, found["status"]) == (0, "right"), found
    assert "it makes `B * H` products, whose rows are interleaved in q and k" in str(found), found
    assert found["trials"][-1]["label"] == "several products"


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("k[((b * T + col) * H + h) * D", "k[((b * T + col) * H) * D", "6 products use 2 matrices of k"),
        ("q[((b * T + row) * H + h) * D", "q[((b * D + row) * H + h) * D", "share"),
        ("s[((b * H + h) * T + row)", "s[((b * T + h) * T + row)", "products 2 and 3 write the same matrix of s"),
        ("s[((b * H + h) * T + row)", "s[(h * T + row)", "write the same matrix of s"),
    ],
)
def test_wrong_offsets_between_heads(
    right: str, wrong: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert right in BESIDE
    code, found = check(tmp_path, BESIDE.replace(right, wrong), capsys, *SIZES)
    assert (code, found["status"]) == (1, "wrong"), found
    assert why in str(found["trials"][-1]["reasons"]), found["trials"][-1]


def test_heads_of_a_packed_tensor_are_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """q, k and v of every head in one tensor: each pointer leaves gaps that others use."""
    packed = BESIDE.replace("* H + h) * D + i] * k", "* 3 * H + h) * D + i] * k").replace(
        "+ col) * H + h) * D", "+ col) * 3 * H + h) * D")  # fmt: skip
    code, found = check(tmp_path, packed, capsys)
    assert code == 2, found
    assert "makes `B * H` products, and the matrices of q and k have gaps between them" in found, found


def test_a_batch_and_heads_beside_m_n_and_k(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = BESIDE.replace("int B, int H, int T, int D", "int batch, int H, int M, int N, int K").replace(
        "B, H, T, D", "batch, H, M, N, K"
    )
    source = source.replace("B * H", "batch * H").replace("row >= T || col >= T", "row >= M || col >= N")
    source = (
        source.replace("(b * T + row)", "(b * M + row)").replace("(b * T + col)", "(b * N + col)").replace("* D", "* K")
    )
    source = source.replace("< D", "< K").replace("(b * H + h) * T + row) * T", "(b * H + h) * M + row) * N").replace(
        "(T + 15) / 16, (T + 15) / 16", "(N + 15) / 16, (M + 15) / 16")  # fmt: skip
    code, found = check(tmp_path, source, capsys, "--m", "16", "--n", "24", "--k", "8")
    assert (code, found["status"]) == (0, "right"), found
    assert "it makes `batch * H` products" in str(found), found


def test_one_matrix_for_all_heads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights that every head uses leave no elements between them."""
    shared = """
__global__ void project(const float* X, const float* W, float* Y, int H, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x, h = blockIdx.z;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += X[(row * H + h) * K + k] * W[k * N + col];
    Y[(h * M + row) * N + col] = sum;
}
void run(const float* X, const float* W, float* Y, int H, int M, int N, int K) {
    project<<<dim3((N + 15) / 16, (M + 15) / 16, H), dim3(16, 16)>>>(X, W, Y, H, M, N, K);
}
"""
    sizes = ("--m", "16", "--n", "24", "--k", "8")
    packed = shared.replace("(row * H + h) * K", "(h * M + row) * K")
    for source in (shared, packed):
        code, found = check(tmp_path, source, capsys, *sizes)
        assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, shared.replace("(row * H + h) * K", "(row * H + h) * N"), capsys, *sizes)
    assert code != 0, found
