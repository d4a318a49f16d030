"""Kernels that race, each with the cure that check must name. `//!` marks the line that the change belongs to."""

from __future__ import annotations

from faulty_kernel import Faulty

TILED = """
#define T 16
__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T], Bs[T][T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        As[ty][tx] = (row < M && k0 + tx < K) ? A[row * K + k0 + tx] : 0.0f;
        Bs[ty][tx] = (col < N && k0 + ty < K) ? B[(k0 + ty) * N + col] : 0.0f;%s
        for (int k = 0; k < T; ++k)
            acc += As[ty][k] * Bs[k][tx];%s
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    tiled<<<dim3((N + T - 1) / T, (M + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);
}
"""
BARRIER = "\n        __syncthreads();"

HELPERS = """
template <int BM, int BK>
__device__ void load_a(float (&As)[BK][BM], const float* A, int row0, int k0, int M, int K, int tid) {
    for (int i = tid; i < BM * BK; i += 256) {
        int m = i / BK, k = i %% BK;
        As[k][m] = (row0 + m < M && k0 + k < K) ? A[(row0 + m) * K + k0 + k] : 0.f;
    }
}
template <int BN, int BK>
__device__ void load_b(float (&Bs)[BK][BN], const float* B, int col0, int k0, int N, int K, int tid) {
    for (int i = tid; i < BN * BK; i += 256) {
        int k = i / BN, n = i %% BN;
        Bs[k][n] = (col0 + n < N && k0 + k < K) ? B[(k0 + k) * N + col0 + n] : 0.f;
    }
}
template <int BM, int BN, int BK>
__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float As[BK][BM];
    __shared__ float Bs[BK][BN];
    int tid = threadIdx.x, tr = tid / 16 * 4, tc = tid %% 16 * 4;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        load_a<BM, BK>(As, A, row0, k0, M, K, tid);
        load_b<BN, BK>(Bs, B, col0, k0, N, K, tid);%s
        #pragma unroll
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j)
                    acc[i][j] += As[k][tr + i] * Bs[k][tc + j];%s
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            int r = row0 + tr + i, c = col0 + tc + j;
            if (r < M && c < N) C[r * N + c] = alpha * acc[i][j] + (beta == 0.f ? 0.f : beta * C[r * N + c]);
        }
}
void run(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C) {
    dim3 grid((N + 63) / 64, (M + 63) / 64);
    sgemm<64, 64, 8><<<grid, 256>>>(M, N, K, alpha, A, B, beta, C);
}
"""

DOUBLE = """
#include <cuda_pipeline.h>
constexpr int BM = 32, BN = 32, BK = 16;
__global__ void gemm_async(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K) {
    __shared__ __align__(16) float As[2][BM][BK];
    __shared__ __align__(16) float Bs[2][BK][BN];
    const int t = threadIdx.x;
    auto load = [&](int stage, int k0) {
        __pipeline_memcpy_async(&As[stage][t / 4][t %% 4 * 4], &A[(blockIdx.y * BM + t / 4) * K + k0 + t %% 4 * 4], 16);
        __pipeline_memcpy_async(&Bs[stage][t / 8][t %% 8 * 4], &B[(k0 + t / 8) * N + blockIdx.x * BN + t %% 8 * 4], 16);
        __pipeline_commit();
    };
    float acc[8] = {};
    load(0, 0);
    for (int k0 = 0, s = 0; k0 < K; k0 += BK, s ^= 1) {
        if (k0 + BK < K) load(s ^ 1, k0 + BK);
        else __pipeline_commit();%s
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 8; ++i)
                acc[i] += As[s][t / 32 * 8 + i][k] * Bs[s][k][t %% 32];%s
    }
    for (int i = 0; i < 8; ++i)
        C[(blockIdx.y * BM + t / 32 * 8 + i) * N + blockIdx.x * BN + t %% 32] = acc[i];
}
void host(float* A, float* B, float* C, int M, int N, int K) {
    gemm_async<<<dim3(N / BN, M / BM), 128>>>(A, B, C, M, N, K);
}
"""
WAIT = "\n        __pipeline_wait_prior(1);"

