"""Kernels whose mistake no small change cures: check shows its evidence and names no cause."""

from __future__ import annotations

from faulty_kernel import Faulty
from faulty_races import BARRIER, SPLIT_K, TILED
from faulty_values import BLOCKTILE, NAIVE, SHUFFLE, change

_TILED = TILED % (BARRIER, BARRIER)
_SHARED_SLOT = """
__global__ void one_slot(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float best[1];
    int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    best[0] = sum;  // every thread, each another value
    __syncthreads();
    C[row * N + col] = sum + 0.f * best[0];
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    one_slot<<<dim3(N / 64, M), 64>>>(A, B, C, M, N, K);
}
"""
_LOOP_OF_BARRIERS = """
__global__ void uneven(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float row_of_a[64];
    int row = blockIdx.y, col = blockIdx.x * 64 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < K + (int)threadIdx.x % 2; ++k) {
        if (threadIdx.x == 0) row_of_a[k % 64] = k < K ? A[row * K + k] : 0.f;
        __syncthreads();
        if (k < K) sum += row_of_a[k % 64] * B[k * N + col];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    uneven<<<dim3(N / 64, M), 64>>>(A, B, C, M, N, K);
}
"""

INCURABLE = [
    Faulty("every_other_term", change(NAIVE, "sum += A[", "if (k % 2 == 0) sum += A["), ""),
    Faulty("half_a_tile", change(_TILED, "k < T;", "k < T / 2;"), ""),
    Faulty("swizzled_store_only", change(_TILED, "Bs[ty][tx] =", "Bs[ty][tx ^ 5] ="), ""),
    Faulty("later_terms_lost", change(BLOCKTILE, "threadResults[resIdx] += As",
                                      "if (bkIdx < 24) threadResults[resIdx] += As"), ""),
    Faulty("split_k_overwrites", SPLIT_K.replace("C[row * N + col] += sum;  //!", "C[row * N + col] = sum;"), ""),
    Faulty("one_shared_slot", _SHARED_SLOT, ""),
    Faulty("uneven_barriers", _LOOP_OF_BARRIERS, ""),
    Faulty("broadcast_of_another_lane", change(SHUFFLE, "if (lane == 0) C", "if (lane == 1) C"), ""),
]  # fmt: skip
