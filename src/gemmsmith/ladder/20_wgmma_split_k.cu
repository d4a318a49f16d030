// 20 wgmma_split_k: few tiles, deep K.
//
// Idea      Where C has fewer tiles than the GPU has SMs, K is divided: the SPLIT blocks of a cluster compute the same
//           tile over a part of K each. Then every block sends its sums to those who finish them, straight into their
//           shared memory, and each adds up what it received in the order of the senders' ranks, so that the result is
//           the same every time. And where C is low (a few rows, as in the decoding steps of a language model), the
//           product is turned round, SWAP: wgmma's 64 rows are columns of C, and its narrow side, 16 columns or more,
//           is the few rows.
//           A cluster ends at 8 blocks. Where that is not enough, CLUSTERS of them share a tile, and their sums meet in
//           a workspace: whoever comes last finds all of them there and finishes the tile, so that nobody waits. It
//           adds them in the order of k (DETERMINISTIC), or else all have been added as they came, by atomic additions:
//           less to read for the last one, but another order of sums, and so other last bits, every time.
//           A low C reads the other operand once, so that copying it first, because its rows do not start on 16 bytes,
//           would cost more than the product. UNALIGNED_OPERANDS takes it as it is: by cp.async and registers (unaligned_tile.cuh).
//           And where both are small, a launch that copies any of them costs more than the product: UNALIGNED_OPERANDS = 2 takes
//           them as they are, the low one through the registers of the group that brings it (shifted_tile.cuh).
// Changed   From 17: a cluster for each tile; sums meet in shared memory; operands may change roles.
// Owns      A cluster owns BM x BN outputs (of C, or of its transpose), a block the sums over its part of K and at the
//           end BM / SPLIT rows of outputs:
//
//              block 0   [ k 0 ... ]  -> sums, rows 0 ...       \/  -> block 0 adds two parts, finishes rows 0 ...
//              block 1   [ ... K-1 ]  -> sums, rows BM / 2 ...  /\  -> block 1 adds two parts, finishes rows BM / 2 ...
//
// Budget    STAGES * DEPTH * (BM + BN) * 128 bytes for slices, 4 * BM * (BN + 4) bytes for sums. DEPTH slices are asked
//           for together, so that a row is read from memory in longer pieces. A loose line has 16 bytes more.
// Needs     sm_90a; rows of A and B that start on 16 bytes, but of A (SWAP: B) only where UNALIGNED_OPERANDS is 0, and of the other
//           one only where it is not 2.
// Try next  Many tiles, but not a whole number of waves: 21.

#include "schedule/flags.cuh"
#include "schedule/grouped_order.cuh"
#include "tile/unaligned_k_tiles.cuh"
#include "tile/shifted_tile.cuh"
#include "tile/warpgroup.cuh"

