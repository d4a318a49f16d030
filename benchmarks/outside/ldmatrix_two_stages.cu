// mma.sync with ldmatrix: 128 x 128 outputs a block of eight warps, 64 x 32 a warp, two stages of 32 k by cp.async,
// rows padded by eight numbers.
#include <cuda_fp16.h>
#define BM 128
#define BN 128
#define BK 32
#define LDA (BK + 8)
#define LDB (BN + 8)

__device__ __forceinline__ unsigned shared_at(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void copy16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)), "l"(from) : "memory");
}

// M and N are multiples of 128, K of 32.
__global__ void __launch_bounds__(256) hgemm(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
    __shared__ __align__(16) half as[2][BM * LDA], bs[2][BK * LDB];
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, wr = warp / 4 * 64, wc = warp % 4 * 32;
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    auto fetch = [&](int k0, int stage) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int n = tid + i * 256;
            copy16(as[stage] + n / 4 * LDA + n % 4 * 8, A + n / 4 * K + k0 + n % 4 * 8);
            copy16(bs[stage] + n / 16 * LDB + n % 16 * 8, B + (k0 + n / 16) * N + n % 16 * 8);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float c[4][4][4] = {};
    fetch(0, 0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int stage = k0 / BK % 2;
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (k0 + BK < K) fetch(k0 + BK, stage ^ 1);
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            unsigned a[4][4], b[4][2];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const half* from = as[stage] + (wr + i * 16 + lane % 16) * LDA + k + lane / 16 * 8;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3]) : "r"(shared_at(from)));
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const half* from = bs[stage] + (k + lane % 16) * LDB + wc + j * 8;
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(b[j][0]), "=r"(b[j][1]) : "r"(shared_at(from)));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(c[i][j][0]), "+f"(c[i][j][1]), "+f"(c[i][j][2]), "+f"(c[i][j][3])
                                 : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
        }
    }
    C += (blockIdx.y * BM + wr + lane / 4) * N + blockIdx.x * BN + wc + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            *reinterpret_cast<float2*>(C + i * 16 * N + j * 8) = make_float2(c[i][j][0], c[i][j][1]);
            *reinterpret_cast<float2*>(C + (i * 16 + 8) * N + j * 8) = make_float2(c[i][j][2], c[i][j][3]);
        }
}

void launch(const half* A, const half* B, float* C, int M, int N, int K) {
    hgemm<<<dim3(N / BN, M / BM), 256>>>(A, B, C, M, N, K);
}
