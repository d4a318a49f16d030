"""gemmsmith check on a kernel that gets its arguments in a struct, which another kernel gets before it: one scales C by
beta, the other adds the product."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

TEXT = """
struct Gemm { int m, n, k; float alpha, beta; const float* a; const float* b; float* c; int lda, ldb, ldc; };

__global__ void scale_c(Gemm g) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < g.m && col < g.n) g.c[row * g.ldc + col] = g.beta == 0 ? 0 : g.beta * g.c[row * g.ldc + col];
}
__global__ void add_product(Gemm g, int slice) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= g.m || col >= g.n) return;
    float sum = 0.0f;
    for (int i = blockIdx.z * slice; i < min((blockIdx.z + 1) * slice, g.k); ++i)
        sum += g.a[row * g.lda + i] * g.b[i * g.ldb + col];
    atomicAdd(&g.c[row * g.ldc + col], SUM);
}
void gemm(Gemm g) {
    dim3 block(16, 16), grid((g.n + 15) / 16, (g.m + 15) / 16);
    BEFORE
    dim3 parts(grid.x, grid.y, (g.k + 127) / 128);
    add_product<<<parts, block>>>(g, 128);
}
"""
SCALED = "if (g.beta != 1.0f) scale_c<<<grid, block>>>(g);"


@pytest.mark.parametrize(("before", "result", "status"), [
    (SCALED, "g.alpha * sum", "right"),
    (SCALED, "sum", "wrong"),  # nobody applies alpha
    ("", "g.alpha * sum", "wrong"),  # nobody applies beta
])  # fmt: skip
def test_one_scales_the_other_adds(
    before: str, result: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, TEXT.replace("BEFORE", before).replace("SUM", result), capsys)
    assert (code, found["status"]) == (status == "wrong", status), found
