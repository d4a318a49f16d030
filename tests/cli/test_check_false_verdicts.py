"""gemmsmith check on right kernels that were once called wrong, each beside a wrong one that must stay so."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

from gemmsmith.kernel.layout import Layout, layout_in_name
from gemmsmith.userfile.kernels.scratch import scratch_names
from gemmsmith.verify.code.written import used_bytes

DISTINCT = ("--trial", "M, N and K all different")

A_ROW_PER_THREAD = """
// n rows, m columns: a block for each column, a thread for each row
__global__ void columns(int* C, const int* A, const int* B, int n, int m, int k) {
    int i = threadIdx.x, j = blockIdx.x, sum = 0;
    for (int l = 0; l < k; ++l) sum += A[i * k + l] * B[l * m + j];
    C[i * m + j] = sum;
}
void run(int* C, const int* A, const int* B, int n, int m, int k) { columns<<<m, n>>>(C, A, B, n, m, k); }
"""


def test_a_block_that_grows_restricts_the_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More than 1,024 threads cannot be launched: no shape with as many rows says anything about the kernel."""
    code, found = check(tmp_path, A_ROW_PER_THREAD, capsys, "--cures", "0")
    assert (code, found["status"]) == (0, "right"), found
    assert any("its block grows with M" in line for line in found["found"]), found["found"]
    code, found = check(tmp_path, A_ROW_PER_THREAD.replace("l * m + j", "l * k + j"), capsys, "--cures", "0")
    assert (code, found["status"]) == (1, "wrong"), found


ONE_BLOCK = A_ROW_PER_THREAD.replace("j = blockIdx.x, sum = 0;\n", "sum;\n").replace(
    "    for (int l = 0; l < k; ++l) sum += A[i * k + l] * B[l * m + j];\n    C[i * m + j] = sum;\n",
    "    for (int j = 0; j < m; ++j) {\n        sum = 0;\n"
    "        for (int l = 0; l < k; ++l) sum += A[i * k + l] * B[l * m + j];\n        C[i * m + j] = sum;\n    }\n",
).replace("<<<m, n>>>", "<<<1, n>>>")  # fmt: skip


def test_one_block_for_all_of_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel that never asks for its block's number is launched with the grid of its host code, 1."""
    code, found = check(tmp_path, ONE_BLOCK, capsys, "--m", "16", "--n", "24", "--k", "8", "--trial", "random data")
    assert (code, found["status"]) == (0, "right"), found
    assert found["launch"]["grid"] == [1, 1, 1]
    assert found["launch"]["source"] == "launch site"


PITCH = """
struct Matrix { unsigned width, height, pitch; float* elements; };
#define T 16
__global__ void product(Matrix M, Matrix N, Matrix P) {
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    if (row >= P.height || col >= P.width) return;
    float sum = 0;
    for (int k = 0; k < M.width; ++k) sum += M.elements[row * M.width + k] * N.elements[k * N.width + col];
    P.elements[row * P.width + col] = sum;
}
void run(Matrix M, Matrix N, Matrix P) {
    dim3 grid, block;
    block.x = block.y = T;
    grid.x = (P.width + T - 1) / T;
    grid.y = (P.height + T - 1) / T;
    product<<<grid, block>>>(M, N, P);
}
"""


