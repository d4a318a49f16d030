"""Kernels whose tiles are numbered, loaded ahead or stored in a wrong way."""

from __future__ import annotations

from faulty_kernel import Faulty

_AHEAD = """
#define T 16
__global__ void ahead(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float sa[T][T], sb[T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0.f;
    float one = row < M && x < K ? A[row * K + x] : 0.f, two = y < K && col < N ? B[y * N + col] : 0.f;
    for (int k = T; k < K; k += T) { //!
        sa[y][x] = one;
        sb[y][x] = two;
        __syncthreads();
        one = row < M && k + x < K ? A[row * K + k + x] : 0.f;
        two = k + y < K && col < N ? B[(k + y) * N + col] : 0.f;
        for (int i = 0; i < T; ++i) sum += sa[y][i] * sb[i][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    ahead<<<dim3((N + T - 1) / T, (M + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);
}
"""
_STRIPS = """
#define T 16
#define STRIPS 2
__global__ void strips(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * T + threadIdx.y, left = blockIdx.x * T * STRIPS + threadIdx.x;
    float sum[STRIPS] = {};
    for (int k = 0; k < K; ++k)
        for (int s = 0; s < STRIPS; ++s) {
            int from = left + s * T;
            if (row < M && from < N) sum[s] += A[row * K + k] * B[k * N + from];
        }
    for (int s = 0; s < STRIPS; ++s) {
        int to = left + s; //!
        if (row < M && to < N) C[row * N + to] = sum[s];
    }
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    dim3 grid((N + T * STRIPS - 1) / (T * STRIPS), (M + T - 1) / T);
    strips<<<grid, dim3(T, T)>>>(A, B, C, M, N, K);
}
"""
_GROUPS = """
#define T 8
#define GROUP 3
__global__ void groups(const float* A, const float* B, float* C, int M, int N, int K) {
    int down = (M + T - 1) / T, across = (N + T - 1) / T, block = blockIdx.x;
    int first = block / (GROUP * across) * GROUP, size = min(down - first, GROUP);
    int place = block % (GROUP * across);
    int row = (first + place % GROUP) * T + threadIdx.y, col = place / size * T + threadIdx.x; //!
    float sum = 0.f;
    for (int k = 0; k < K; ++k)
        if (row < M && col < N) sum += A[row * K + k] * B[k * N + col];
    if (row < M && col < N) C[row * N + col] = sum;
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    groups<<<((M + T - 1) / T) * ((N + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);
}
"""
_QUOTIENT = """
__global__ void quarters(const float* A, const float* B, float* C, int M, int N, int K) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = blockIdx.y * 16 + warp / 2 * 8 + lane / 4;
    int col = blockIdx.x * 8 + warp / 2 * 4 + lane % 4; //!
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    quarters<<<dim3((N + 7) / 8, (M + 15) / 16), 128>>>(A, B, C, M, N, K);
}
"""
_TF32 = """
__global__ void tf32(const float* A, const float* B, float* C, int M, int N, int K) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4, row = blockIdx.y * 16, col = blockIdx.x * 8;
    float c[4] = {};
    for (int k = 0; k < K; k += 8) {
        unsigned a[4], b[2];
        a[0] = __float_as_uint(A[(row + g) * K + k + t]);
        a[1] = __float_as_uint(A[(row + g) * K + k + t + 4]); //!
        a[2] = __float_as_uint(A[(row + g + 8) * K + k + t]); //!
        a[3] = __float_as_uint(A[(row + g + 8) * K + k + t + 4]);
        b[0] = __float_as_uint(B[(k + t) * N + col + g]);
        b[1] = __float_as_uint(B[(k + t + 4) * N + col + g]);
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    C[(row + g) * N + col + t * 2] = c[0];
    C[(row + g) * N + col + t * 2 + 1] = c[1];
    C[(row + g + 8) * N + col + t * 2] = c[2];
    C[(row + g + 8) * N + col + t * 2 + 1] = c[3];
}
void f(float* A, float* B, float* C, int M, int N, int K) {
    tf32<<<dim3(N / 8, M / 16), 32>>>(A, B, C, M, N, K);
}
"""
_WORDS = """
#include <cstdint>
__global__ void bytes(const int8_t* A, const int8_t* B, int* C, int M, int N, int K) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    const int* a = reinterpret_cast<const int*>(A + row * K);
    const int* b = reinterpret_cast<const int*>(B + col * K);
    int sum = 0;
    for (int w = 0; w < K / 4; w += 4) sum = __dp4a(a[w], b[w], sum); //!
    C[row * N + col] = sum;
}
void f(int8_t* A, int8_t* B, int* C, int M, int N, int K) {
    bytes<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
TILES = (
    Faulty("last_tile_unused", _AHEAD, "unused-tile", "k < K + T", 1),
    Faulty("strips_side_by_side", _STRIPS, "unlike-index", "left + s * T", 1),
    Faulty("last_group", _GROUPS, "group-size", "place % size", 1),
    Faulty("two_quotients", _QUOTIENT, "repeated-quotient", "warp % 2 * 4", 1),
    Faulty("tf32_registers", _TF32, "interchanged-registers", "", 2),
    Faulty("words_skipped", _WORDS, "loop-step", "++w", 1),
)