PTX_COPIES = """
#define CP_ASYNC16(dst, src) asm volatile("cp.async.cg.shared.global [%%0], [%%1], 16;\\n" ::"r"(dst), "l"(src))
#define CP_COMMIT() asm volatile("cp.async.commit_group;\\n" ::)
#define CP_WAIT(n) asm volatile("cp.async.wait_group %%0;\\n" ::"n"(n))
#define TILE 32
__global__ void hgemm_like(int M, int N, int K, const float *A, const float *B, float *C) {
    __shared__ __align__(16) float sa[TILE * TILE];
    __shared__ __align__(16) float sb[TILE * TILE];
    int t = threadIdx.x, r = t / 8, c = t %% 8 * 4;
    unsigned da = (unsigned)__cvta_generic_to_shared(&sa[r * TILE + c]);
    unsigned db = (unsigned)__cvta_generic_to_shared(&sb[r * TILE + c]);
    float sum[4] = {0.f, 0.f, 0.f, 0.f};
    for (int kt = 0; kt < K / TILE; kt++) {
        CP_ASYNC16(da, A + (blockIdx.y * TILE + r) * K + kt * TILE + c);
        CP_ASYNC16(db, B + (kt * TILE + r) * N + blockIdx.x * TILE + c);
        CP_COMMIT();%s
        for (int k = 0; k < TILE; k++)
            for (int j = 0; j < 4; j++)
                sum[j] += sa[r * TILE + k] * sb[k * TILE + c + j];%s
    }
    for (int j = 0; j < 4; j++) C[(blockIdx.y * TILE + r) * N + blockIdx.x * TILE + c + j] = sum[j];
}
void run(int M, int N, int K, float *A, float *B, float *C) {
    dim3 g(N / TILE, M / TILE);
    hgemm_like<<<g, 256>>>(M, N, K, A, B, C);
}
"""

WARP = """
// One warp per 8x8 tile; lanes swap through shared memory.
__global__ void warp_tile(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float tile[4][8][8];
    int warp = threadIdx.x / 32, lane = threadIdx.x %% 32;
    int row0 = (blockIdx.x * 4 + warp) * 8, col0 = blockIdx.y * 8;
    float acc0 = 0, acc1 = 0;
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = lane; i < 64; i += 32) tile[warp][i / 8][i %% 8] = A[(row0 + i / 8) * K + k0 + i %% 8];%s
        for (int k = 0; k < 8; ++k) {
            float b = B[(k0 + k) * N + col0 + lane %% 8];
            acc0 += tile[warp][lane / 8][k] * b;
            acc1 += tile[warp][lane / 8 + 4][k] * b;
        }%s
    }
    C[(row0 + lane / 8) * N + col0 + lane %% 8] = acc0;
    C[(row0 + lane / 8 + 4) * N + col0 + lane %% 8] = acc1;
}
void go(float* A, float* B, float* C, int M, int N, int K) {
    warp_tile<<<dim3(M / 32, N / 8), 128>>>(A, B, C, M, N, K);
}
"""

SPLIT_K = """
__global__ void split_k(const float *A, const float *B, float *C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int part = (K + gridDim.z - 1) / gridDim.z;
    if (row < M && col < N) {
        float sum = 0;
        int end = min(K, (int)(blockIdx.z + 1) * part);
        for (int k = blockIdx.z * part; k < end; k++) sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] += sum;  //!
    }
}
void launch(float *A, float *B, float *C, int M, int N, int K) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16, 4);
    split_k<<<grid, block>>>(A, B, C, M, N, K);
}
"""

VECTORISED = """
#define FLOAT4(x) (*reinterpret_cast<float4*>(&(x)))
#define CFLOAT4(x) (*reinterpret_cast<const float4*>(&(x)))
template <const int BM, const int BN, const int BK, const int TM, const int TN>
__global__ void __launch_bounds__(64) sgemmVectorize(int M, int N, int K, float alpha, const float *A, const float *B,
                                                     float beta, float *C) {
  const uint cRow = blockIdx.y;
  const uint cCol = blockIdx.x;
  const int threadCol = threadIdx.x %% (BN / TN);
  const int threadRow = threadIdx.x / (BN / TN);
  __shared__ float As[BM * BK];
  __shared__ float Bs[BK * BN];
  A += cRow * BM * K;
  B += cCol * BN;
  C += cRow * BM * N + cCol * BN;
  const uint innerRowA = threadIdx.x / (BK / 4);
  const uint innerColA = threadIdx.x %% (BK / 4);
  const uint innerRowB = threadIdx.x / (BN / 4);
  const uint innerColB = threadIdx.x %% (BN / 4);
  float threadResults[TM * TN] = {0.0};
  float regM[TM] = {0.0};
  float regN[TN] = {0.0};
  for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
    float4 tmp = CFLOAT4(A[innerRowA * K + innerColA * 4]);
    As[(innerColA * 4 + 0) * BM + innerRowA] = tmp.x;
    As[(innerColA * 4 + 1) * BM + innerRowA] = tmp.y;
    As[(innerColA * 4 + 2) * BM + innerRowA] = tmp.z;
    As[(innerColA * 4 + 3) * BM + innerRowA] = tmp.w;
    for (uint off = 0; off < BK; off += 4)
      FLOAT4(Bs[(innerRowB + off) * BN + innerColB * 4]) = CFLOAT4(B[(innerRowB + off) * N + innerColB * 4]);%s
    A += BK;
    B += BK * N;
    for (uint dotIdx = 0; dotIdx < BK; ++dotIdx) {
      for (uint i = 0; i < TM; ++i) regM[i] = As[dotIdx * BM + threadRow * TM + i];
      for (uint i = 0; i < TN; ++i) regN[i] = Bs[dotIdx * BN + threadCol * TN + i];
      for (uint m = 0; m < TM; ++m)
        for (uint n = 0; n < TN; ++n) threadResults[m * TN + n] += regM[m] * regN[n];
    }%s
  }
  for (uint m = 0; m < TM; ++m)
    for (uint n = 0; n < TN; n += 4) {
      float4 tmp = FLOAT4(C[(threadRow * TM + m) * N + threadCol * TN + n]);
      tmp.x = alpha * threadResults[m * TN + n] + beta * tmp.x;
      tmp.y = alpha * threadResults[m * TN + n + 1] + beta * tmp.y;
      tmp.z = alpha * threadResults[m * TN + n + 2] + beta * tmp.z;
      tmp.w = alpha * threadResults[m * TN + n + 3] + beta * tmp.w;
      FLOAT4(C[(threadRow * TM + m) * N + threadCol * TN + n]) = tmp;
    }
}
void runSgemmVectorize(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
  dim3 gridDim(N / 64, M / 32);
  sgemmVectorize<32, 64, 8, 4, 8><<<gridDim, 64>>>(M, N, K, alpha, A, B, beta, C);
}
"""

