"""Which extent a bias has, by what host code allocates: a bias that is read by row has M values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.kernel.layout import ROW_MAJOR
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.verify.meaning.contradiction import contradiction
from gemmsmith.verify.meaning.readings import Reading

KERNEL = """
__global__ void linear(const float* x, const float* w, const float* bias, float* y, int M, int N, int K) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= M || j >= N) return;
    float sum = bias[j];
    for (int k = 0; k < K; ++k) sum += x[i * K + k] * w[k * N + j];
    y[i * N + j] = sum;
}
void run(const float* x, const float* w, const float* b, float* y, int M, int N, int K) {
    linear<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(x, w, b, y, M, N, K);
}
int main() {
    const int M = SIZE_M, N = SIZE_N, K = 64;
    float *x, *w, *b, *y;
    cudaMalloc(&x, sizeof(float) * M * K);
    cudaMalloc(&w, sizeof(float) * K * N);
    cudaMalloc(&b, ALLOCATED);
    cudaMalloc(&y, sizeof(float) * M * N);
    run(x, w, b, y, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("allocated", "extent"),
    [
        ("sizeof(float) * N", "N"),
        ("M * sizeof(float)", "M"),
        ("4 * K", ""),
        ("4096", ""),
        ("sizeof(float) * (M > N ? M : N) * 2", ""),
    ],
)
def test_the_extent_that_is_allocated(tmp_path: Path, allocated: str, extent: str) -> None:
    file = tmp_path / "linear.cu"
    file.write_text(KERNEL.replace("ALLOCATED", allocated).replace("SIZE_M", "200").replace("SIZE_N", "120"))
    spec = user_kernel(file, UserOptions())
    assert spec.geometry.bias_extent(spec.signature) == extent  # type: ignore[attr-defined]
    for bias, values in (("row", "M"), ("column", "N")):
        against = contradiction(Reading(replace(spec.signature), ROW_MAJOR, bias), spec)
        assert bool(against) == (extent not in ("", values)), against
