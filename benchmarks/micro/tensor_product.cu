// The loop of a GEMM on tensor cores (mma.sync) with one cost after the other: products alone, then more.
// A tile of 128 x 128, 32 of K at a time; 4 warps of 64 x 64 or 8 of 64 x 32.
//
//   WARPS      4 or 8
//   HALF       1: sums in fp16
//   FRAGMENTS  1: fragments are read by ldmatrix for every 16 of K    0: once
//   BARRIERS   1: a barrier for every 32 of K
//   COPIES     1: and the next tile is copied by cp.async meanwhile; 2: through L1
//   ROOM       more shared memory, in bytes, so that fewer blocks share an SM
//
// With all of them it is a GEMM. M and N are multiples of 128, K of 32.
#include <cuda_fp16.h>
#ifndef WARPS
#define WARPS 4
#endif
#ifndef HALF
#define HALF 0
#endif
#ifndef FRAGMENTS
#define FRAGMENTS 0
#endif
#ifndef BARRIERS
#define BARRIERS 0
#endif
#ifndef COPIES
#define COPIES 0
#endif
#ifndef ROOM
#define ROOM 16
#endif

constexpr int ACROSS = WARPS / 2, COLUMNS = 128 / ACROSS, PAIRS = COLUMNS / 16;  // of a warp

__device__ __forceinline__ unsigned place(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void four(unsigned* r, unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void turned(unsigned* r, unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void product(unsigned* d, const unsigned* a, const unsigned* b) {
    if (HALF)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                     : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void copy(unsigned to, const half* from) {
    if (COPIES == 2)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

struct Tile {
    half a[128][40], b[32][136];
};

__device__ __forceinline__ void fetch(Tile& t, const half* A, const half* B, int N, int K, int k) {
#pragma unroll
    for (int n = threadIdx.x; n < 512; n += 32 * WARPS) {
        copy(place(&t.a[n / 4][n % 4 * 8]), A + n / 4 * K + k + n % 4 * 8);
        copy(place(&t.b[n / 16][n % 16 * 8]), B + (k + n / 16) * N + n % 16 * 8);
    }
}

__global__ void __launch_bounds__(32 * WARPS) hgemm(const half* A, const half* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) Tile tiles[2];
    extern __shared__ char room[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = warp / ACROSS * 64, column = warp % ACROSS * COLUMNS;
    A += blockIdx.y * 128 * K, B += blockIdx.x * 128, C += blockIdx.y * 128 * N + blockIdx.x * 128;
    fetch(tiles[0], A, B, N, K, 0);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    unsigned sums[4][2 * PAIRS][4] = {}, a[4][4], b[PAIRS][4];
    auto read = [&](const Tile& t, int k) {
#pragma unroll
        for (int n = 0; n < 4; ++n) four(a[n], place(&t.a[row + 16 * n + lane % 16][k + lane / 16 * 8]));
#pragma unroll
        for (int n = 0; n < PAIRS; ++n) turned(b[n], place(&t.b[k + lane % 16][column + 16 * n + lane / 16 * 8]));
    };
    if (!FRAGMENTS) read(tiles[0], 0);
    for (int k = 0; k < K; k += 32) {
        const Tile& now = tiles[COPIES ? k / 32 % 2 : 0];
        if (COPIES && k + 32 < K) fetch(tiles[(k / 32 + 1) % 2], A, B, N, K, k + 32);
#pragma unroll
        for (int step = 0; step < 32; step += 16) {
            if (FRAGMENTS) read(now, step);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 2 * PAIRS; ++j) product(sums[i][j], a[i], b[j / 2] + j % 2 * 2);
        }
        if (COPIES) asm volatile("cp.async.wait_all;" ::: "memory");
        if (BARRIERS) __syncthreads();
    }
    if (K < 0) C[0] = room[threadIdx.x];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 2 * PAIRS; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float* at = C + (row + 16 * i + 8 * h + lane / 4) * N + column + 8 * j + lane % 4 * 2;
                float2 two = HALF ? __half22float2(*reinterpret_cast<half2*>(&sums[i][j][h])) : *reinterpret_cast<float2*>(&sums[i][j][2 * h]);
                *reinterpret_cast<float2*>(at) = two;
            }
}

void launch(const half* A, const half* B, float* C, int M, int N, int K) {
    cudaFuncSetAttribute(hgemm, cudaFuncAttributeMaxDynamicSharedMemorySize, ROOM);
    hgemm<<<dim3(N / 128, M / 128), 32 * WARPS, ROOM>>>(A, B, C, M, N, K);
}
