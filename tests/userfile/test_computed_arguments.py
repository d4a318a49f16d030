"""Numbers that host code computes from the sizes by way of variables, choices and ifs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.expressions import evaluate
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

KERNEL = """
__global__ void parts(const float* A, const float* B, float* C, int M, int N, int K, int chunk) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x, from = blockIdx.z * chunk;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = from; k < min(from + chunk, K); ++k) sum += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], sum);
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    HOST
    parts<<<dim3((N + 7) / 8, (M + 7) / 8, splits), dim3(8, 8)>>>(A, B, C, M, N, K, CHUNK);
}
"""
CHOICE = "int splits = K >= 256 ? 4 : 2;"
IF = "int splits = 2; if (K >= 256) splits = 4;"


@pytest.mark.parametrize("host", [CHOICE, IF])
@pytest.mark.parametrize("chunk", ["(K + splits - 1) / splits", "chunk"])
def test_a_part_of_k(host: str, chunk: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    named = "int chunk = (K + splits - 1) / splits;" if chunk == "chunk" else ""
    path.write_text(KERNEL.replace("HOST", f"{host} {named}").replace("CHUNK", chunk))
    spec = user_kernel(path, UserOptions())
    role = spec.signature.arguments[-1].role
    assert [evaluate(role, {"K": k}) for k in (64, 255, 256, 1001)] == [32, 128, 64, 251], role
    assert [spec.geometry(spec.problem(8, 8, k), spec.config()).grid[2] for k in (64, 256)] == [2, 4]


def test_a_variable_that_a_loop_changes_has_no_formula(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    host = "int splits = 2; for (int i = 0; i < 3; ++i) splits += next(i);"
    path.write_text(KERNEL.replace("HOST", host).replace("CHUNK", "(K + splits - 1) / splits"))
    assert user_kernel(path, UserOptions()).signature.arguments[-1].role == ""


@pytest.mark.parametrize(
    ("store", "role"),
    [
        ("atomicAdd(&C[row * N + col], sum);", "4"),
        ("C[row * N + col] += sum;", "4"),
        ("C[row * N + col] = sum;", "batch"),
        ("C[blockIdx.z * M * N + row * N + col] += sum;", "batch"),
    ],
)
def test_a_number_of_parts_of_k_counts_no_products(store: str, role: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    text = (
        KERNEL.replace("HOST", "const int splits = 4;").replace("CHUNK", "splits").replace("int chunk)", "int splits)")
    )
    text = text.replace("blockIdx.z * chunk", "blockIdx.z * (K / splits)").replace("from + chunk", "from + K / splits")
    path.write_text(text.replace("atomicAdd(&C[row * N + col], sum);", store))
    assert user_kernel(path, UserOptions()).signature.arguments[-1].role == role