REDUCTION = """
__global__ void dot_rows(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ float part[];
    int row = blockIdx.y, col = blockIdx.x, t = threadIdx.x;
    float s = 0.f;
    for (int k = t; k < K; k += blockDim.x) s += A[row * K + k] * B[k * N + col];
    part[t] = s;%s
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half)
            part[t] += part[t + half];%s
    }
    if (t == 0) C[row * N + col] = part[0];
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    dot_rows<<<dim3(N, M), 128, 128 * sizeof(float)>>>(A, B, C, M, N, K);
}
"""

_B = "missing-barrier"
MARK = "  //!"
WAIT_ALL = "\n        CP_WAIT(0);"

RACES = [
    Faulty("tiled_no_barrier_at_the_end", TILED % (BARRIER, MARK), _B),
    Faulty("tiled_no_barrier_after_the_stores", TILED % (MARK, BARRIER), _B),
    Faulty("tiled_no_barrier_at_all", TILED % (MARK, MARK), _B, edits=2),
    Faulty("helpers_no_barrier_after_the_loads", HELPERS % (MARK, BARRIER), _B),
    Faulty("helpers_no_barrier_at_the_end", HELPERS % (BARRIER, MARK), _B),
    Faulty("helpers_no_barrier_at_all", HELPERS % (MARK, MARK), _B, edits=2),
    Faulty("async_wait_count", DOUBLE % (WAIT + MARK + BARRIER, BARRIER), "", cured=True),
    Faulty("async_no_wait", DOUBLE % (MARK + BARRIER, BARRIER), "missing-wait"),
    Faulty("async_no_barrier_after_the_wait", DOUBLE % (WAIT + MARK, BARRIER), _B),
    Faulty("async_no_barrier_at_the_end", DOUBLE % (WAIT + BARRIER, MARK), _B),
    Faulty("async_waits_for_too_few", DOUBLE % (WAIT.replace("1", "2") + MARK + BARRIER, BARRIER), "wait-count"),
    Faulty("macro_copies_no_wait", PTX_COPIES % (MARK + BARRIER, BARRIER), "missing-wait"),
    Faulty("macro_copies_no_barrier_after_the_wait", PTX_COPIES % (WAIT_ALL + MARK, BARRIER), _B),
    Faulty(
        "macro_copies_wait_count", PTX_COPIES % (WAIT_ALL.replace("0", "1") + MARK + BARRIER, BARRIER), "wait-count"
    ),
    Faulty("macro_copies_no_barrier_at_the_end", PTX_COPIES % (WAIT_ALL + BARRIER, MARK), _B),
    Faulty("warp_no_syncwarp_after_the_stores", WARP % (MARK, "\n        __syncwarp();"), _B, text="__syncwarp();"),
    Faulty("warp_no_syncwarp_at_the_end", WARP % ("\n        __syncwarp();", MARK), _B, text="__syncwarp();"),
    Faulty("split_k_without_atomic", SPLIT_K, "missing-atomic", text="atomicAdd"),
    Faulty("vectorised_no_barrier_after_the_stores", VECTORISED % (MARK, BARRIER), _B),
    Faulty("vectorised_no_barrier_at_the_end", VECTORISED % (BARRIER, MARK), _B),
    Faulty("reduction_no_barrier_before", REDUCTION % (MARK, BARRIER), _B),
    Faulty("reduction_no_barrier_in_the_loop", REDUCTION % (BARRIER, MARK), _B),
]
