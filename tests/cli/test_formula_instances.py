"""gemmsmith check on products with a vector whose host code chooses between instances of a template."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

GROUPS = """
template <int TPR>
__global__ void gemv(const float* A, const float* x, float* y, int rows, int cols) {
    int lane = threadIdx.x % TPR, row = blockIdx.x * (blockDim.x / TPR) + threadIdx.x / TPR;
    float sum = 0.0f;
    if (row < rows) for (int c = lane; c < cols; c += TPR) sum += A[(size_t)row * cols + c] * x[c];
    for (int d = FIRST; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (row < rows && lane == 0) y[row] = sum;
}
void run(const float* A, const float* x, float* y, int rows, int cols) {
    if (cols <= 128) gemv<8><<<(rows * 8 + 127) / 128, 128>>>(A, x, y, rows, cols);
    else gemv<32><<<(rows * 32 + 127) / 128, 128>>>(A, x, y, rows, cols);
}
"""


@pytest.mark.parametrize(("first", "status"), [
    ("TPR / 2", "right"), ("TPR / 2 > 8 ? 8 : TPR / 2", "wrong"), ("TPR == 8 ? 2 : TPR / 2", "wrong"),
])  # fmt: skip
def test_lanes_of_a_row(first: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, GROUPS.replace("FIRST", first), capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (status == "wrong", status), found


VECTORS = """
#include <cstdint>
template <bool VEC>
__global__ void gemv(int m, int n, const float* A, int lda, const float* x, float* y) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    const float* a = A + (size_t)row * lda;
    float sum = 0.0f;
    if (VEC) {
        for (int i = lane; i < n / 4; i += 32) {
            float4 u = ((const float4*)a)[i], v = ((const float4*)x)[i];
            sum += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
        }
        if (n / 4 * 4 + lane < n) sum += a[n / 4 * 4 + lane] * x[n / 4 * 4 + lane];
    } else {
        for (int i = lane; i < LAST; i += 32) sum += a[i] * x[i];
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (lane == 0) y[row] = sum;
}
void run(int m, int n, const float* A, int lda, const float* x, float* y) {
    bool vec = lda % 4 == 0 && (uintptr_t)A % 16 == 0 && (reinterpret_cast<uintptr_t>(x) & 15) == 0;
    if (vec) gemv<true><<<(m + 7) / 8, 256>>>(m, n, A, lda, x, y);
    else gemv<false><<<(m + 7) / 8, 256>>>(m, n, A, lda, x, y);
}
"""


@pytest.mark.parametrize(("last", "status"), [("n", "right"), ("n / 4 * 4", "wrong")])
def test_rows_of_whole_vectors(last: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An array's address is a multiple; the instance for other rows is judged where host code launches it."""
    code, found = check(tmp_path, VECTORS.replace("LAST", last), capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (status == "wrong", status), found
    if status == "right":
        assert any("gemv<false>: right" in line for line in found["found"]), found


ROWS = """
// K must be even
template <int ROWS>
__global__ void decode(const float* x, const float* w, float* y, int N, int K) {
    int column = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (column >= N) return;
    float sums[ROWS] = {};
    for (int k = 2 * lane; k < END; k += 64)
        for (int r = 0; r < ROWS; ++r)
            sums[r] += x[r * K + k] * w[column * K + k] + x[r * K + k + 1] * w[column * K + k + 1];
    for (int r = 0; r < ROWS; ++r) {
        for (int d = 16; d > 0; d /= 2) sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], d);
        if (lane == 0) y[r * N + column] = sums[r];
    }
}
void run(int rows, const float* x, const float* w, float* y, int N, int K) {
    int blocks = (N + 3) / 4;
    if (rows == 1) decode<1><<<blocks, 128>>>(x, w, y, N, K);
    else if (rows == 2) decode<2><<<blocks, 128>>>(x, w, y, N, K);
    else if (rows == 8) decode<8><<<blocks, 128>>>(x, w, y, N, K);
}
"""


@pytest.mark.parametrize(("end", "status"), [("K", "right"), ("K / 64 * 64", "wrong"),
                                             ("(ROWS == 8 ? K / 64 * 64 : K)", "wrong")])  # fmt: skip
def test_rows_of_the_template(end: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Instances that differ in a size of the template are judged, each; K is even, and need not be a multiple of 64."""
    code, found = check(tmp_path, ROWS.replace("END", end), capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (status == "wrong", status), found


MODES = """
template <int MODE>
__global__ void gemv(const float* A, const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < cols; ++c) sum += A[(size_t)row * cols + c] * x[c];
    y[row] = MODE == 1 ? sum * sum + sinf(sum) : sum;
}
void run(const float* A, const float* x, float* y, int rows, int cols, int mode) {
    if (mode == 1) gemv<1><<<(rows + 127) / 128, 128>>>(A, x, y, rows, cols);
    else gemv<0><<<(rows + 127) / 128, 128>>>(A, x, y, rows, cols);
}
"""


def test_an_instance_that_computes_something_else_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, MODES, capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (0, "right"), found
    assert any("not judged" in line for line in found["found"]), found


PITCH = """
// y = A x, rows of A are lda apart.SAID
__global__ void gemv(int m, int n, const float* A, int lda, const float* x, float* y) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    const float* a = A + (size_t)row * lda;
    float sum = 0.0f;
    for (int i = 0; i < n / 4; ++i) {
        LOAD
        sum += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
    }
    for (int i = n / 4 * 4; i < n; ++i) sum += a[i] * x[i];
    y[row] = sum;
}
void run(int m, int n, const float* A, int lda, const float* x, float* y) {
    gemv<<<(m + 127) / 128, 128>>>(m, n, A, lda, x, y);
}
"""
WIDE = "float4 u = ((const float4*)a)[i], v = ((const float4*)x)[i];"
SINGLE = "float4 u{a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]}, v = ((const float4*)x)[i];"


@pytest.mark.parametrize(("said", "load", "status"), [
    ("", WIDE, "aligned_rows"), (" Any m.", WIDE, "aligned_rows"), (" Any n.", WIDE, "wrong"),
    (" Any n.", SINGLE, "right"),
])  # fmt: skip
def test_rows_that_start_anywhere(
    said: str, load: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, PITCH.replace("SAID", said).replace("LOAD", load), capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (status == "wrong", status), found
