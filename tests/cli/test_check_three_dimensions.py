"""gemmsmith check on operands with a batch, [B, T, C]: in the grid, in the rows, with weights that all share."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

ROWS = """
__global__ void linear(float* out, const float* inp, const float* weight, int B, int T, int C, int OC) {
    int row = blockIdx.x * blockDim.x + threadIdx.x, oc = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= B * T || oc >= OC) return;
    float sum = 0.0f;
    for (int i = 0; i < C; ++i) sum += inp[row * C + i] * weight[oc * C + i];
    out[row * OC + oc] = sum;
}
void run(float* out, const float* inp, const float* weight, int B, int T, int C, int OC) {
    linear<<<dim3((B * T + 15) / 16, (OC + 15) / 16), dim3(16, 16)>>>(out, inp, weight, B, T, C, OC);
}
"""
GRID = """
__global__ void NAME(const float* x, const float* SECOND, float* y, int COUNT, int M, int N, int K) {
    int b = blockIdx.z, row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += x[(b * M + row) * K + k] * SECOND[OFFSET + k * N + col];
    y[(b * M + row) * N + col] = sum;
}
void run(const float* x, const float* SECOND, float* y, int COUNT, int M, int N, int K) {
    NAME<<<dim3((N + 15) / 16, (M + 15) / 16, COUNT), dim3(16, 16)>>>(x, SECOND, y, COUNT, M, N, K);
}
ALLOCATED
"""
ALLOCATED = """
int main() {
    int batch = 4, m = 64, n = 96, k = 32;
    float *x, *other, *y;
    cudaMalloc(&x, batch * m * k * sizeof(float));
    cudaMalloc(&other, COUNT k * n * sizeof(float));
    cudaMalloc(&y, batch * m * n * sizeof(float));
    run(x, other, y, batch, m, n, k);
}
"""
BATCH = ("--trial", "a batch of three")


def in_grid(offset: str, name: str = "linear", second: str = "w", count: str = "B", allocated: str = "") -> str:
    source = GRID.replace("NAME", name).replace("SECOND", second).replace("COUNT", count).replace("OFFSET", offset)
    return source.replace("ALLOCATED", allocated)


FOUR = """
__global__ void tensor(const float* A, const float* B, float* C, size_t b, size_t i, size_t j, size_t l, size_t k) {
    size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (at >= b * i * j * k) return;
    float sum = 0.0f;
    for (size_t q = 0; q < l; ++q) sum += A[at / k * l + q] * B[q * k + at % k];
    C[at] = sum;
}
void run(const float* A, const float* B, float* C, size_t b, size_t i, size_t j, size_t l, size_t k) {
    tensor<<<(b * i * j * k + 127) / 128, 128>>>(A, B, C, b, i, j, l, k);
}
"""
RIGHT = {
    "four dimensions": (FOUR, QUICK),
    "rows of B and T": (ROWS, QUICK),
    "each product its own": (in_grid("b * K * N", "bmm", "other"), BATCH),
    "weights for all": (in_grid("0", "linear", "w", "batch_size"), BATCH),
    "one allocated": (in_grid("0", "bmm", "other", "batch", ALLOCATED.replace("COUNT", "")), BATCH),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, trial = RIGHT[name]
    code, found = check(tmp_path, source, capsys, *trial)
    assert (code, found["status"]) == (0, "right"), found


WRONG = {
    "a forgotten offset": in_grid("0", "bmm", "other"),
    "a wrong offset": in_grid("b * K", "linear", "w"),
    "one used, several allocated": in_grid("0", "linear", "w", "batch", ALLOCATED.replace("COUNT", "batch *")),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, WRONG[name], capsys, *BATCH)
    assert (code, found["status"]) == (1, "wrong"), found


@pytest.mark.parametrize(
    ("source", "expected"),
    [(ROWS.replace("row >= B * T", "row >= T"), 1), (FOUR.replace("b * i * j * k)", "i * k)"), 2)],
)
def test_rows_of_some_of_them_alone_are_no_product(
    source: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first is wrong: it reads and writes as a product of that many rows does, but for half of them."""
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert code == expected, found
