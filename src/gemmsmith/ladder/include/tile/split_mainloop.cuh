// The product of fp32 operands that are stored as TERMS matrices of 16-bit terms each, by wgmma: what rungs 25 and 26
// have in common. They differ in the terms, and in what is done to an accumulator before the epilogue.
#pragma once

#include "epilogue/direct_store.cuh"
#include "ptx/pdl.cuh"
#include "schedule/grouped_order.cuh"
#include "tile/blocked_sums.cuh"
#include "tile/cluster_ring.cuh"
#include "tile/fp16_verdict.cuh"
#include "tile/split_terms.cuh"
#include "tile/warpgroup.cuh"

constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int M_TILES = BM / CONSUMERS / 64;  // 64-row tiles per consumer warpgroup
constexpr int THREADS = WARPGROUP_THREADS * (CONSUMERS + 1);
using TileA = OperandTile<BM, !TRANS_A, CLUSTER_N>;
using TileB = OperandTile<BN, TRANS_B, CLUSTER_M>;
constexpr int STAGE_BYTES = TileA::BYTES + TileB::BYTES;
// Registers are divided as for 128 accumulators although up to 192 registers hold them: besides these a consumer needs
// few registers, and the producer here needs more.
constexpr int BUDGETED_ACCUMULATORS = 128;
static_assert(M_TILES * BN / 2 * (2 + BLOCKED_SUMS) <= 192, "per output: wgmma's accumulator, and one or two sums");
using ThreadAccumulators = float[M_TILES * BN / 2];

// Where a thread's accumulators belong: in the tile at (row, col) of product z, starting with its 64-row tile `first`.
struct AccumulatorCoords {
    const Window<float>& c;
    int row, col, z, first;

    // Row and column, within the tile, of accumulator i.
    __device__ __forceinline__ int row_of(int i) const {
        const int thread = threadIdx.x % WARPGROUP_THREADS;
        return first * 64 + thread / 32 * 16 + thread % 32 / 4 + i / (BN / 2) * 64 + i / 2 % 2 * 8;
    }
    __device__ __forceinline__ int col_of(int i) const {
        return threadIdx.x % 4 * 2 + i % (BN / 2) / 4 * 8 + i % 2;
    }
    __device__ __forceinline__ bool inside(int i) const { return c.inside(row_of(i), col_of(i)); }
};

template <class Body>
__device__ __forceinline__ void for_each_accumulator(const Body& body) {
#pragma unroll
    for (int i = 0; i < M_TILES; ++i)
#pragma unroll
        for (int j = 0; j < BN / 2; ++j) body(i, j);
}

// Starts the wgmmas of one k-tile, from zero. Its terms are in TERMS stages of the ring and arrive in order; their
// stage indices go to `stage_of_term`.
template <int TERMS, int Stages>
__device__ __forceinline__ void multiply_terms(float (&product)[M_TILES][BN / 2], Ring<Stages>& ring, unsigned stages,
                                               unsigned full, int first, int (&stage_of_term)[TERMS]) {
    int arrived = 0;
    wgmma_fence();
#pragma unroll
    for (int p = 0; p < Split<TERMS>::PRODUCTS; ++p) {
        const TermProduct terms = Split<TERMS>::product(p);
#pragma unroll
        for (int term = 0; term < TERMS; ++term)
            if (term >= arrived && (term <= terms.a || term <= terms.b)) {
                mbarrier_wait(full + 8 * ring.stage, ring.parity);
                stage_of_term[term] = ring.stage;
                ring.advance();
                arrived = term + 1;
            }
        const unsigned a = stages + stage_of_term[terms.a] * STAGE_BYTES;
        const unsigned b = stages + stage_of_term[terms.b] * STAGE_BYTES + TileA::BYTES;
#pragma unroll
        for (int step = 0; step < BK / 16; ++step)
#pragma unroll
            for (int i = 0; i < M_TILES; ++i)
                Wgmma<typename Split<TERMS>::Element, BN, TileA::K_MAJOR, TileB::K_MAJOR>::multiply(
                    product[i], TileA::descriptor(a, first + i, step), TileB::descriptor(b, 0, step), p + step > 0);
    }
    wgmma_commit();
}

