"""Warps with roles, waits by parity, flags between blocks, and launches that do not fit the kernel."""

from __future__ import annotations

from faulty_kernel import Faulty

# Threads from 64 on fill two stages of 8 k, the others multiply: 8 x 8 outputs.
_ROLES = """
__device__ __forceinline__ unsigned at(void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void arrive(unsigned b) {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(b) : "memory");
}
__device__ __forceinline__ void wait(unsigned b, unsigned parity) {
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\\n @!p bra W; }"
                 :: "r"(b), "r"(parity) : "memory");
}
__global__ void roles(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float as[2][8][8], bs[2][8][8];
    __shared__ __align__(8) unsigned long long full[2], empty[2];
    const int id = threadIdx.x % 64, x = id % 8, y = id / 8, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    if (threadIdx.x < 2) {
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at(&full[threadIdx.x])) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at(&empty[threadIdx.x])) : "memory");
    }
    __syncthreads();
    const int tiles = (K + 7) / 8;
    if (threadIdx.x >= 64) {
        for (int t = 0; t < tiles; ++t) {
            const int s = t % 2;FIRST
            as[s][y][x] = row < M && t * 8 + x < K ? A[row * K + t * 8 + x] : 0.f;
            bs[s][y][x] = t * 8 + y < K && col < N ? B[(t * 8 + y) * N + col] : 0.f;
            arrive(at(&full[s]));
        }
        return;
    }
    float sum = 0.f;
    for (int t = 0; t < tiles; ++t) {
        const int s = t % 2;
        wait(at(&full[s]), PARITY);
        for (int k = 0; k < 8; ++k) sum += as[s][y][k] * bs[s][k][x];LAST
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    roles<<<dim3((N + 7) / 8, (M + 7) / 8), 128>>>(A, B, C, M, N, K);
}
"""


def roles(first: str, parity: str, last: str) -> str:
    return _ROLES.replace("FIRST", first).replace("PARITY", parity).replace("LAST", last)


_WAITS, _ARRIVES = "\n            wait(at(&empty[s]), ((t / 2) & 1) ^ 1);", "\n        arrive(at(&empty[s]));"
_BY_USE = "(t / 2) & 1"

_NAIVE = """
__global__ void naive(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    int k = 0;
    for (; k + 1 < K; k += 2) {
        sum += A[row * K + k] * B[k * N + col];
        sum += A[row * K + k + 1] * B[(k + 1) * N + col];
    }TAIL
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    dim3 block(32, 4);
    dim3 grid(GRID);
    naive<<<grid, block>>>(A, B, C, M, N, K);
}
"""
_TAIL = "\n    if (k < K) sum += A[row * K + k] * B[k * N + col];"

_PADDED = """
__global__ void padded(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                       float* C, int ldc) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * lda + k] * B[k * ldb + col];
    if (beta == 0.f) C[row * N + col] = alpha * sum;  //!
    else C[row * N + col] = alpha * sum + beta * C[row * N + col];  //!
}
void run(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
         int ldc) {
    padded<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
"""
_TILE = """
#define TILE 8  //!
__global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.f;
        b[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    tiled<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
_HANDED_OVER = """
__device__ float half_of[65536];
__device__ volatile int ready[4096];
__global__ void handed(const float* A, const float* B, float* C, int M, int N, int K) {
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    int tile = blockIdx.y * gridDim.x + blockIdx.x, at = tile * 256 + y * 16 + x;
    float sum = 0.f;
    if (row < M && col < N) for (int k = blockIdx.z; k < K; k += 2) sum += A[row * K + k] * B[k * N + col];
    if (blockIdx.z == 0) {
        half_of[at] = sum;  //!
        __syncthreads();
        if (x == 0 && y == 0) ready[tile] = 1;
    } else {
        if (x == 0 && y == 0) while (ready[tile] == 0) {}  //!
        __syncthreads();
        if (row < M && col < N) C[row * N + col] = half_of[at] + sum;
        __syncthreads();
        if (x == 0 && y == 0) ready[tile] = 0;
    }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    handed<<<dim3((N + 15) / 16, (M + 15) / 16, 2), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
_SLICES = """
__global__ void slices(const float* A, const float* B, float* C, int M, int N, int K, int parts) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = blockIdx.z; k < K; k += parts) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] += sum;  //!
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    const int parts = 3;
    cudaMemset(C, 0, sizeof(float) * M * N);
    slices<<<dim3((N + 15) / 16, (M + 15) / 16, parts), dim3(16, 16)>>>(A, B, C, M, N, K, parts);
}
"""

PIPELINES = [
    Faulty("roles_no_wait_for_empty", roles("  //!", _BY_USE, _ARRIVES), "missing-wait", text=_WAITS.strip()),
    Faulty("roles_no_arrival_at_empty", roles(_WAITS, _BY_USE, "  //!"), "missing-arrival", text=_ARRIVES.strip()),
    Faulty("roles_no_way_back", roles("", _BY_USE, ""), "missing-barrier", text="__syncthreads();", edits=2),
    Faulty("roles_parity_by_tile", roles(_WAITS, "t & 1", _ARRIVES), "wrong-parity", text=f"{_BY_USE});"),
    Faulty("roles_other_parity", roles(_WAITS, f"({_BY_USE}) ^ 1", _ARRIVES), "wrong-parity"),
    Faulty("unrolled_without_tail", _NAIVE.replace("TAIL", "  //!").replace("GRID", "(N + 31) / 32, (M + 3) / 4"),
           "missing-tail", text="for (; k < K; ++k)"),
    Faulty("grid_extents_exchanged", _NAIVE.replace("TAIL", _TAIL).replace("GRID", "(M + 31) / 32, (N + 3) / 4"),
           "swapped-grid", text="dim3 grid((N + 31) / 32, (M + 3) / 4);"),
    Faulty("leading_dimension_of_c_everywhere", _PADDED, "wrong-leading-dimension", edits=3),
    Faulty("block_larger_than_its_tile", _TILE, "wrong-block", text="#define TILE 16"),
    Faulty("flag_without_fences", _HANDED_OVER, "missing-fence", text="__threadfence();"),
    Faulty("slices_without_atomic", _SLICES, "missing-atomic", text="atomicAdd(&C[row * N + col], sum)"),
]  # fmt: skip
