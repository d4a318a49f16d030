// A product of fp32 operands that lie in memory as PARTS matrices of 16-bit numbers each, by wgmma: what rungs 25 and
// 26 have in common. They differ in the parts, and in what is left to do to a sum.
#pragma once

#include "tile/cluster_ring.cuh"
#include "tile/fp16_verdict.cuh"
#include "schedule/grouped_order.cuh"
#include "tile/split.cuh"
#include "tile/warpgroup.cuh"

constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int TILES = BM / CONSUMERS / 64;  // of 64 rows a consumer group has
constexpr int THREADS = GROUP_THREADS * (CONSUMERS + 1);
using TileA = OperandTile<BM, !TRANS_A, CLUSTER_N>;
using TileB = OperandTile<BN, TRANS_B, CLUSTER_M>;
constexpr int STAGE = TileA::BYTES + TileB::BYTES;
// Registers change hands as for 128 sums, although up to 192 are held: a consumer needs few besides, the producer more.
constexpr int HELD = 128;
static_assert(TILES * BN / 2 * (2 + COMPENSATED) <= 192, "sums, the tensor core's and what they lost");
using SumsOfThread = float[TILES * BN / 2];

// Where a thread's sums belong: in tile (row, col) of product z, from 64 rows number `first` of it on.
struct SumPlaces {
    const Window<float>& c;
    int row, col, z, first;

    // Of sum number i, in the tile.
    __device__ __forceinline__ int row_of(int i) const {
        const int thread = threadIdx.x % GROUP_THREADS;
        return first * 64 + thread / 32 * 16 + thread % 32 / 4 + i / (BN / 2) * 64 + i / 2 % 2 * 8;
    }
    __device__ __forceinline__ int col_of(int i) const {
        return threadIdx.x % 4 * 2 + i % (BN / 2) / 4 * 8 + i % 2;
    }
    __device__ __forceinline__ bool inside(int i) const { return c.inside(row_of(i), col_of(i)); }
};

template <class Body>
__device__ __forceinline__ void for_each_sum(const Body& body) {
#pragma unroll
    for (int i = 0; i < TILES; ++i)
#pragma unroll
        for (int j = 0; j < BN / 2; ++j) body(i, j);
}

// A slice's products, from zero: the parts of A and B lie in PARTS stages of the ring, and arrive in order.
template <int PARTS, int Stages>
__device__ __forceinline__ void multiply_parts(float (&product)[TILES][BN / 2], Ring<Stages>& ring, unsigned slices,
                                               unsigned full, int first, int (&stages)[PARTS]) {
    int arrived = 0;
    wgmma_fence();
#pragma unroll
    for (int p = 0; p < Parts<PARTS>::PRODUCTS; ++p) {
        const Product parts = Parts<PARTS>::product(p);
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
            if (part >= arrived && (part <= parts.a || part <= parts.b)) {
                barrier_wait(full + 8 * ring.stage, ring.parity);
                stages[part] = ring.stage;
                ring.advance();
                arrived = part + 1;
            }
        const unsigned a = slices + stages[parts.a] * STAGE, b = slices + stages[parts.b] * STAGE + TileA::BYTES;
#pragma unroll
        for (int step = 0; step < BK / 16; ++step)
#pragma unroll
            for (int i = 0; i < TILES; ++i)
                Wgmma<typename Parts<PARTS>::Number, BN, TileA::K_MAJOR, TileB::K_MAJOR>::multiply(
                    product[i], TileA::descriptor(a, first + i, step), TileB::descriptor(b, 0, step), p + step > 0);
    }
    wgmma_commit();
}