constexpr int TILES = BM / CONSUMERS / 64;  // of 64 rows a consumer group has
constexpr int THREADS = GROUP_THREADS * (CONSUMERS + 1);
using TileA = OperandTile<BM, SWAP ? TRANS_B : !TRANS_A>;  // the side with 64 rows a group
using TileB = OperandTile<BN, SWAP ? !TRANS_A : TRANS_B>;
using Loose = LooseTile<IN, BM, DEPTH, TileA::K_MAJOR>;  // in the place of TileA; follows a stage's slices of TileB
constexpr int SLICE = TileA::BYTES + TileB::BYTES, STAGE = UNALIGNED_OPERANDS ? DEPTH * TileB::BYTES + Loose::BYTES : DEPTH * SLICE;
static_assert(STAGE % 1024 == 0, "boxes start on 1024 bytes");
constexpr int SHARE = BM / SPLIT;  // rows that a block finishes
constexpr int FOURS = SHARE * BN / 4;
constexpr int SUMS_LD = BN + 4;    // four neighbours in a column of eight rows lie in 32 different banks

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     float beta, OUT* C, long long ldc, const OUT* __restrict__ bias, long long strideA, long long strideB,
     long long strideC, unsigned char* workspace, const IN* A, long long lda, const IN* B, long long ldb) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned slices = shared_address(shared), received = slices + STAGES * STAGE;
    const unsigned full = received + 4 * BM * SUMS_LD, empty = full + 8 * STAGES, complete = empty + 8 * STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            barrier_init(full + 8 * i, UNALIGNED_OPERANDS == 2 ? 2 * GROUP_THREADS : UNALIGNED_OPERANDS ? GROUP_THREADS + 1 : 1);
            barrier_init(empty + 8 * i, UNALIGNED_OPERANDS ? CONSUMERS * GROUP_THREADS : CONSUMERS);
        }
        barrier_init(complete, SPLIT > 1 ? 1 : CONSUMERS * GROUP_THREADS);
        barrier_init_done();
        if (SPLIT > 1) barrier_expect(complete, 4 * BM * BN);  // SHARE rows from each of SPLIT blocks
        if (UNALIGNED_OPERANDS == 0 || UNALIGNED_OPERANDS == 1 && SWAP) prefetch_map(map_a);
        if (UNALIGNED_OPERANDS == 0 || UNALIGNED_OPERANDS == 1 && !SWAP) prefetch_map(map_b);
    }
    __syncthreads();
    cluster_arrive();  // this block can receive; the others are waited for before anything is sent
    start_next_and_wait_for_previous();

    const int z = blockIdx.z, rank = blockIdx.x % SPLIT, rows = SWAP ? N : M, cols = SWAP ? M : N;
    const unsigned tile = blockIdx.x / (SPLIT * CLUSTERS), down = (rows - 1) / BM + 1;
    const int part = blockIdx.x / SPLIT % CLUSTERS;  // of K, this cluster's
    const int row = tile % down * BM, col = tile / down * BN;
    const SliceRange range = slice_range(K, alpha, DEPTH, part * SPLIT + rank, CLUSTERS * SPLIT);
    // Both operands as they are stored: that of the side with 64 rows a group, and the other one.
    const AnyRows<IN> of_a = {SWAP ? B + z * strideB : A + z * strideA, SWAP ? ldb : lda, TileA::K_MAJOR ? rows : K,
                              TileA::K_MAJOR ? K : rows};
    const AnyRows<IN> of_b = {SWAP ? A + z * strideA : B + z * strideB, SWAP ? lda : ldb, TileB::K_MAJOR ? cols : K,
                              TileB::K_MAJOR ? K : cols};
    const Loose loose = {of_a, row};
    Ring<STAGES> ring;
    const int group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {  // the producer
        if constexpr (UNALIGNED_OPERANDS == 2) {
            ShiftedTile<IN, BN, TileB, DEPTH, GROUP_THREADS> other = {of_b, col};
            bring_loose<TileB>(ring, slices, full, empty, range, loose, other);
        } else if constexpr (UNALIGNED_OPERANDS == 1) {
            MappedTile<TileB, DEPTH> other = {SWAP ? map_a : map_b, col, (SWAP ? strideA : strideB) ? z : 0};
            bring_loose<TileB>(ring, slices, full, empty, range, loose, other);
        } else if (threadIdx.x == 0) {
            for (int k = range.begin; k < range.end; ++k) {
                const unsigned stage = slices + ring.stage * STAGE, barrier = full + 8 * ring.stage;
                barrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
                barrier_expect(barrier, STAGE);
#pragma unroll
                for (int d = 0; d < DEPTH; ++d)
                    TileA::load(stage + d * SLICE, SWAP ? map_b : map_a, barrier, row, (k * DEPTH + d) * BK,
                                (SWAP ? strideB : strideA) ? z : 0);
#pragma unroll
                for (int d = 0; d < DEPTH; ++d)
                    TileB::load(stage + d * SLICE + TileA::BYTES, SWAP ? map_a : map_b, barrier, col,
                                (k * DEPTH + d) * BK, (SWAP ? strideA : strideB) ? z : 0);
                ring.advance();
            }
        }
        __syncwarp();
        cluster_wait();
    } else {
        const int first = (group - 1) * TILES;  // of the consumer's tiles of 64 rows
        float sums[TILES][BN / 2];
        // Tensor cores leave a stage together; for what it has read of a loose operand each thread vouches itself.
        const auto release = [&](int stage) {
            if (UNALIGNED_OPERANDS || threadIdx.x % GROUP_THREADS == 0) barrier_arrive(empty + 8 * stage);
        };
        const int steps = range.end - range.begin;
        if constexpr (UNALIGNED_OPERANDS)
            multiply_loose<IN, TileB, BN>(sums, ring, slices, full, steps, loose, first, release);
        else
            multiply_slices<IN, TileA, TileB, BN, DEPTH>(sums, ring, slices, full, steps, first, release);
        cluster_wait();
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
        for (int i = 0; i < TILES; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int r = (first + i) * 64 + warp * 16 + half * 8 + lane / 4;
                const unsigned line = received + 4 * (rank * SHARE + r % SHARE) * SUMS_LD + 8 * (lane % 4);
#pragma unroll
                for (int j = 0; j < BN / 8; ++j)
                    if constexpr (SPLIT > 1)
                        send(line + 32 * j, complete, r / SHARE, sums[i][j * 4 + half * 2],
                             sums[i][j * 4 + half * 2 + 1]);
                    else
                        keep(line + 32 * j, sums[i][j * 4 + half * 2], sums[i][j * 4 + half * 2 + 1]);
            }
        if (SPLIT == 1) barrier_arrive(complete);
    }
    barrier_wait(complete, 0);

    const Window<OUT> c = window(C + z * strideC, ldc, M, N, SWAP ? col : row, SWAP ? row : col);
    const Finish<OUT> finish = finish_at(SWAP ? col : row, SWAP ? row : col, alpha, beta, bias);
    const bool fours = vectors_fit<4>(C, ldc) && strideC % 4 == 0 && c.holds(BM, BN);
    const float* const parts = reinterpret_cast<const float*>(shared + STAGES * STAGE);
    // Neighbouring threads have neighbouring outputs of a row of C; each has four sums of a row of sums.
    const auto row_of = [](int i) { return SWAP ? i % SHARE : i / (BN / 4); };
    const auto col_of = [](int i) { return (SWAP ? i / SHARE : i % (BN / 4)) * 4; };
    const auto sum_of_cluster = [&](int i) {
        Vec<float, 4> sum = {};
#pragma unroll
        for (int from = 0; from < SPLIT; ++from) {
            const float* const line = parts + (from * SHARE + row_of(i)) * SUMS_LD;
            const auto part = *reinterpret_cast<const Vec<float, 4>*>(line + col_of(i));
#pragma unroll
            for (int j = 0; j < 4; ++j) sum.at[j] = from == 0 ? part.at[j] : __fadd_rn(sum.at[j], part.at[j]);
        }
        return sum;
    };
    // Where clusters' sums of these rows meet, CLUSTERS times FOURS of them or, added as they come, once.
    const unsigned across = gridDim.x / CLUSTERS, meeting = z * across + tile * SPLIT + rank;
    auto* const met = reinterpret_cast<Vec<float, 4>*>(workspace + flag_bytes(across * gridDim.z)) +
                      meeting * (DETERMINISTIC ? CLUSTERS : 1) * FOURS;
    if constexpr (CLUSTERS > 1) {
        for (int i = threadIdx.x; i < FOURS; i += THREADS)
            if constexpr (DETERMINISTIC)
                met[part * FOURS + i] = sum_of_cluster(i);
            else
                add_atomically(&met[i], sum_of_cluster(i));
        unsigned* const counter = reinterpret_cast<unsigned*>(workspace) + meeting;
        if (!last_to_come(counter, CLUSTERS, reinterpret_cast<unsigned*>(shared))) return;
    }
    for (int i = threadIdx.x; i < FOURS; i += THREADS) {
        Vec<float, 4> sum;
        if constexpr (CLUSTERS > 1) {
            sum = load_fresh(&met[i]);
#pragma unroll
            for (int from = 1; from < (DETERMINISTIC ? CLUSTERS : 1); ++from) {
                const Vec<float, 4> next = load_fresh(&met[from * FOURS + i]);
#pragma unroll
                for (int j = 0; j < 4; ++j) sum.at[j] = __fadd_rn(sum.at[j], next.at[j]);
            }
        } else {
            sum = sum_of_cluster(i);
        }
        const int line = rank * SHARE + row_of(i), q = col_of(i);
        if constexpr (SWAP) {
#pragma unroll
            for (int j = 0; j < 4; ++j) store_finished<1, 1>(c, q + j, line, &sum.at[j], finish, false);
        } else {
            store_finished<4, 4>(c, line, q, sum.at, finish, fours);
        }
    }
}
