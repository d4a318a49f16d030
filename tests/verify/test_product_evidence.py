"""A kernel that only resembles a product by its parameters is refused, and a wrong product is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

HEAD = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
OTHERS = {
    "add": f"(const float* A, const float* B, float* C, int N) {{ {HEAD} if (i < N) C[i] = A[i] + B[i]; }}",
    "axpy": f"(const float* A, const float* B, float* C, int N) {{ {HEAD} if (i < N) C[i] = 2 * A[i] + B[i]; }}",
    "dot": f"(const float* a, const float* b, float* y, int n) {{ {HEAD} if (i < n) atomicAdd(y, a[i] * b[i]); }}",
    "gemv": f"""(const float* A, const float* x, float* y, int M, int K) {{ {HEAD}
        if (i < M) {{ float s = 0; for (int k = 0; k < K; ++k) s += A[i * K + k] * x[k]; y[i] = s; }} }}""",
}
OTHERS["matmul_sigmoid"] = """(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x; float s = 0;
    if (row >= M || col >= N) return;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col]; C[row * N + col] = 1 / (1 + __expf(-s)); }"""
ROW = "int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x; float s = 0;"
TRIANGLE = f"""(const float* A, const float* B, float* C, int N) {{ {ROW} if (row >= N || col >= N || row > col) return;
    for (int k = row; k <= col; ++k) s += A[row * N + k] * B[k * N + col]; C[row * N + col] = s; }}"""
OTHERS["gemm_upper_tri"] = TRIANGLE
OTHERS["matmul_fp8"] = f"""(const unsigned char* A_fp8, const unsigned char* B_fp8, float* C, int N) {{ {ROW}
    if (row >= N || col >= N) return;
    for (int k = 0; k < N; ++k) s += exp2f(A_fp8[row * N + k] / 8.0f) * exp2f(B_fp8[k * N + col] / 8.0f);
    C[row * N + col] = s; }}"""
WRONG = {
    "matmul_tiled": TRIANGLE,  # a product that leaves one triangle out
    "swapped": f"""(const float* A, const float* B, float* C, int N) {{ {ROW} if (row >= N || col >= N) return;
        for (int k = 0; k < N; ++k) s += A[row * N + k] * B[k * N + k]; C[row * N + col] = s; }}""",
    "past_the_end": f"""(int M, int N, int K, const float* A, const float* B, float* C) {{ {ROW}
        for (int k = 0; k <= K; ++k) s += A[row * K + k] * B[k * N + col]; C[row * N + col] = s; }}""",
}


def check(folder: Path, name: str, rest: str) -> int:
    file = folder / f"{name}.cu"
    file.write_text(f"__global__ void {name}{rest}\n", encoding="utf-8")
    return run_command(["check", str(file)])


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_product_is_not_judged(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, name, OTHERS[name]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"error: {name}" in said
    assert "--args" in said or "gemmsmith.launch" in said


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_product_is_judged(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, name, WRONG[name]) == 1
    assert f"{name} is wrong" in capsys.readouterr().out
