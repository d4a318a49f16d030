"""Which extent a bias has, by what host code allocates or says: a bias that is read by row has M values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.kernel.layout import ROW_MAJOR
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.verify.meaning.contradiction import contradiction
from gemmsmith.verify.meaning.readings import Reading
from gemmsmith.verify.meaning.told_bias import told_bias

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


TENSORS = """
// y = x w + bSAID
#include <torch/extension.h>
__global__ void linear(const float* x, const float* w, const float* bias, float* y, int M, int N, int K) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= M || j >= N) return;
    float sum = bias[j];
    for (int k = 0; k < K; ++k) sum += x[i * K + k] * w[k * N + j];
    y[i * N + j] = sum;
}
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    CHECKS
    const int M = x.size(0), N = w.size(1), K = x.size(1);
    auto y = torch::empty({M, N}, x.options());
    linear<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), M, N, K);
    return y;
}
"""


@pytest.mark.parametrize(
    ("checks", "said", "extent"),
    [
        ("", "", ""),
        ("TORCH_CHECK(b.dim() == 1 && b.size(0) == w.size(1));", "", "N"),
        ('TORCH_CHECK((x.size(0) == b.numel()), "shape");', "", "M"),
        ("TORCH_CHECK(b.size(0) == 64);", "", ""),
        ("", ", b: (N,)", "N"),
        ("", ", where bias has M values", "M"),
        ("", ". bias[j] is added", ""),
        ("TORCH_CHECK(b.size(0) == x.size(0));", ", b: [N]", ""),  # one against the other
    ],
)
def test_the_extent_that_is_told(tmp_path: Path, checks: str, said: str, extent: str) -> None:
    file = tmp_path / "linear.cu"
    file.write_text(TENSORS.replace("CHECKS", checks).replace("SAID", said))
    spec = user_kernel(file, UserOptions())
    assert told_bias(spec, spec.signature)[0] == extent
    for bias, values in (("row", "M"), ("column", "N")):
        against = contradiction(Reading(replace(spec.signature), ROW_MAJOR, bias), spec)
        assert bool(against) == (extent not in ("", values)), against