// `finish_sums(sums, places)` does what is left to do to a thread's sums before alpha. Where there is a verdict, and it
// is not for this many parts, it is another kernel's turn.
template <int PARTS, class FinishSums>
__device__ __forceinline__ void multiply_in_parts(int M, int N, int K, float alpha, const TensorMap& map_a,
                                                  const TensorMap& map_b, float beta, float* C, long long ldc,
                                                  const float* bias, long long strideA, long long strideB,
                                                  long long strideC, int batch, const int* verdict,
                                                  const FinishSums& finish_sums) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned slices = shared_address(shared);
    const unsigned full = slices + STAGES * STAGE, empty = full + 8 * STAGES;
    start_ring<STAGES, CLUSTER, CONSUMERS>(full, empty, map_a, map_b);
    start_next_and_wait_for_previous();
    if (verdict != nullptr && fp16_accepted(verdict) != (PARTS == 2)) return;

    const ClusterLoader<CLUSTER_M, CLUSTER_N> loader;
    const unsigned down = (M - 1) / (BM * CLUSTER_M) + 1, across = (N - 1) / (BN * CLUSTER_N) + 1;
    const unsigned tiles = down * across * batch;
    const SliceRange range = slice_range(K, alpha);
    const auto for_each_tile = [&](const auto& body) {
        for (unsigned t = blockIdx.x / CLUSTER; t < tiles; t += gridDim.x / CLUSTER) {
            const unsigned z = t / (down * across);
            const Place place = grouped_place<GROUP>(t - z * down * across, down, across);
            body((place.down * CLUSTER_M + loader.row) * BM, (place.across * CLUSTER_N + loader.col) * BN,
                 static_cast<int>(z));
        }
    };
    Ring<STAGES> ring;
    const int group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {  // the producer
        give_back_registers<CONSUMERS, HELD>();
        if (threadIdx.x == 0) {
            for_each_tile([&](int row, int col, int z) {
                for (int k = range.begin; k < range.end; ++k)
                    for (int part = 0; part < PARTS; ++part) {
                        loader.load<TileA, TileB>(slices + ring.stage * STAGE, full + 8 * ring.stage,
                                                  empty + 8 * ring.stage, ring.parity ^ 1, map_a, map_b, row, col,
                                                  k * BK, (strideA ? z * PARTS : 0) + part,
                                                  (strideB ? z * PARTS : 0) + part);
                        ring.advance();
                    }
            });
        }
    } else {
        take_registers<CONSUMERS, HELD>();
        const int first = (group - 1) * TILES;  // of the consumer's tiles of 64 rows
        const int thread = threadIdx.x % GROUP_THREADS;
        const auto release = [&](int stage) { leave_stage<CLUSTER>(empty + 8 * stage, thread); };
        const bool pairs = vectors_fit<2>(C, ldc) && strideC % 2 == 0;
        for_each_tile([&](int row, int col, int z) {
            float sums[TILES][BN / 2] = {}, lost[TILES][BN / 2] = {}, product[TILES][BN / 2];
            for (int k = range.begin; k < range.end; ++k) {
                int stages[PARTS];
                multiply_parts<PARTS>(product, ring, slices, full, first, stages);
                wgmma_wait<0>();
                for (int part = 0; part < PARTS; ++part) release(stages[part]);
                for_each_sum([&](int i, int j) {
                    const float sum = __fadd_rn(sums[i][j], product[i][j]);
                    if (COMPENSATED)
                        lost[i][j] = __fadd_rn(lost[i][j], __fsub_rn(product[i][j], __fsub_rn(sum, sums[i][j])));
                    sums[i][j] = sum;
                });
            }
            if (COMPENSATED) for_each_sum([&](int i, int j) { sums[i][j] = __fadd_rn(sums[i][j], lost[i][j]); });
            const auto c = window(C + z * strideC, ldc, M, N, row, col);
            const bool whole = pairs && c.holds(BM, BN);
            finish_sums(reinterpret_cast<float (&)[TILES * BN / 2]>(sums), SumPlaces{c, row, col, z, first});
            store_sums<BN>(c, first * 64, sums, finish_at(row, col, alpha, beta, bias), whole);
        });
    }
    if (CLUSTER > 1) cluster_sync();  // a block must not end while others still write to it
}
