"""Correct products in seven styles, from which wrong ones are made by one change each.

Lines that a mutation replaces end with a comment that names them, so that a template can be edited without breaking
its mutants.
"""

from __future__ import annotations

NAIVE = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y;  // row
    int col = blockIdx.x * 16 + threadIdx.x;  // col
    if (row >= M || col >= N) return;  // guard
    float acc = 0.0f;  // init
    for (int k = 0; k < K; ++k) {  // loop
        acc += A[(size_t)row * K + k] * B[(size_t)k * N + col];  // term
    }
    // after
    C[(size_t)row * N + col] = acc;  // store
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16)
"""

SCALED = """
__global__ void gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                     float* C, int ldc) {
    int row = blockIdx.y * 16 + threadIdx.y;  // row
    int col = blockIdx.x * 16 + threadIdx.x;  // col
    if (row >= M || col >= N) return;  // guard
    float acc = 0.0f;  // init
    if (alpha != 0.0f)  // alpha zero
        for (int k = 0; k < K; ++k) {  // loop
            acc += A[(size_t)row * lda + k] * B[(size_t)k * ldb + col];  // term
        }
    float old = beta == 0.0f ? 0.0f : C[(size_t)row * ldc + col];  // old
    C[(size_t)row * ldc + col] = alpha * acc + beta * old;  // store
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16)
"""

TILED = """
#define TILE 16
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    int ty = threadIdx.y, tx = threadIdx.x;
    int row = blockIdx.y * TILE + ty;  // row
    int col = blockIdx.x * TILE + tx;  // col
    float acc = 0.0f;  // init
    int tiles = (K + TILE - 1) / TILE;  // tiles
    for (int t = 0; t < tiles; ++t) {  // loop
        int ka = t * TILE + tx, kb = t * TILE + ty;
        As[ty][tx] = row < M && ka < K ? A[(size_t)row * K + ka] : 0.0f;  // load A
        Bs[ty][tx] = kb < K && col < N ? B[(size_t)kb * N + col] : 0.0f;  // load B
        __syncthreads();
        for (int k = 0; k < TILE; ++k) acc += As[ty][k] * Bs[k][tx];  // term
        __syncthreads();
    }
    // after
    if (row < M && col < N) C[(size_t)row * N + col] = acc;  // store
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16)
"""

# Register blocking (4x4 outputs a thread), two buffers of shared memory.
DOUBLE = """
constexpr int BM = 64, BN = 64, BK = 8, T = 4;
__global__ void gemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    __shared__ float As[2][BK][BM];
    __shared__ float Bs[2][BK][BN];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;  // origin
    float acc[T][T] = {};  // init
    auto load = [&](int buffer, int k0) {
        for (int i = tid; i < BM * BK; i += 256) {
            int r = i / BK, k = i % BK;
            As[buffer][k][r] = row0 + r < M && k0 + k < K ? A[(size_t)(row0 + r) * K + k0 + k] : 0.0f;  // load A
        }
        for (int i = tid; i < BK * BN; i += 256) {
            int k = i / BN, c = i % BN;
            Bs[buffer][k][c] = k0 + k < K && col0 + c < N ? B[(size_t)(k0 + k) * N + col0 + c] : 0.0f;  // load B
        }
    };
    load(0, 0);  // first
    __syncthreads();
    int tiles = (K + BK - 1) / BK;  // tiles
    for (int t = 0; t < tiles; ++t) {  // loop
        int now = t & 1;  // now
        if (t + 1 < tiles) load(now ^ 1, (t + 1) * BK);  // next
        for (int k = 0; k < BK; ++k)  // inner
            for (int i = 0; i < T; ++i)
                for (int j = 0; j < T; ++j) acc[i][j] += As[now][k][ty * T + i] * Bs[now][k][tx * T + j];  // term
        __syncthreads();
    }
    for (int i = 0; i < T; ++i)
        for (int j = 0; j < T; ++j) {
            int row = row0 + ty * T + i, col = col0 + tx * T + j;
            if (row >= M || col >= N) continue;  // guard
            float* c = C + (size_t)row * N + col;
            float sum = acc[i][j];  // sum
            *c = beta == 0.0f ? alpha * sum : alpha * sum + beta * *c;  // store
        }
}
// gemmsmith: block=256 grid=ceil(N/64),ceil(M/64)
"""

# float4 loads and stores, whole tiles only.
VECTOR = """
constexpr int BM = 64, BN = 64, BK = 8;
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[BK][BM];
    __shared__ float Bs[BK][BN];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    const float* a = A + (size_t)blockIdx.y * BM * K;  // origin A
    const float* b = B + (size_t)blockIdx.x * BN;  // origin B
    float acc[4][4] = {};  // init
    for (int k0 = 0; k0 < K; k0 += BK) {  // loop
        if (tid < 128) {
            int r = tid / 2, k = tid % 2 * 4;
            float4 v = *(const float4*)&a[(size_t)r * K + k0 + k];  // load A
            As[k][r] = v.x; As[k + 1][r] = v.y; As[k + 2][r] = v.z; As[k + 3][r] = v.w;
        } else {
            int k = (tid - 128) / 16, c = tid % 16 * 4;
            *(float4*)&Bs[k][c] = *(const float4*)&b[(size_t)(k0 + k) * N + c];  // load B
        }
        __syncthreads();
        for (int k = 0; k < BK; ++k)  // inner
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] += As[k][ty * 4 + i] * Bs[k][tx * 4 + j];  // term
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        float4 v = {acc[i][0], acc[i][1], acc[i][2], acc[i][3]};  // sum
        *(float4*)&C[((size_t)blockIdx.y * BM + ty * 4 + i) * N + blockIdx.x * BN + tx * 4] = v;  // store
    }
}
// gemmsmith: block=256 grid=N/64,M/64
"""

# Tensor cores: a warp for each 16x16 outputs, fp16 to fp32.
MMA = """
#include <mma.h>
using namespace nvcuda;
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K) {
    int warp = threadIdx.x / 32;
    int row = blockIdx.y * 32 + warp / 2 * 16, col = blockIdx.x * 32 + warp % 2 * 16;  // origin
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);  // init
    for (int k = 0; k < K; k += 16) {  // loop
        wmma::load_matrix_sync(a, A + (size_t)row * K + k, K);  // load A
        wmma::load_matrix_sync(b, B + (size_t)k * N + col, N);  // load B
        wmma::mma_sync(c, a, b, c);  // term
    }
    // after
    wmma::store_matrix_sync(C + (size_t)row * N + col, c, N, wmma::mem_row_major);  // store
}
// gemmsmith: block=128 grid=N/32,M/32
"""

BATCHED = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K, long long strideA,
                     long long strideB, long long strideC) {
    A += blockIdx.z * strideA;  // batch A
    B += blockIdx.z * strideB;  // batch B
    C += blockIdx.z * strideC;  // batch C
    int row = blockIdx.y * 16 + threadIdx.y;  // row
    int col = blockIdx.x * 16 + threadIdx.x;  // col
    if (row >= M || col >= N) return;  // guard
    float acc = 0.0f;  // init
    for (int k = 0; k < K; ++k) acc += A[(size_t)row * K + k] * B[(size_t)k * N + col];  // term
    // after
    C[(size_t)row * N + col] = acc;  // store
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16),BATCH
"""

TEMPLATES = {
    "naive": NAIVE, "scaled": SCALED, "tiled": TILED, "double": DOUBLE, "vector": VECTOR, "mma": MMA,
    "batched": BATCHED,
}  # fmt: skip


def changed(template: str, line: str, code: str) -> str:
    """The template with the line that is named ``line`` replaced by ``code``."""
    lines = TEMPLATES[template].split("\n")
    at = [n for n, text in enumerate(lines) if text.endswith(f"// {line}")]
    assert len(at) == 1, f"{template} has {len(at)} lines named {line!r}"
    lines[at[0]] = code
    return "\n".join(lines)


def original(template: str, line: str) -> str:
    """The line that is named ``line``, without its name."""
    found = [text for text in TEMPLATES[template].split("\n") if text.endswith(f"// {line}")]
    return found[0].rsplit("//", 1)[0].rstrip()
