// 20 wgmma_split_k: few tiles, deep K.
//
// Idea      If C has fewer tiles than the GPU has SMs, divide K. The SPLIT blocks of a cluster compute the same tile,
//           each over a part of K. Then every block sends its partial sums straight into the shared memory of the
//           blocks that store them. Each block adds what it receives in the order of the senders' ranks, so results are
//           the same in every run. If C has few rows (as in the decoding steps of a language model), SWAP transposes
//           the product: wgmma's 64 rows are columns of C, and its other side, 16 columns or more, is the few rows.
//           A cluster has at most 8 blocks. Beyond that, CLUSTERS clusters share a tile and leave their partial sums in
//           a workspace. The last block to arrive finds all of them there and stores the outputs, so no block waits.
//           DETERMINISTIC = 1: it adds them in the order of k. 0: all blocks add theirs with atomics in arrival order;
//           the last block reads less, but results may differ between runs in their last bits.
//           With few rows the other operand is read only once. If it is unaligned, aligning it first would cost more
//           than the product. UNALIGNED_OPERANDS = 1 reads it directly, by cp.async and registers (unaligned_tile.cuh).
//           If both operands are small, even aligning the smaller one costs more than the product: UNALIGNED_OPERANDS =
//           2 reads both directly, the smaller one through registers of the producer (shifted_tile.cuh).
//           BM need not be a multiple of 64: with few rows, padding costs nothing, and equal parts for all SMs gain.
// Changed   From 17: one cluster per tile; partial sums are reduced in shared memory; A and B may be swapped.
// Owns      A cluster owns BM x BN outputs (of C, or of its transpose). A block owns the partial sums over its part of
//           K, and at the end BM / SPLIT rows of outputs:
//
//              block 0   [ k 0 ... ]  -> sums, rows 0 ...       \/  -> block 0 adds two parts, stores rows 0 ...
//              block 1   [ ... K-1 ]  -> sums, rows BM / 2 ...  /\  -> block 1 adds two parts, stores rows BM / 2 ...
//
// Budget    STAGES * DEPTH * (BM + BN) * 128 bytes for k-tiles, 4 * BM * (BN + 4) bytes for partial sums. DEPTH k-tiles
//           are loaded together, so that a row is read in longer segments. Each line of an unaligned operand takes 16
//           bytes more. Of other operands, BM is rounded up to 64.
// Needs     sm_90a. Rows of A and B start on 16 bytes, except those that UNALIGNED_OPERANDS reads directly.
// Try next  Many tiles, but not a whole number of waves (21 wgmma_stream_k).

#include "epilogue/epilogue.cuh"
#include "ptx/cluster.cuh"
#include "ptx/pdl_wait_behind.cuh"
#include "schedule/flags.cuh"
#include "tile/shifted_tile.cuh"
#include "tile/unaligned_mainloop.cuh"
#include "tile/warpgroup.cuh"