def test_a_pitch_that_is_never_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are contiguous then; a kernel that reads one pitch and forgets the others stays wrong."""
    code, found = check(tmp_path, PITCH, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert found["launch"]["block"] == [16, 16, 1]
    forgets = PITCH.replace("row * M.width + k", "row * M.pitch + k")
    code, found = check(tmp_path, forgets, capsys, "--trial", "padded rows")
    assert (code, found["status"]) == (1, "wrong"), found


def test_bytes_of_a_struct_that_are_loaded() -> None:
    ptx = """.visible .entry k(.param .align 8 .b8 k_param_0[24]) {
    ld.param.u32 %r1, [k_param_0];
    ld.param.v2.u32 {%r2, %r3}, [k_param_0+4];
    ld.param.u64 %rd1, [k_param_0+16];
}"""
    assert used_bytes(ptx, "k", 0) == {*range(12), *range(16, 24)}
    assert used_bytes(ptx.replace("ld.param.u32 %r1, [k_param_0]", "mov.b64 %rd2, k_param_0"), "k", 0) is None


SPARSE = """
__global__ void spmm(const float* values, int* columns, int* rows, float* B, float* C, int K, int N) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int i = rows[row]; i < rows[row + 1]; ++i) sum += values[i] * B[columns[i] * N + col];
    C[row * N + col] = sum;
}
void run(float* v, int* c, int* r, float* B, float* C, int M, int N, int K) {
    spmm<<<dim3(N / 32, M / 8), dim3(32, 8)>>>(v, c, r, B, C, K, N);
}
"""


def test_a_sparse_product_gets_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = check(tmp_path, SPARSE, capsys, *QUICK)
    assert code == 2, said


def test_index_arrays_are_no_counters() -> None:
    kinds = [("float*", "A"), ("float*", "B"), ("float*", "C"), ("int*", "turn")]
    assert scratch_names(kinds, (), None, "int t = turn[0]; C[t] = 0;") == frozenset()
    for body in ("turn[0] = 1;", "atomicAdd(&turn[0], 1);", "atomicAdd(turn, 1);", "++turn[0];", "int t = turn[0]++;"):
        assert scratch_names(kinds, (), None, body) == {"turn"}, body


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mm_A_col_major_B_row_major", None),
        ("gemm_col_major", Layout(True)),
        ("matmul_row_major_tn", Layout(False, True)),
    ],
)
def test_orders_in_names(name: str, said: Layout | None) -> None:
    assert layout_in_name(name) == said


HALF_EPILOGUE = """
#include <cuda_fp16.h>
__global__ void mm(const half* A, const half* B, half* C, int M, int N, int K, half alpha, half beta) {
    int r = blockIdx.y * 8 + threadIdx.y, c = blockIdx.x * 32 + threadIdx.x;
    if (r >= M || c >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += __half2float(A[r * K + k]) * __half2float(B[k * N + c]);
    C[r * N + c] = __hadd(__hmul(alpha, __float2half(s)), __hmul(beta, C[r * N + c]));
}
void run(const half* A, const half* B, half* C, int M, int N, int K, half alpha, half beta) {
    mm<<<dim3((N + 31) / 32, (M + 7) / 8), dim3(32, 8)>>>(A, B, C, M, N, K, alpha, beta);
}
"""
STAGED = """
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
__global__ void mm(const bf16* A, const bf16* B, bf16* C, int M, int N, int K, float alpha, float beta) {
    __shared__ bf16 out[8][32];
    int r = blockIdx.y * 8 + threadIdx.y, c = blockIdx.x * 32 + threadIdx.x;
    float s = 0;
    if (r < M && c < N)
        for (int k = 0; k < K; ++k) s += __bfloat162float(A[r * K + k]) * __bfloat162float(B[k * N + c]);
    out[threadIdx.y][threadIdx.x] = __float2bfloat16(alpha * s);
    __syncthreads();
    if (r < M && c < N)
        C[r * N + c] = __float2bfloat16(__bfloat162float(out[threadIdx.y][threadIdx.x])
                                        + beta * __bfloat162float(C[r * N + c]));
}
void run(const bf16* A, const bf16* B, bf16* C, int M, int N, int K, float alpha, float beta) {
    mm<<<dim3((N + 31) / 32, (M + 7) / 8), dim3(32, 8)>>>(A, B, C, M, N, K, alpha, beta);
}
"""


@pytest.mark.parametrize(
    ("source", "right", "wrong"),
    [
        (HALF_EPILOGUE, "__hmul(beta, C", "__hmul(__hmul(beta, __float2half(1.01f)), C"),
        (STAGED, "+ beta *", "+ 1.03f * beta *"),
    ],
)
def test_an_epilogue_that_rounds_twice(
    source: str, right: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is judged with these roundings, and a scale that is off by more than they are is still found."""
    code, found = check(tmp_path, source, capsys, "--trial", "alpha and beta")
    assert (code, found["status"]) == (0, "right"), found
    assert any("more than once" in line for line in found["found"]), found["found"]
    code, found = check(tmp_path, source.replace(right, wrong), capsys, "--trial", "alpha and beta")
    assert (code, found["status"]) == (1, "wrong"), found


OVERLOADS = """
namespace lib {
struct __device_builtin__ __builtin_align__(16) quad { float data[4]; };
}
template <int T>
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x;
    lib::quad sum = {};
    if (r >= M || c >= N) return;
    for (int k = 0; k < K; ++k) sum.data[k % 4] += A[r * K + k] * B[k * N + c];
    C[r * N + c] = sum.data[0] + sum.data[1] + sum.data[2] + sum.data[3];
}
template <int T>
__global__ void mm(const float* A, const float* B, double* C, int M, int N, int K) { C[0] = 0; }
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    mm<16><<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_kernels_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is judged. Attributes before a type's name do not hide it from the device code."""
    code, found = check(tmp_path, OVERLOADS, capsys, *DISTINCT, "--entry", "mm")
    assert (code, [kernel["status"] for kernel in found["kernels"]]) == (0, ["right", "not_runnable"]), found


COMPENSATED = """
__global__ void kahan(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f, lost = 0.0f;
    for (int k = 0; k < K; ++k) {
        float y = __fadd_rn(__fmul_rn(A[(size_t)row * K + k], B[(size_t)k * N + col]), -lost);
        float t = __fadd_rn(sum, y);
        lost = __fadd_rn(__fadd_rn(t, -sum), -y);
        sum = t;
    }
    C[(size_t)row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    kahan<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""


def test_compensated_sums_are_for_finite_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Inf - Inf is NaN, which tells of the infinity; a finite number in its place does not."""
    code, found = check(tmp_path, COMPENSATED, capsys, "--cures", "0")
    assert (code, found["status"]) == (0, "right"), found
    assert any("an infinity in A, B or C gives NaN" in line for line in found["warnings"]), found["warnings"]
    swallowed = COMPENSATED.replace("        float t", "        if (!(y - y == 0.0f)) continue;\n        float t")
    code, found = check(tmp_path, swallowed, capsys, "--cures", "0")
    assert (code, found["status"]) == (1, "wrong"), found
