// When each warp does what in the k-tiles of two rungs, with one to three blocks on an SM (record_tile_steps.py).
//
//   WIDE      1: the loop of `padded` (128 x 128 x 8, 8 x 8 outputs a thread), 0: of `rectangular` (64 x 64 x 64, 8 x 4)
//   FETCHES   1: what a k-tile holds is fetched from global memory, 0: it is what registers hold
//   STORES    1: it is stored to shared memory anew for each k-tile
//   BARRIERS  1: barriers before and after the products
//   PANELS    so many different rows and columns of tiles are read, which L2 has; 0: all, as a product does
//   DELAY     the second block of an SM starts after so many dependent FFMA, the third after twice as many
//   MORE      bytes of dynamic shared memory beyond what a block needs, so that fewer fit an SM
//   WHERE     1: write down the number of the SM, which the simulator has not
//
// Lane 0 of each warp writes four reads of the clock for each k-tile into its block's part of C: before the fetch, after the stores,
// after the first barrier, and after the products. The last word of that part is the SM's number.
#ifndef WIDE
#define WIDE 1
#endif
#ifndef FETCHES
#define FETCHES 1
#endif
#ifndef STORES
#define STORES 1
#endif
#ifndef BARRIERS
#define BARRIERS 1
#endif
#ifndef PANELS
#define PANELS 4
#endif
#ifndef DELAY
#define DELAY 0
#endif
#ifndef WHERE
#define WHERE 0
#endif
#ifndef MORE
#define MORE 0
#endif

constexpr int BM = WIDE ? 128 : 64, BN = BM, BK = WIDE ? 8 : 64, TM = 8, TN = WIDE ? 8 : 4, PAD = 4;
constexpr int THREADS = BM * BN / (TM * TN), ACROSS = BN / TN, DOWN = BM / TM, VECTORS = BM * BK / (4 * THREADS);
constexpr int SMEM = 4 * BK * (BM + BN) + 4 * PAD * (WIDE ? BK : BM) + MORE, SMS = 132;

__device__ __forceinline__ unsigned now() {
    unsigned t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory");
    return t;
}

// Read anew in every step: an asm that is volatile is not moved out of the loop.
__device__ __forceinline__ void read(float* to, const float* from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(int(__cvta_generic_to_shared(from))));
}

// Of A either [k][m] (WIDE) or [m][k] is in shared memory, of B [k][n].
__device__ __forceinline__ void multiply(const float* a_tile, const float* b_tile, float (&sums)[TM][TN]) {
    int tx = threadIdx.x % ACROSS, ty = threadIdx.x / ACROSS;
#if WIDE
#pragma unroll 2
    for (int k = 0; k < BK; ++k) {
        float a[8], b[8];
        for (int h = 0; h < 2; ++h) read(a + 4 * h, a_tile + k * (BM + PAD) + ty * TM + 4 * h);
        for (int h = 0; h < 2; ++h) read(b + 4 * h, b_tile + k * BN + (tx + h * ACROSS) * 4);
        for (int i = 0; i < TM; ++i)
            for (int j = 0; j < TN; ++j) sums[i][j] = __fmaf_rn(a[i], b[j], sums[i][j]);
    }
#else
#pragma unroll 1
    for (int k = 0; k < BK; k += 4) {
        float a[TM][4], b[4];
        for (int i = 0; i < TM; ++i) read(a[i], a_tile + (ty + i * DOWN) * (BK + PAD) + k);
        for (int s = 0; s < 4; ++s) {
            read(b, b_tile + (k + s) * BN + tx * 4);
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < 4; ++j) sums[i][j] = __fmaf_rn(a[i][s], b[j], sums[i][j]);
        }
    }
#endif
}

__global__ void __launch_bounds__(THREADS, WIDE ? 2 : 3) sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ __align__(16) float tiles[];
    float *a_tile = tiles, *b_tile = tiles + (WIDE ? BK * (BM + PAD) : BM * (BK + PAD));
    int tile_m = blockIdx.x / (N / BN), tile_n = blockIdx.x % (N / BN);
    if (PANELS) tile_m %= PANELS, tile_n %= PANELS;
    float sums[TM][TN] = {};
    if (DELAY) {
        for (int n = 0; n < DELAY * int(blockIdx.x / SMS); ++n) sums[0][0] = __fmaf_rn(sums[0][0], 0.5f, 1.0f);
    }
    const float* a_from = A + size_t(tile_m) * BM * K;
    const float* b_from = B + tile_n * BN;
    uint4* stamps = reinterpret_cast<uint4*>(C + size_t(blockIdx.x) * BM * BN) + threadIdx.x / 32 * (K / BK);
    float4 v[2 * VECTORS] = {};
#pragma unroll 1
    for (int first = 0; first < K; first += BK) {
        uint4 t;
        t.x = now();
        if (FETCHES) {
#pragma unroll
            for (int n = 0; n < VECTORS; ++n) {
                int place = (n * THREADS + threadIdx.x) * 4;
                v[n] = *reinterpret_cast<const float4*>(a_from + size_t(place / BK) * K + first + place % BK);
                v[VECTORS + n] = *reinterpret_cast<const float4*>(b_from + size_t(first + place / BN) * N + place % BN);
            }
        }
        if (STORES) {
#pragma unroll
            for (int n = 0; n < VECTORS; ++n) {
                int place = (n * THREADS + threadIdx.x) * 4, m = place / BK, k = place % BK;
                if (WIDE)
                    for (int j = 0; j < 4; ++j) a_tile[(k + j) * (BM + PAD) + m] = (&v[n].x)[j];
                else
                    *reinterpret_cast<float4*>(a_tile + m * (BK + PAD) + k) = v[n];
                *reinterpret_cast<float4*>(b_tile + place) = v[VECTORS + n];
            }
        }
        t.y = now();
        if (BARRIERS) __syncthreads();
        t.z = now();
        multiply(a_tile, b_tile, sums);
        t.w = now();
        if (threadIdx.x % 32 == 0) stamps[first / BK] = t;
        if (BARRIERS) __syncthreads();
    }
    float sum = 0;
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) sum += sums[i][j];
    unsigned sm = 1 << 20;
    if (WHERE) asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (sum == 1.2345f) sm = 0;
    if (threadIdx.x == 0) C[size_t(blockIdx.x + 1) * BM * BN - 1] = __uint_as_float(sm);
}

void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    sgemm<<<M / BM * (N / BN), THREADS, SMEM>>>(A, B, C, M, N, K);
}
