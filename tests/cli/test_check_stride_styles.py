"""gemmsmith check of kernels whose numbers are called in ways of their own: strides, channels, increments."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

from gemmsmith.kernel.axis_strides import axis_of_field, strides_by_use
from gemmsmith.kernel.extents_by_name import extents_by_name
from gemmsmith.kernel.role_names import is_increment, layer_role

STRIDES = """
__global__ void gemm(int m, int n, int k, const float* A, size_t ai, size_t al, const float* B, size_t bl, size_t bj,
                     float* C, int ldc) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= m || j >= n) return;
    float sum = 0.0f;
    for (int l = 0; l < k; ++l) sum += A[i * ai + (size_t)l * al] * B[l * bl + j * bj];
    C[i * ldc + j] = sum;
}
void run(const float* A, const float* B, float* C, int m, int n, int k, size_t ai, size_t al, size_t bl, size_t bj) {
    gemm<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(m, n, k, A, ai, al, B, bl, bj, C, n);
}
"""
VIEWS = """
struct View {
    const float* p;
    long long s0, s1;
    __device__ float at(int i, int j) const { return p[i * s0 + j * s1]; }
};
__global__ void multiply(View l, View r, float* C, int M, int N, int K) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= M || j >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += l.at(i, k) * r.at(k, j);
    C[i * N + j] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    multiply<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(View{A, K, 1}, View{B, N, 1}, C, M, N, K);
}
"""
LAYER = """
__global__ void layer(const float* x, const float* weight, float* y, int batch, int in_f, int out_f) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= batch || col >= out_f) return;
    float sum = 0.0f;
    for (int k = 0; k < in_f; ++k) sum += x[row * in_f + k] * weight[col * in_f + k];
    y[row * out_f + col] = sum;
}
void run(const float* x, const float* weight, float* y, int batch, int in_f, int out_f) {
    layer<<<dim3((out_f + 15) / 16, (batch + 15) / 16), dim3(16, 16)>>>(x, weight, y, batch, in_f, out_f);
}
"""
VECTORS = """
__global__ void gemv(int m, int n, const float* A, int lda, const float* x, int incx, float* y, int incy) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= m) return;
    float sum = 0.0f;
    for (int j = 0; j < n; ++j) sum += A[i * lda + j] * x[j * incx];
    y[i * incy] = sum;
}
void run(int m, int n, const float* A, int lda, const float* x, int incx, float* y, int incy) {
    gemv<<<(m + 63) / 64, 64>>>(m, n, A, lda, x, incx, y, incy);
}
"""


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (STRIDES, "l < k", "l < k - 1"),
        (VIEWS, "k < K", "k < K - 1"),
        (LAYER, "k < in_f", "k < in_f - 1"),
    ],
)
def test_right_and_wrong(source: str, old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong one gives a product under no reading: names and indices tell what it means."""
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, source.replace(old, new), capsys, "--trial", "random data")
    assert (code, found["status"]) == (1, "wrong"), found


def test_vectors_with_increments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, VECTORS, capsys)
    assert (code, found["status"]) == (0, "right"), found


def test_two_strides_of_each_matrix() -> None:
    names, known = dict(enumerate(("s", "t", "u", "v"))), {4: "M", 5: "N", 6: "K", 7: "ldc"}
    matrices = {"A": "A", "B": "B", "C": "C"}
    found = strides_by_use(names, known, matrices, "A[i * s + (k + 1) * t] * B[k * u + j * v]")
    assert found == {0: "lda", 1: "1", 2: "ldb", 3: "1"}
    assert strides_by_use(names, known, matrices, "A[z * s + i * t + k] * B[z * u + k * v + j]") == {}
    assert strides_by_use(names, known, matrices, "A[i * s + k * t] * B[k * s + j * v]") == {}


@pytest.mark.parametrize(
    ("name", "axis"),
    [("s0", 0), ("s1", 1), ("row_stride", 0), ("stride_col", 1), ("cs", 1), ("rows", None), ("s2", None), ("s", None)],
)
def test_strides_beside_a_pointer(name: str, axis: int | None) -> None:
    assert axis_of_field(name) == axis


@pytest.mark.parametrize(
    ("name", "role"),
    [("in_f", "K"), ("out_dim", "N"), ("d_in", "K"), ("n_out", "N"), ("in_ch", "K"), ("inner", ""), ("outs", "")],
)
def test_names_of_layers(name: str, role: str) -> None:
    assert layer_role(name) == role


def test_rows_of_a_layer_and_of_a_gradient() -> None:
    names = dict(enumerate(("B", "in_dim", "out_dim")))
    assert extents_by_name(names, {"x": "A", "w": "B", "y": "C"}) == {0: "M", 1: "K", 2: "N"}
    assert extents_by_name(names, {"dy": "A", "w": "B", "dx": "C"}) == dict.fromkeys(names, "")


def test_increments() -> None:
    assert all(map(is_increment, ("incx", "inc_y", "incX")))
    assert not any(map(is_increment, ("inc", "include", "increment", "x")))
