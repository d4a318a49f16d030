"""gemmsmith check on kernels whose bytes hold smaller numbers, and on launches whose grid counts products."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

# One warp for each 8x8 tile; a lane's operands as mma.m8n8k32 (4 bits) and m8n8k16 (8 bits) have them.
ON_TENSOR_CORES = """
#include <cstdint>
__global__ void small_gemm(const int8_t* A, const int8_t* B, int* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.x / 4, col = blockIdx.x * 8 + threadIdx.x / 4, part = threadIdx.x % 4;
    int d0 = 0, d1 = 0;
    for (int k = 0; k < K / PER_BYTE; k += 16) {
        int a = *(const int*)(A + row * (K / PER_BYTE) + k + part * 4);
        int b = *(const int*)(B + col * (K / PER_BYTE) + k + part * 4);
        asm volatile("mma.sync.aligned.SHAPE {%0, %1}, {%2}, {%3}, {%0, %1};" : "+r"(d0), "+r"(d1) : "r"(a), "r"(b));
    }
    C[row * N + blockIdx.x * 8 + part * 2] = d0;
    C[row * N + blockIdx.x * 8 + part * 2 + 1] = d1;
}
void run(const int8_t* A, const int8_t* B, int* C, int M, int N, int K) {
    small_gemm<<<dim3(N / 8, M / 8), 32>>>(A, B, C, M, N, K);
}
"""


def test_two_numbers_in_a_byte_are_not_called_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = ON_TENSOR_CORES.replace("SHAPE", "m8n8k32.row.col.s32.s4.s4.s32").replace("PER_BYTE", "2")
    code, said = check(tmp_path, source, capsys)
    assert code == 2, said
    assert "small_gemm multiplies 4-bit integers" in said
    assert "--args" in said


def test_one_number_in_a_byte_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = ON_TENSOR_CORES.replace("SHAPE", "m8n8k16.row.col.s32.s8.s8.s32").replace("PER_BYTE", "1")
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found


BATCHED_GRID = """
struct Sizes { int M, N, K; int num_batches, runs; };
__global__ void gemms(const float* A, const float* B, float* C, int M, int N, int K) {
    A += blockIdx.z * M * K, B += blockIdx.z * K * N, C += blockIdx.z * M * N;
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, const Sizes& cfg, cudaStream_t stream) {
    dim3 blocks((cfg.N + 31) / 32, (cfg.M + 7) / 8, cfg.num_batches);
    gemms<<<blocks, dim3(32, 8), 0, stream>>>(A, B, C, cfg.M, cfg.N, cfg.K);
}
CALLER
"""


@pytest.mark.parametrize("caller", ["", "int main() { Sizes cfg{512, 512, 512, 4, 10}; run(a, b, c, cfg, 0); }"])
def test_a_grid_with_a_block_for_each_product(caller: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One product is checked, whatever number host code has."""
    code, found = check(tmp_path, BATCHED_GRID.replace("CALLER", caller), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert found["launch"]["source"] == "launch site"
    assert found["launch"]["grid"][2] == 1


ROUNDED_TILES = """
#include <cuda_bf16.h>
__global__ void rounded(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __nv_bfloat16 a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float s = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a[y][x] = __float2bfloat16(row < M && k0 + x < K ? A[row * K + k0 + x] : 0);
        b[y][x] = __float2bfloat16(k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0);
        __syncthreads();
        for (int k = 0; k < 16; ++k) s += __bfloat162float(a[y][k]) * __bfloat162float(b[LAST][x]);
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    rounded<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("last", "status"), [("k", "right"), ("k ^ (row == 5)", "wrong")])
def test_tiles_in_a_narrow_type(
    last: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """Judged with the roundoff of that type, as operands of tensor cores are, and not more leniently."""
    code, found = check(tmp_path, ROUNDED_TILES.replace("LAST", last), capsys, "--trial", "random data")
    assert (code, found["status"]) == (int(status != "right"), status), found
    assert "it rounds its operands to bf16, and is judged as that" in found["found"]


COUNTED_LONG = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    for (size_t k = FIRST; k < K; ++k) s += A[row * K + (int)k] * B[(int)k * N + col];
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_a_counter_of_64_bits_promises_no_large_matrices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, COUNTED_LONG.replace("FIRST", "0"), capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert any("more than 2³¹" in trial["label"] and not trial["ok"] for trial in found["trials"])


FIXED = """
#define M 16
#define N 8
#define M_TOTAL (M * 4)
#define N_TOTAL (N * 12)
#define K_TOTAL 32
__global__ void fixed(const float* A, const float* B, float* C) {
    int row = blockIdx.y * M + threadIdx.y, col = blockIdx.x * N + threadIdx.x;
    float s = 0;
    for (int k = 0; k < K_TOTAL; ++k) s += A[row * K_TOTAL + k] * B[k * N_TOTAL + WHICH];
    C[row * N_TOTAL + col] = s;
}
void run(const float* A, const float* B, float* C) {
    dim3 gridDim, blockDim;
    blockDim.x = N;
    blockDim.y = M;
    gridDim.x = (N_TOTAL + N - 1) / N;
    gridDim.y = (M_TOTAL + M - 1) / M;
    fixed<<<gridDim, blockDim>>>(A, B, C);
}
"""


@pytest.mark.parametrize(("which", "status"), [("col", "right"), ("(col ^ 1)", "wrong")])
def test_totals_beside_the_tile_and_a_grid_set_part_by_part(
    which: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    source = FIXED.replace("WHICH", which)
    code, found = check(tmp_path, source, capsys, "--trial", "integers, bit for bit")
    assert (code, found["status"], found["launch"]["source"]) == (int(status != "right"), status, "launch site"), found
    assert found["launch"]["grid"] == [12, 4, 1]
