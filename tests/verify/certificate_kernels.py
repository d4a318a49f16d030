"""Kernels for tests of certificates: small right ones in several styles, and ways to get them wrong."""

from __future__ import annotations

from pathlib import Path

from ptx_only import compile_to_ptx

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.oracles.certificate import Certificate, certify

ARCH = "sm_90"

PLAIN = """
__global__ void gemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
"""

TILED = """
__global__ void gemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float As[16][17], Bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 16) {
        As[ty][tx] = row < M && k + tx < K ? A[row * K + k + tx] : 0.0f;
        Bs[ty][tx] = col < N && k + ty < K ? B[(k + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += As[ty][i] * Bs[i][tx];
        __syncthreads();
    }
    if (row >= M || col >= N) return;
    if (beta == 0.0f) C[row * N + col] = alpha * sum;
    else C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
"""

# One warp for each output: lanes take every 32nd k, and shuffles add them as a tree.
SHUFFLED = """
__global__ void gemm(int M, int N, int K, const float* A, const float* B, float* C) {
    int row = blockIdx.y, col = blockIdx.x, lane = threadIdx.x;
    float sum = 0.0f;
    for (int k = lane; k < K; k += 32) sum += A[row * K + k] * B[k * N + col];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (lane == 0) C[row * N + col] = sum;
}
"""

# Four parts of K, which atomics add to C.
SPLIT = """
__global__ void gemm(int M, int N, int K, const float* A, const float* B, float* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x, part = K / 4;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = blockIdx.z * part; k < (blockIdx.z + 1) * part; ++k) sum += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], sum);
}
"""

# Partial sums of eight products, each added to the accumulator.
TWO_LEVELS = """
__global__ void gemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 8) {
        float part = 0.0f;
        for (int i = 0; i < 8; ++i) part += A[row * K + k + i] * B[(k + i) * N + col];
        sum += part;
    }
    C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
"""

HALF = """
#include <cuda_fp16.h>
__global__ void gemm(int M, int N, int K, float alpha, const __half* A, const __half* B, float beta, __half* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
    C[row * N + col] = __float2half(alpha * sum + beta * __half2float(C[row * N + col]));
}
"""

# Pairs of columns, packed and unpacked, in bf16.
PAIRS = """
#include <cuda_bf16.h>
__global__ void gemm(int M, int N, int K, const __nv_bfloat16* A, const __nv_bfloat16* B, float* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = 2 * (blockIdx.x * 8 + threadIdx.x);
    if (row >= M || col >= N) return;
    float low = 0.0f, high = 0.0f;
    for (int k = 0; k < K; ++k) {
        unsigned word = *reinterpret_cast<const unsigned*>(&B[k * N + col]);
        float a = __bfloat162float(A[row * K + k]);
        low += a * __uint_as_float(word << 16);
        high += a * __uint_as_float(word & 0xffff0000u);
    }
    C[row * N + col] = low;
    C[row * N + col + 1] = high;
}
"""

HALF_PAIRS = """
#include <cuda_fp16.h>
__global__ void gemm(int M, int N, int K, const __half* A, const __half* B, __half* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = 2 * (blockIdx.x * 8 + threadIdx.x);
    if (row >= M || col >= N) return;
    __half2 sum = __float2half2_rn(0.0f);
    for (int k = 0; k < K; ++k)
        sum = __hfma2(__half2half2(A[row * K + k]), *reinterpret_cast<const __half2*>(&B[k * N + col]), sum);
    *reinterpret_cast<__half2*>(&C[row * N + col]) = sum;
}
"""

# Eight accumulators in local memory; which k each gets depends on the row.
LOCAL = """
__global__ void gemm(int M, int N, int K, const float* A, const float* B, float* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float parts[8] = {};
    for (int k = 0; k < K; ++k) parts[(k * (row + 1)) % 8] += A[row * K + k] * B[k * N + col];
    float sum = 0.0f;
    for (int i = 0; i < 8; ++i) sum += parts[i];
    C[row * N + col] = sum;
}
"""

BYTES = """
__global__ void gemm(int M, int N, int K, const signed char* A, const signed char* B, int* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    int sum = 0;
    for (int k = 0; k < K; k += 4) {
        int b = 0;
        for (int i = 0; i < 4; ++i) b |= (B[(k + i) * N + col] & 0xff) << (8 * i);
        sum = __dp4a(*reinterpret_cast<const int*>(&A[row * K + k]), b, sum);
    }
    C[row * N + col] = sum;
}
"""

# The compiler makes dp2a of it: two 16-bit parts of a word, and two bytes.
PAIRS_OF_BYTES = """
__global__ void gemm(int M, int N, int K, const signed char* A, const signed char* B, int* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    int sum = 0;
    for (int k = 0; k + 1 < K; k += 2) {
        short low = A[row * K + k], high = A[row * K + k + 1];
        int a = (low & 0xffff) | (high << 16), b = (B[k * N + col] & 0xff) | (B[(k + 1) * N + col] & 0xff) << 8;
        sum = __dp2a_lo(a, b, sum);
    }
    C[row * N + col] = sum;
}
"""

# A function that is called, with matrices and sums as arguments.
CALLED = """
__device__ __noinline__ float term(float sum, float a, float b) { return fmaf(a, b, sum); }
__global__ void gemm(int M, int N, int K, const float* A, const float* B, float* C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum = term(sum, A[row * K + k], B[k * N + col]);
    C[row * N + col] = sum;
}
"""


def spec_of(folder: Path, source: str, block: str = "16,16", grid: str = "") -> KernelSpec:
    path = folder / "gemm.cu"
    path.write_text(source, encoding="utf-8")
    return user_kernel(path, UserOptions(block=block, grid=grid))


def certificate_of(
    folder: Path, source: str, shape: tuple[int, int, int] = (32, 48, 64), block: str = "16,16", grid: str = "",
    any_m: bool = True, **changes: object,
) -> Certificate:  # fmt: skip
    spec = spec_of(folder, source, block, grid)
    problem: Problem = spec.problem(*shape, **changes)
    return certify(spec, spec.config(), problem, compile_to_ptx, ARCH, any_m=any_m)
