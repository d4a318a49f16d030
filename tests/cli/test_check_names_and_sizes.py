"""gemmsmith check on names and sizes as course work and layers of networks write them, each beside a wrong twin."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import ONE_OUTPUT_A_THREAD, check

SMALL = ("--m", "32", "--n", "48", "--k", "16", "--trial", "random data")

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
    code, found = check(tmp_path, source, capsys, *SMALL)
    assert (code, found["status"]) == (0, "right"), found
    assert "as A·B + bias" in found["verdict"]
    bias = names.split()[2]
    code, found = check(tmp_path, source.replace(f"{bias}[col]", f"{bias}[col ^ 1]"), capsys, *SMALL)
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
    code, found = check(tmp_path, HEADS, capsys, *SMALL)
    assert (code, found["status"]) == (0, "right"), found
    assert any("one launch is judged" in line for line in found["found"]), found["found"]
    code, found = check(tmp_path, HEADS.replace("B[col * K + k]", "B[col * N + k]"), capsys, *SMALL)
    assert code == 1, found


NAMED_AFTER_M_AND_N = """
__global__ void multiply(float* M, float* N, float* P, int row_M, int col_M, int row_N, int col_N) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= row_M || c >= col_N) return;
    float value = 0;
    for (int k = 0; k < col_M; ++k) value += M[row * col_M + k] * N[k * col_N + c];
    P[row * col_N + c] = value;
}
void run(float* M, float* N, float* P, int row_M, int col_M, int row_N, int col_N) {
    dim3 block(16, 16), grid((col_N + 15) / 16, (row_M + 15) / 16);
    multiply<<<grid, block>>>(M, N, P, row_M, col_M, row_N, col_N);
}
"""


def test_extents_named_after_matrices_m_and_n(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """col_N are the columns of the matrix N, and row_N its rows: not N and M."""
    code, found = check(tmp_path, NAMED_AFTER_M_AND_N, capsys, *SMALL)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, NAMED_AFTER_M_AND_N.replace("N[k * col_N + c]", "N[k * row_N + c]"), capsys, *SMALL)
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
    assert any("judged only at M=48, N=64, K=96" in line for line in found["found"]), found["found"]
    code, found = check(tmp_path, TIED.replace("step < K_STEPS", "step < K_STEPS - 1"), capsys)
    assert (code, found["status"]) == (1, "wrong"), found
    code, found = check(tmp_path, TIED.replace("step < K_STEPS", "step < K / STEP"), capsys, *SMALL)
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


TILE_OF_THE_GPU = """
__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K, int tileWidth) {
    extern __shared__ float both[];
    float *As = both, *Bs = both + tileWidth * tileWidth;
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * tileWidth + ty, col = blockIdx.x * tileWidth + tx;
    float sum = 0.0f;
    for (int t = 0; t < K; t += tileWidth) {
        As[ty * tileWidth + tx] = row < M && t + tx < K ? A[row * K + t + tx] : 0.0f;
        Bs[ty * tileWidth + tx] = t + ty < K && col < N ? B[(t + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < tileWidth; ++i) sum += As[ty * tileWidth + i] * Bs[i * tileWidth + tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
int best_tile();  // which asks the GPU
void run(const float* A, const float* B, float* C, int M, int N, int K, int tile) {
    dim3 block(tile, tile), grid((N + tile - 1) / tile, (M + tile - 1) / tile);
    tiled<<<grid, block, 2 * tile * tile * sizeof(float)>>>(A, B, C, M, N, K, tile);
}
int main() { int tile = best_tile(); float* p; run(p, p, p, 512, 512, 512, tile); }
"""


def test_a_tile_that_only_a_gpu_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The block follows from a parameter that host code computes: a usual value is taken, and the report says so."""
    code, found = check(tmp_path, TILE_OF_THE_GPU, capsys, *SMALL)
    assert (code, found["status"]) == (0, "right"), found
    assert any("taken as 16" in line for line in found["launch"]["found"]), found["launch"]
    wrong = TILE_OF_THE_GPU.replace("Bs[i * tileWidth + tx]", "Bs[tx * tileWidth + i]")
    code, found = check(tmp_path, wrong, capsys, *SMALL)
    assert (code, found["status"]) == (1, "wrong"), found


ONE_FRAGMENT = """
#include <mma.h>
using namespace nvcuda;
__global__ void tile(half* a, half* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
int main() { half *a, *b; float* c; tile<<<1, 32>>>(a, b, c); }
"""


def test_one_fragment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel for one tile of wmma takes no sizes: it has those of its fragments."""
    code, found = check(tmp_path, ONE_FRAGMENT, capsys, "--trial", "random data")
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, ONE_FRAGMENT.replace("(fb, b, 16)", "(fb, b, 8)"), capsys, "--trial", "random data")
    assert (code, found["status"]) == (1, "wrong"), found


PAIRS = """
__global__ void pairs(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = 2 * (blockIdx.x * 16 + threadIdx.x);
    if (row >= M || col >= N) return;
    float2 sum = make_float2(0.0f, 0.0f);
    for (int k = 0; k < K; k += 2) {
        float2 a = *(const float2*)&A[row * K + k], b = *(const float2*)&B[k * N + col],
               c = *(const float2*)&B[(k + 1) * N + col];
        sum.x += a.x * b.x + a.y * c.x;
        sum.y += a.x * b.y + a.y * c.y;
    }
    *(float2*)&C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    pairs<<<dim3((N + 31) / 32, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_vectors_of_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of pairs need even N and K, not multiples of 16 bytes."""
    code, found = check(tmp_path, PAIRS, capsys)
    assert (code, found["status"]) == (0, "whole_tiles"), found
    assert found["multiples"] == {"m": 1, "n": 2, "k": 2}
    code, found = check(tmp_path, PAIRS.replace("a.x * b.y + a.y * c.y", "a.x * b.y + a.x * c.y"), capsys, *SMALL)
    assert code == 1, found


GUARD_IN_THE_LINE_BEFORE = """
#define T 16
__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T], Bs[T][T];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    float sum = 0.0f;
    for (int t = 0; t < K; t += T) {
        if (row < M && t + tx < K)
            As[ty][tx] = A[row * K + t + tx];
        else
            As[ty][tx] = 0.0f;
        if (t + ty < K && col < N) {
            Bs[ty][tx] = B[(t + ty) * N + col];
        } else {
            Bs[ty][tx] = 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    tiled<<<dim3((N + T - 1) / T, (M + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);
}
"""


def test_a_guard_in_the_line_before_lets_too_many_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """One row too many is read and never used: the guard is wrong, wherever the line breaks."""
    code, found = check(tmp_path, GUARD_IN_THE_LINE_BEFORE, capsys)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, GUARD_IN_THE_LINE_BEFORE.replace("(row < M && t", "(row <= M && t"), capsys)
    assert (code, found["status"]) == (1, "wrong"), found
