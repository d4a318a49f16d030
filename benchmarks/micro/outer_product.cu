// The loop of a CUDA-core GEMM with one cost after the other: FFMA and LDS.128 alone, then more.
// 8 x 8 outputs a thread, 256 threads, a tile of 128 x 128.
//
//   BARRIERS  barriers every 8 steps
//   COPIES    0: the tile is stored once       1: stored anew every 8 steps, from registers
//   FETCHES   1: and what is stored was fetched from global memory
//
// With all of them it is a GEMM but for its result. M and N are multiples of 128, K of 8.
#ifndef BARRIERS
#define BARRIERS 0
#endif
#ifndef COPIES
#define COPIES 0
#endif
#ifndef FETCHES
#define FETCHES 0
#endif
#ifndef PAD
#define PAD 0
#endif

// Read anew in every step: an asm that is volatile is not moved out of the loop.
__device__ __forceinline__ void read(float* to, const float* from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(int(__cvta_generic_to_shared(from))));
}

__global__ void __launch_bounds__(256, 2) sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ alignas(16) float As[8][128 + PAD];
    __shared__ alignas(16) float Bs[8][128];
    int row = threadIdx.x / 16 * 4, col = threadIdx.x % 16 * 4;
    int piece = threadIdx.x % 2 * 4, r = threadIdx.x / 2, k0 = threadIdx.x / 32, c0 = threadIdx.x % 32 * 4;
    A += blockIdx.y * 128 * K, B += blockIdx.x * 128, C += blockIdx.y * 128 * N + blockIdx.x * 128;
    float sums[8][8] = {};
    float4 v = *reinterpret_cast<const float4*>(A + r * K + piece), u = *reinterpret_cast<const float4*>(B + k0 * N + c0);
    As[piece][r] = v.x, As[piece + 1][r] = v.y, As[piece + 2][r] = v.z, As[piece + 3][r] = v.w;
    *reinterpret_cast<float4*>(&Bs[k0][c0]) = u;
    __syncthreads();
    float a[8], b[8];
    for (int tile = 0; tile < K; tile += 8) {
        if (FETCHES) {
            v = *reinterpret_cast<const float4*>(A + r * K + tile + piece);
            u = *reinterpret_cast<const float4*>(B + (tile + k0) * N + c0);
        }
        if (COPIES) {
            As[piece][r] = v.x, As[piece + 1][r] = v.y, As[piece + 2][r] = v.z, As[piece + 3][r] = v.w;
            *reinterpret_cast<float4*>(&Bs[k0][c0]) = u;
        }
        if (BARRIERS) __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; ++k) {
#pragma unroll
            for (int h = 0; h < 2; ++h) read(a + 4 * h, &As[k][row + 64 * h]), read(b + 4 * h, &Bs[k][col + 64 * h]);
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] += a[i] * b[j];
        }
        if (BARRIERS) __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) C[(row + i % 4 + i / 4 * 64) * N + col + j % 4 + j / 4 * 64] = sums[i][j];
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm<<<dim3(N / 128, M / 128), 256>>>(A, B, C, M, N, K);
}
