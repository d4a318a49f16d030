"""gemmsmith check on names and sizes as course work and layers of networks write them, each beside a wrong twin."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import ONE_OUTPUT_A_THREAD, QUICK, check

LINEAR_LAYER = """
__global__ void linear(const float* d_X, const float* d_W, const float* d_b, float* d_Y, int n, int in_features,
                       int out_features) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= out_features || row >= n) return;
    float sum = d_b ? d_b[col] : 0.0f;
    for (int i = 0; i < in_features; ++i) sum += d_X[row * in_features + i] * d_W[i * out_features + col];
    d_Y[row * out_features + col] = sum;
}
void forward(const float* x, const float* w, const float* b, float* y, int n, int in, int out) {
    dim3 block(16, 16), grid((out + 15) / 16, (n + 15) / 16);
    linear<<<grid, block>>>(x, w, b, y, n, in, out);
}
"""


@pytest.mark.parametrize("names", ["d_X d_W d_b d_Y", "p q r s"])
def test_a_layer_with_a_bias(tmp_path: Path, capsys: pytest.CaptureFixture[str], names: str) -> None:
    """b beside weights is a bias by its name; inputs whose names say nothing are tried with one."""
    source = LINEAR_LAYER
    for before, after in zip(("d_X", "d_W", "d_b", "d_Y"), names.split(), strict=True):
        source = source.replace(before, after)
    if names[0] == "p":
        source = source.replace("(x, w, b, y,", "(e, f, g, h,").replace("float* x, const float* w, const float* b, "
                                "float* y", "float* e, const float* f, const float* g, float* h")  # fmt: skip
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert "as A·B + bias" in found["verdict"]
    bias = names.split()[2]
    code, found = check(tmp_path, source.replace(f"{bias}[col]", f"{bias}[col ^ 1]"), capsys, *QUICK)
    assert code != 0, found


HEADS = """
__global__ void scores(const float* A, const float* B, float* C, int M, int K, int N) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[col * K + k];
    C[row * N + col] = sum;
}
void attention(const float* q, const float* k, float* s, int B, int H, int S, int hd) {
    int BH = B * H;
    for (int bh = 0; bh < BH; bh++) {
        dim3 blocks((S + 15) / 16, (S + 15) / 16), threads(16, 16);
        scores<<<blocks, threads>>>(q + bh * S * hd, k + bh * S * hd, s + bh * S * S, S, hd, S);
    }
}
"""


def test_a_loop_over_whole_products(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A loop over the heads of an attention makes a product in every round: one launch is judged."""
    code, found = check(tmp_path, HEADS, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert any("one launch is judged" in line for line in found["found"]), found["found"]
    code, found = check(tmp_path, HEADS.replace("B[col * K + k]", "B[col * N + k]"), capsys, *QUICK)
    assert code == 1, found


NAMED_AFTER_M_AND_N = """
__global__ void multiply(float* M, float* N, float* P, int row_M, int col_M, int row_N, int col_N) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= row_M) return;
    for (int c = 0; c < col_N; ++c) {
        float value = 0;
        for (int k = 0; k < col_M; ++k) value += M[row * col_M + k] * N[k * col_N + c];
        P[row * col_N + c] = value;
    }
}
void run(float* M, float* N, float* P, int row_M, int col_M, int row_N, int col_N) {
    multiply<<<dim3(1, (row_M + 31) / 32), dim3(1, 32)>>>(M, N, P, row_M, col_M, row_N, col_N);
}
"""


def test_extents_named_after_matrices_m_and_n(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """col_N are the columns of the matrix N, and row_N its rows: not N and M."""
    code, found = check(tmp_path, NAMED_AFTER_M_AND_N, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, NAMED_AFTER_M_AND_N.replace("N[k * col_N + c]", "N[k * row_N + c]"), capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found


TIED = """
const int M = 48, N = 64, K = 96, STEP = 16, K_STEPS = K / STEP;
__global__ void tied(const float* a, const float* b, float* d, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int step = 0; step < K_STEPS; ++step)
        for (int k = step * STEP; k < (step + 1) * STEP; ++k) sum += a[row * K + k] * b[k * N + col];
    d[row * N + col] = sum;
}
void run(const float* a, const float* b, float* d) { tied<<<dim3(N / 16, M / 16), dim3(16, 16)>>>(a, b, d, M, N, K); }
"""


def test_a_loop_over_a_constant_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernel takes K and counts K_STEPS: it is made for the sizes that its launch passes."""
    code, found = check(tmp_path, TIED, capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert any("made for M=48, N=64, K=96 alone" in line for line in found["found"]), found["found"]
    code, found = check(tmp_path, TIED.replace("step < K_STEPS", "step < K_STEPS - 1"), capsys)
    assert (code, found["status"]) == (1, "wrong"), found
    code, found = check(tmp_path, TIED.replace("step < K_STEPS", "step < K / STEP"), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found  # of any size


SAME_NUMBER = (
    ONE_OUTPUT_A_THREAD
    + """
int main() {
    unsigned N = 256, M = 256;
    float *a, *b, *c;
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
    mine<<<grid, block>>>(a, b, c, N, N, N);
}
"""
)


def test_a_grid_with_a_second_variable_of_the_same_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The launch passes N for all extents; M of its grid holds the same number, and grows with it."""
    code, found = check(tmp_path, SAME_NUMBER, capsys, "--m", "352", "--n", "32", "--k", "16", "--trial", "random data")
    assert (code, found["status"]) == (0, "right"), found
    wrong = SAME_NUMBER.replace("B[k * N + col]", "B[k * K + col]")
    code, found = check(tmp_path, wrong, capsys, "--m", "352", "--n", "32", "--k", "16", "--trial", "random data")
    assert (code, found["status"]) == (1, "wrong"), found