// The whole kernel. `correct(acc, coords)` does what remains to be done to a thread's accumulators before the epilogue.
// If there is a verdict and it is for the other number of terms, the kernel returns: the other kernel computes.
template <int TERMS, class Correct>
__device__ __forceinline__ void split_gemm(int M, int N, int K, float alpha, const TensorMap& map_a,
                                           const TensorMap& map_b, float beta, float* C, long long ldc,
                                           const float* bias, long long strideA, long long strideB, long long strideC,
                                           int batch, const int* verdict, const Correct& correct) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = shared_address(shared);
    const unsigned full = stages + STAGES * STAGE_BYTES, empty = full + 8 * STAGES;
    init_ring<STAGES, CLUSTER, CONSUMERS>(full, empty, map_a, map_b);
    pdl_launch_and_wait();
    if (verdict != nullptr && fp16_accepted(verdict) != (TERMS == 2)) return;

    const ClusterLoader<CLUSTER_M, CLUSTER_N> loader;
    const unsigned tiles_m = (M - 1) / (BM * CLUSTER_M) + 1, tiles_n = (N - 1) / (BN * CLUSTER_N) + 1;
    const unsigned tiles = tiles_m * tiles_n * batch;
    const KTileRange range = k_tile_range(K, alpha);
    const auto for_each_tile = [&](const auto& body) {
        for (unsigned t = blockIdx.x / CLUSTER; t < tiles; t += gridDim.x / CLUSTER) {
            const unsigned z = t / (tiles_m * tiles_n);
            const TileCoord coord = grouped_tile_coord<GROUP>(t - z * tiles_m * tiles_n, tiles_m, tiles_n);
            body((coord.m * CLUSTER_M + loader.row) * BM, (coord.n * CLUSTER_N + loader.col) * BN,
                 static_cast<int>(z));
        }
    };
    Ring<STAGES> ring;
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    if (warpgroup == 0) {  // the producer
        producer_dealloc_registers<CONSUMERS, BUDGETED_ACCUMULATORS>();
        if (threadIdx.x == 0) {
            for_each_tile([&](int row, int col, int z) {
                for (int k = range.begin; k < range.end; ++k)
                    for (int term = 0; term < TERMS; ++term) {
                        loader.load<TileA, TileB>(stages + ring.stage * STAGE_BYTES, full + 8 * ring.stage,
                                                  empty + 8 * ring.stage, ring.parity ^ 1, map_a, map_b, row, col,
                                                  k * BK, (strideA ? z * TERMS : 0) + term,
                                                  (strideB ? z * TERMS : 0) + term);
                        ring.advance();
                    }
            });
        }
    } else {  // a consumer
        consumer_alloc_registers<CONSUMERS, BUDGETED_ACCUMULATORS>();
        const int first = (warpgroup - 1) * M_TILES;  // this consumer's first 64-row tile
        const int thread = threadIdx.x % WARPGROUP_THREADS;
        const auto release = [&](int stage) { release_stage<CLUSTER>(empty + 8 * stage, thread); };
        const bool pairs = vectors_fit<2>(C, ldc) && strideC % 2 == 0;
        for_each_tile([&](int row, int col, int z) {
            float acc[M_TILES][BN / 2] = {}, blocks[M_TILES][BN / 2] = {}, product[M_TILES][BN / 2];
            const int block = terms_of_block(range.end - range.begin);
            int last_of_block = range.begin + block - 1;
            for (int k = range.begin; k < range.end; ++k) {
                int stage_of_term[TERMS];
                multiply_terms<TERMS>(product, ring, stages, full, first, stage_of_term);
                wgmma_wait<0>();
                for (int term = 0; term < TERMS; ++term) release(stage_of_term[term]);
                for_each_accumulator([&](int i, int j) { acc[i][j] = __fadd_rn(acc[i][j], product[i][j]); });
                if (BLOCKED_SUMS && k == last_of_block) {
                    for_each_accumulator([&](int i, int j) {
                        blocks[i][j] = __fadd_rn(blocks[i][j], acc[i][j]);
                        acc[i][j] = 0.0f;
                    });
                    last_of_block += block;
                }
            }
            if (BLOCKED_SUMS)
                for_each_accumulator([&](int i, int j) { acc[i][j] = __fadd_rn(acc[i][j], blocks[i][j]); });
            const auto c = window(C + z * strideC, ldc, M, N, row, col);
            const bool whole = pairs && c.holds(BM, BN);
            correct(reinterpret_cast<float (&)[M_TILES * BN / 2]>(acc), AccumulatorCoords{c, row, col, z, first});
            store_accumulators_direct<BN>(c, first * 64, acc, epilogue_at(row, col, alpha, beta, bias), whole);
        });
    }
    if (CLUSTER > 1) cluster_sync();  // a block must not exit while others still write to its shared memory
}
