// 10 warp_tile: a level between block and thread.
//
// Idea      In 08 the 32 threads of a warp form a 2 x 16 strip of thread tiles: for each k it reads
//           16 + 128 values for 2,048 multiplications. A compact warp tile WM x WN of 64 x 64 reads
//           64 + 64 for 4,096. And if the tiles of one thread are apart from each other, adjacent lanes
//           read adjacent addresses.
// Changed   m0 and n0 come from warp and lane, not from the thread number alone. A thread owns
//           WMITER x WNITER tiles of TM x TN, one in each SUB_M x SUB_N subtile of the warp tile. Loads
//           are as in 08.
// Owns      A block owns BM x BN outputs, a warp WM x WN of them, a thread TM x TN in each subtile:
//
// block 128 x 128            warp 64 x 64, WNITER = 4          subtile 64 x 16: 8 x 4 lanes
// +-------+-------+          +----+----+----+----+             +----+----+----+----+
// | warp0 | warp1 |          |    |    |    |    |             | l0 | l1 | l2 | l3 |  8 x 4 outputs each
// +-------+-------+          |    |    |    |    |             +----+----+----+----+
// | warp2 | warp3 |          |    |    |    |    |             | l4 | l5 | l6 | l7 |
// +-------+-------+          +----+----+----+----+             :    :    :    :    :
//
// Budget    (BM + PAD + BN) * BK floats of shared memory: 16,640 B. 128 accumulators and 24 operands
//           per thread: few threads with much work each. Their independent multiplications hide
//           latency, where other kernels need more warps.
// Needs     Nothing. Vectors are used where A, B and C start on 16 bytes and lda, ldb, ldc and the
//           batch strides are multiples of 4. Elsewhere, and at the edges, single elements are moved.
//           BIAS and ACTIVATION extend the epilogue (epilogue.cuh); a batch is one launch.
// Try next  The multiplications still wait for every k-tile to arrive: copy ahead (11 async_copy).

#include "epilogue/epilogue.cuh"
#include "schedule/tile_order.cuh"

constexpr int WMITER = WM * WN / (32 * TM * TN * WNITER);
constexpr int SUB_M = WM / WMITER;
constexpr int SUB_N = WN / WNITER;
constexpr int THREADS = 32 * (BM / WM) * (BN / WN);
constexpr int VEC = 4;
static_assert((SUB_M / TM) * (SUB_N / TN) == 32, "a subtile of the warp tile has work for 32 lanes");
static_assert(BM * BK % (THREADS * VEC) == 0 && BK * BN % (THREADS * VEC) == 0, "every thread loads the same amount");

struct KTile {
    alignas(16) float A[BK][BM + PAD];  // transposed
    alignas(16) float B[BK][BN];
};

// Guarded: elements outside the matrices become zero. Otherwise the whole k-tile must be inside and aligned.
template <bool Guarded>
__device__ __forceinline__ void load_k_tile(KTile& k_tile, const Window<const float>& a, const Window<const float>& b) {
#pragma unroll
    for (int i = 0; i < BM * BK; i += THREADS * VEC) {
        const int m = (i + threadIdx.x * VEC) / BK;
        const int k = (i + threadIdx.x * VEC) % BK;
        const auto values = load_vector<Guarded, VEC>(a, m, k);
#pragma unroll
        for (int j = 0; j < VEC; ++j) k_tile.A[k + j][m] = values.at[j];
    }
#pragma unroll
    for (int i = 0; i < BK * BN; i += THREADS * VEC) {
        const int k = (i + threadIdx.x * VEC) / BN;
        const int n = (i + threadIdx.x * VEC) % BN;
        *reinterpret_cast<Vec<float, VEC>*>(&k_tile.B[k][n]) = load_vector<Guarded, VEC>(b, k, n);
    }
}

using Accumulators = float[WMITER * TM][WNITER * TN];

template <bool Guarded>
__device__ __forceinline__ void store_tile(const Window<float>& c, int m0, int n0, Accumulators& acc,
                                           const Epilogue<float>& epilogue) {
    for_each_row(acc, [&](int i, const float (&row)[WNITER * TN]) {
#pragma unroll
        for (int v = 0; v < WNITER; ++v)
            store_with_epilogue<VEC, TN>(c, m0 + i / TM * SUB_M + i % TM, n0 + v * SUB_N, &row[v * TN], epilogue,
                                         !Guarded);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc,
     const float* __restrict__ bias, long long strideA, long long strideB, long long strideC) {
    extern __shared__ KTile k_tiles[];
    KTile& k_tile = k_tiles[0];
    drop_empty_product(K, alpha);
    const Tile tile = block_tile<BM, BN>(N);
    const bool aligned = vectors_fit<VEC>(A, lda) && vectors_fit<VEC>(B, ldb) && (strideA | strideB) % VEC == 0;
    const bool c_aligned = vectors_fit<VEC>(C, ldc) && strideC % VEC == 0;
    A += blockIdx.z * strideA;  // blockIdx.z is the product of a batch
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;
    auto a = window(A, lda, M, K, tile.row, 0);
    auto b = window(B, ldb, K, N, 0, tile.col);
    const auto c = window(C, ldc, M, N, tile.row, tile.col);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int m0 = warp / (BN / WN) * WM + lane / (SUB_N / TN) * TM;
    const int n0 = warp % (BN / WN) * WN + lane % (SUB_N / TN) * TN;

    Accumulators acc = {};
    while (a.cols > 0) {
        if (aligned && a.holds(BM, BK) && b.holds(BK, BN))
            load_k_tile<false>(k_tile, a, b);
        else
            load_k_tile<true>(k_tile, a, b);
        __syncthreads();

#pragma unroll UNROLL
        for (int k = 0; k < BK; ++k) {
            float a_k[WMITER][TM], b_k[WNITER][TN];
#pragma unroll
            for (int u = 0; u < WMITER; ++u) load_fragment<4>(a_k[u], &k_tile.A[k][m0 + u * SUB_M]);
#pragma unroll
            for (int v = 0; v < WNITER; ++v) load_fragment<4>(b_k[v], &k_tile.B[k][n0 + v * SUB_N]);
#pragma unroll
            for (int u = 0; u < WMITER; ++u)
#pragma unroll
                for (int i = 0; i < TM; ++i)
#pragma unroll
                    for (int v = 0; v < WNITER; ++v)
#pragma unroll
                        for (int j = 0; j < TN; ++j) {
                            float& output = acc[u * TM + i][v * TN + j];
                            output = __fmaf_rn(a_k[u][i], b_k[v][j], output);
                        }
        }
        __syncthreads();

        a.move_right(BK);
        b.move_down(BK);
    }
    const auto epilogue = epilogue_at(tile.row, tile.col, alpha, beta, bias);
    if (c_aligned && c.holds(BM, BN))
        store_tile<false>(c, m0, n0, acc, epilogue);
    else
        store_tile<true>(c, m0, n0, acc, epilogue);
}