constexpr int M_TILES = (BM / CONSUMERS + 63) / 64;  // 64-row tiles per consumer warpgroup
constexpr int THREADS = WARPGROUP_THREADS * (CONSUMERS + 1);
using TileA = PaddedTile<BM, SWAP ? TRANS_B : !TRANS_A>;  // the operand of wgmma's 64 rows
using TileB = OperandTile<BN, SWAP ? !TRANS_A : TRANS_B>;
using Unaligned = UnalignedTile<IN, BM, DEPTH, TileA::K_MAJOR>;  // instead of TileA; follows TileB's in a stage
constexpr int K_TILE_BYTES = TileA::BYTES + TileB::BYTES;
constexpr int STAGE_BYTES = UNALIGNED_OPERANDS ? DEPTH * TileB::BYTES + Unaligned::BYTES : DEPTH * K_TILE_BYTES;
static_assert(STAGE_BYTES % 1024 == 0, "boxes start on 1024 bytes");
// Arrivals that fill a stage: TMA's request, and every producer thread once for each operand that it copies.
constexpr int FULL_ARRIVALS = UNALIGNED_OPERANDS * WARPGROUP_THREADS + (UNALIGNED_OPERANDS < 2);
constexpr int SHARE = BM / SPLIT;   // rows of outputs that a block stores
constexpr int FOURS = SHARE * BN / 4;
constexpr int PARTIAL_LD = BN + 4;  // four adjacent columns of eight rows are in 32 different banks

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const OUT* __restrict__ bias, long long strideA, long long strideB,
     long long strideC, unsigned char* workspace, const IN* A, long long lda, const IN* B, long long ldb) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = shared_address(shared), received = stages + STAGES * STAGE_BYTES;
    const unsigned full = received + 4 * BM * PARTIAL_LD, empty = full + 8 * STAGES, complete = empty + 8 * STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + 8 * i, FULL_ARRIVALS);
            mbarrier_init(empty + 8 * i, UNALIGNED_OPERANDS ? CONSUMERS * WARPGROUP_THREADS : CONSUMERS);
        }
        mbarrier_init(complete, SPLIT > 1 ? 1 : CONSUMERS * WARPGROUP_THREADS);
        mbarrier_init_fence();
        if (SPLIT > 1) mbarrier_arrive_expect_tx(complete, 4 * BM * BN);  // SHARE rows from each of SPLIT blocks
        if (UNALIGNED_OPERANDS == 0 || UNALIGNED_OPERANDS == 1 && SWAP) prefetch_tensor_map(map_a);
        if (UNALIGNED_OPERANDS == 0 || UNALIGNED_OPERANDS == 1 && !SWAP) prefetch_tensor_map(map_b);
    }
    if (UNALIGNED_OPERANDS == 0) TileA::clear_padding<THREADS, STAGES * DEPTH>(stages, K_TILE_BYTES);
    __syncthreads();
    cluster_arrive();  // this block can receive; cluster_wait precedes the first send

    const int z = blockIdx.z, rank = blockIdx.x % SPLIT, rows = SWAP ? N : M, cols = SWAP ? M : N;
    const unsigned tile = blockIdx.x / (SPLIT * CLUSTERS), tiles_m = (rows - 1) / BM + 1;
    const int part = blockIdx.x / SPLIT % CLUSTERS;  // this cluster's part of K
    const int row = tile % tiles_m * BM, col = tile / tiles_m * BN;
    const KTileRange range = k_tile_range(K, alpha, DEPTH, part * SPLIT + rank, CLUSTERS * SPLIT);
    if (!SWAP) pdl_wait();  // few rows wait later
    // Both operands as stored: that of wgmma's 64 rows, and the other one.
    const UnalignedRows<IN> of_a = {SWAP ? B + z * strideB : A + z * strideA, SWAP ? ldb : lda,
                                    TileA::K_MAJOR ? rows : K, TileA::K_MAJOR ? K : rows};
    const UnalignedRows<IN> of_b = {SWAP ? A + z * strideA : B + z * strideB, SWAP ? lda : ldb,
                                    TileB::K_MAJOR ? cols : K, TileB::K_MAJOR ? K : cols};
    const Unaligned tile_a = {of_a, row};
    Ring<STAGES> ring;
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS;
    if (warpgroup == 0) {  // the producer
        if (SWAP) pdl_wait_behind(row, col);
        if constexpr (UNALIGNED_OPERANDS == 2) {
            ShiftedTile<IN, BN, TileB, DEPTH, WARPGROUP_THREADS> tile_b = {of_b, col};
            unaligned_producer_mainloop<TileB>(ring, stages, full, empty, range, tile_a, tile_b);
        } else if constexpr (UNALIGNED_OPERANDS == 1) {
            TmaTile<TileB, DEPTH> tile_b = {SWAP ? map_a : map_b, col, (SWAP ? strideA : strideB) ? z : 0};
            unaligned_producer_mainloop<TileB>(ring, stages, full, empty, range, tile_a, tile_b);
        } else if (threadIdx.x == 0) {
            for (int k = range.begin; k < range.end; ++k) {
                const unsigned stage = stages + ring.stage * STAGE_BYTES, barrier = full + 8 * ring.stage;
                mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
                mbarrier_arrive_expect_tx(barrier, DEPTH * (TileA::LOADED_BYTES + TileB::BYTES));
#pragma unroll
                for (int d = 0; d < DEPTH; ++d)
                    TileA::load(stage + d * K_TILE_BYTES, SWAP ? map_b : map_a, barrier, row, (k * DEPTH + d) * BK,
                                (SWAP ? strideB : strideA) ? z : 0);
#pragma unroll
                for (int d = 0; d < DEPTH; ++d)
                    TileB::load(stage + d * K_TILE_BYTES + TileA::BYTES, SWAP ? map_a : map_b, barrier, col,
                                (k * DEPTH + d) * BK, (SWAP ? strideA : strideB) ? z : 0);
                ring.advance();
            }
        }
        __syncwarp();
        if (threadIdx.x < 32) pdl_launch_dependents();  // blocks that start earlier fill the SMs unevenly
        cluster_wait();
    } else {  // a consumer
        const int first = (warpgroup - 1) * M_TILES;  // this consumer's first 64-row tile
        float acc[M_TILES][BN / 2];
        // wgmma reads a stage for the whole warpgroup; of an unaligned operand every thread reads for itself.
        const auto release = [&](int stage) {
            if (UNALIGNED_OPERANDS || threadIdx.x % WARPGROUP_THREADS == 0) mbarrier_arrive(empty + 8 * stage);
        };
        const int steps = range.end - range.begin;
        if constexpr (UNALIGNED_OPERANDS)
            unaligned_consumer_mainloop<IN, TileB, BN>(acc, ring, stages, full, steps, tile_a, first, release);
        else
            consumer_mainloop<IN, TileA, TileB, BN, DEPTH>(acc, ring, stages, full, steps, first, release);
        cluster_wait();
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
        for (int i = 0; i < M_TILES; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int r = (first + i) * 64 + warp * 16 + half * 8 + lane / 4;
                if (BM % 64 > 0 && r >= BM) continue;  // rows of padding
                const unsigned target = received + 4 * (rank * SHARE + r % SHARE) * PARTIAL_LD + 8 * (lane % 4);
#pragma unroll
                for (int j = 0; j < BN / 8; ++j)
                    if constexpr (SPLIT > 1)
                        st_async(target + 32 * j, complete, r / SHARE, acc[i][j * 4 + half * 2],
                                 acc[i][j * 4 + half * 2 + 1]);
                    else
                        store_shared_8(target + 32 * j, acc[i][j * 4 + half * 2], acc[i][j * 4 + half * 2 + 1]);
            }
        if (SPLIT == 1) mbarrier_arrive(complete);
    }
    if (SWAP) pdl_wait();  // the launch before may still use what is stored now
    mbarrier_wait(complete, 0);
    const Window<OUT> c = window(C + z * strideC, ldc, M, N, SWAP ? col : row, SWAP ? row : col);
    const Epilogue<OUT> epilogue = epilogue_at(SWAP ? col : row, SWAP ? row : col, alpha, beta, bias);
    const bool whole = vectors_fit<4>(C, ldc) && strideC % 4 == 0 && c.holds(BM, BN);
    const float* const partials = reinterpret_cast<const float*>(shared + STAGES * STAGE_BYTES);
    // Adjacent threads have adjacent outputs of a row of C; each has four adjacent columns of a row of partial sums.
    const auto row_of = [](int i) { return SWAP ? i % SHARE : i / (BN / 4); };
    const auto col_of = [](int i) { return (SWAP ? i / SHARE : i % (BN / 4)) * 4; };
    const auto sum_of_cluster = [&](int i) {
        Vec<float, 4> sum = {};
#pragma unroll
        for (int from = 0; from < SPLIT; ++from) {
            const float* const source = partials + (from * SHARE + row_of(i)) * PARTIAL_LD;
            const auto partial = *reinterpret_cast<const Vec<float, 4>*>(source + col_of(i));
#pragma unroll
            for (int j = 0; j < 4; ++j) sum.at[j] = from == 0 ? partial.at[j] : __fadd_rn(sum.at[j], partial.at[j]);
        }
        return sum;
    };
    // The reduction workspace of these rows: FOURS vectors for each cluster or, with atomics, for all of them together.
    const unsigned slots = gridDim.x / CLUSTERS, slot = z * slots + tile * SPLIT + rank;
    auto* const cluster_sums = reinterpret_cast<Vec<float, 4>*>(workspace + flag_bytes(slots * gridDim.z)) +
                               slot * (DETERMINISTIC ? CLUSTERS : 1) * FOURS;
    if constexpr (CLUSTERS > 1) {
        for (int i = threadIdx.x; i < FOURS; i += THREADS)
            if constexpr (DETERMINISTIC)
                cluster_sums[part * FOURS + i] = sum_of_cluster(i);
            else
                atomic_add(&cluster_sums[i], sum_of_cluster(i));
        unsigned* const counter = reinterpret_cast<unsigned*>(workspace) + slot;
        if (!is_last_block(counter, CLUSTERS, reinterpret_cast<unsigned*>(shared))) return;
    }
    for (int i = threadIdx.x; i < FOURS; i += THREADS) {
        Vec<float, 4> sum;
        if constexpr (CLUSTERS > 1) {
            sum = load_from_l2(&cluster_sums[i]);
#pragma unroll
            for (int from = 1; from < (DETERMINISTIC ? CLUSTERS : 1); ++from) {
                const Vec<float, 4> next = load_from_l2(&cluster_sums[from * FOURS + i]);
#pragma unroll
                for (int j = 0; j < 4; ++j) sum.at[j] = __fadd_rn(sum.at[j], next.at[j]);
            }
        } else {
            sum = sum_of_cluster(i);
        }
        const int r = rank * SHARE + row_of(i), q = col_of(i);
        if constexpr (SWAP) {
#pragma unroll
            for (int j = 0; j < 4; ++j) store_with_epilogue<1, 1>(c, q + j, r, &sum.at[j], epilogue, false);
        } else {
            store_with_epilogue<4, 4>(c, r, q, sum.at, epilogue, whole);
        }
    }
}
