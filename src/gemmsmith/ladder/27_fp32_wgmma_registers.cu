// 27 fp32_wgmma_registers: fp32 products with few rows or columns, on tensor cores.
//
// Idea      25 writes both operands as bf16 terms before it multiplies: 10 bytes per number, where the product itself
//           needs to read 4. If C has few rows, that pass over B takes longer than the product. Here the large operand,
//           the tall one, is read once, as fp32: TMA brings its k-tiles to shared memory, threads read fragments from
//           there, split them in registers and multiply them as wgmma's A. Only the other operand, the short one, is
//           split by a prologue (split_short.cu).
// Changed   From 25: A of wgmma is in registers. SWAP: the tall operand is B, and the transpose of C is computed. SPLIT
//           blocks of a cluster divide K, as in 20, so that a C of few tiles still uses all SMs.
// Owns      A cluster owns BM x BN outputs (of C, or of its transpose); a consumer warpgroup 64 rows of them, over the
//           block's part of K. In time, for two consumers:
//
//   consumer 0    [read, split 0] [multiply 0         ] [add] [multiply 1         ] [add]
//                                    [read, split 1]             [read, split 2]
//   consumer 1         [read, split 0]       [multiply 0         ] [add] [multiply 1  ...
//
// Budget    STAGES * (BM * 256 + 3 * BN * 128) bytes, and with SPLIT > 1 4 * BM * (BN + 4) for partial sums. A thread
//           holds 48 or 96 registers of terms and BN / 2 outputs: for each the tensor core's accumulator, the sum and,
//           if COMPENSATED, its rounding error. A workspace of 6 bytes per number of the short operand.
// Needs     sm_90a. Any fp32 numbers, as 25. ALIGNED = 1: rows of the tall operand start on 16 bytes. 0: any alignment;
//           the producer's threads copy it number by number into the same layout.
// Try next  Both operands fp32 in shared memory, the short one split by the producer: no prologue.

#include "epilogue/epilogue.cuh"
#include "epilogue/ieee_recompute.cuh"
#include "ptx/cluster.cuh"
#include "ptx/pdl.cuh"
#include "tile/registers_mainloop.cuh"

constexpr int CONSUMERS = BM / 64;
constexpr int THREADS = WARPGROUP_THREADS * (CONSUMERS + 1);
using Tall = Fp32Tile<BM, SWAP ? TRANS_B : !TRANS_A>;
using Short = OperandTile<BN, SWAP ? !TRANS_A : TRANS_B>;
constexpr int STAGE_BYTES = Tall::BYTES + TERMS * Short::BYTES;
constexpr int TMA_BYTES = STAGE_BYTES - (ALIGNED ? 0 : Tall::BYTES);
constexpr int FULL_ARRIVALS = ALIGNED ? 1 : 1 + WARPGROUP_THREADS;
constexpr int SHARE = BM / SPLIT;   // rows of outputs that a block of a cluster stores
constexpr int PARTIAL_LD = BN + 4;  // four adjacent columns of eight rows are in 32 different banks
constexpr int BUDGETED_ACCUMULATORS = 192;
// Steps of k that the tensor core adds: four, if registers suffice for two sets of their terms.
constexpr int STEPS = BN / 2 * (2 + COMPENSATED) + 2 * 48 <= (CONSUMERS == 3 ? 128 : 176) ? 4 : 2;

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     const float* __restrict__ A, long long lda, const float* __restrict__ B, long long ldb, float beta, float* C,
     long long ldc, const float* __restrict__ bias, long long strideA, long long strideB, long long strideC,
     int batch) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const unsigned stages = shared_address(shared), received = stages + STAGES * STAGE_BYTES;
    const unsigned full = received + (SPLIT > 1 ? 4 * BM * PARTIAL_LD : 0), empty = full + 8 * STAGES;
    const unsigned complete = empty + 8 * STAGES;
    const auto expect_partials = [&] { mbarrier_arrive_expect_tx(complete, 4 * BM * BN); };
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + 8 * i, FULL_ARRIVALS);
            mbarrier_init(empty + 8 * i, CONSUMERS * WARPGROUP_THREADS);
        }
        mbarrier_init(complete, 1);
        mbarrier_init_fence();
        if (SPLIT > 1) expect_partials();
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
    }
    if (SPLIT > 1)
        cluster_sync();  // every block can receive
    else
        __syncthreads();
    pdl_launch_dependents();

    const int rows = SWAP ? N : M, cols = SWAP ? M : N, rank = blockIdx.x % SPLIT;
    const unsigned tiles_m = (rows - 1) / BM + 1, tiles_n = (cols - 1) / BN + 1;
    const KTileRange range = k_tile_range(K, alpha, 1, rank, SPLIT);
    // Tiles that share the tall operand's rows come one after another.
    const auto for_each_tile = [&](const auto& body) {
        for (unsigned t = blockIdx.x / SPLIT; t < tiles_m * tiles_n * batch; t += gridDim.x / SPLIT) {
            const unsigned z = t / (tiles_m * tiles_n), i = t - z * (tiles_m * tiles_n);
            body(static_cast<int>(i / tiles_n * BM), static_cast<int>(i % tiles_n * BN), static_cast<int>(z));
        }
    };
    Ring<STAGES> ring;
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS, thread = threadIdx.x % WARPGROUP_THREADS;
    if (warpgroup == 0) {  // the producer
        producer_dealloc_registers<CONSUMERS, BUDGETED_ACCUMULATORS>();
        pdl_wait();
        for_each_tile([&](int row, int col, int z) {
            if (!ALIGNED || thread == 0)
                for (int k = range.begin; k < range.end; ++k) {
                    const unsigned stage = stages + ring.stage * STAGE_BYTES, barrier = full + 8 * ring.stage;
                    mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
                    if (thread == 0) {
                        mbarrier_arrive_expect_tx(barrier, TMA_BYTES);
                        if (ALIGNED)
                            Tall::load(stage, SWAP ? map_b : map_a, barrier, row, k * BK,
                                       (SWAP ? strideB : strideA) ? z : 0);
                        for (int term = 0; term < TERMS; ++term)
                            Short::load(stage + Tall::BYTES + term * Short::BYTES, SWAP ? map_a : map_b, barrier, col,
                                        k * BK, ((SWAP ? strideA : strideB) ? z * TERMS : 0) + term);
                    }
                    if (!ALIGNED) {
                        Tall::copy<WARPGROUP_THREADS>(
                            stage, (SWAP ? B : A) + z * (SWAP ? strideB : strideA), SWAP ? ldb : lda,
                            Tall::K_MAJOR ? rows : K, Tall::K_MAJOR ? K : rows, row, k * BK, thread);
                        cp_async_mbarrier_arrive(barrier);
                    }
                    ring.advance();
                }
            if (SPLIT > 1) {
                __syncwarp();
                cluster_sync();  // everyone has stored this tile: its partial sums may be overwritten
            }
        });
        return;
    }
    consumer_alloc_registers<CONSUMERS, BUDGETED_ACCUMULATORS>();
    pdl_wait();  // outputs of the previous kernel may be our C
    const int lane = thread % 32, warp_row = (warpgroup - 1) * 64 + thread / 32 * 16;
    const Tall::Offsets offsets = Tall::offsets(warp_row);
    const auto release = [&](int stage) { mbarrier_arrive(empty + 8 * stage); };  // every thread reads a stage itself
    const bool pairs = vectors_fit<2>(C, ldc) && strideC % 2 == 0, fours = vectors_fit<4>(C, ldc) && strideC % 4 == 0;
    unsigned parity = 0;  // of `complete`
    for_each_tile([&](int row, int col, int z) {
        float acc[BN / 2];
        const int count = range.end - range.begin;
        registers_mainloop<Tall, Short, COMPENSATED, STEPS>(acc, ring, stages, full, count, offsets, release);
        const int top = SWAP ? col : row, left = SWAP ? row : col;
        const Window<float> c = window(C + z * strideC, ldc, M, N, top, left);
        const Epilogue<float> epilogue = epilogue_at(top, left, alpha, beta, bias);
        // The output for a sum of products, in row r and column q of the tile of wgmma.
        const auto finished = [&](float sum, int r, int q) {
            const float scaled = __fmul_rn(sum, ACC_UNSCALE);
            if (fabsf(scaled) < __int_as_float(0x7F800000) || !c.inside(SWAP ? q : r, SWAP ? r : q)) return scaled;
            const int m = top + (SWAP ? q : r), n = left + (SWAP ? r : q);
            const StridedVector a = {A + z * strideA + m * (TRANS_A ? 1 : lda), TRANS_A ? lda : 1};
            const StridedVector b = {B + z * strideB + n * (TRANS_B ? ldb : 1), TRANS_B ? 1 : ldb};
            return fma_dot(a, b, K);
        };
        if constexpr (SPLIT == 1) {
            const bool whole = pairs && c.holds(SWAP ? BN : BM, SWAP ? BM : BN);
            for_each_row(reinterpret_cast<float (&)[BN / 8][4]>(acc), [&](int j, const float (&four)[4]) {
                const int q = j * 8 + lane % 4 * 2;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int r = warp_row + Tall::row_of(lane / 4, half);
                    const float two[] = {finished(four[half * 2], r, q), finished(four[half * 2 + 1], r, q + 1)};
                    if constexpr (SWAP) {
                        store_with_epilogue<1, 1>(c, q, r, &two[0], epilogue, false);
                        store_with_epilogue<1, 1>(c, q + 1, r, &two[1], epilogue, false);
                    } else {
                        store_with_epilogue<2, 2>(c, r, q, two, epilogue, whole);
                    }
                }
            });
        } else {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int r = warp_row + Tall::row_of(lane / 4, half);
                const unsigned target = received + 4 * (rank * SHARE + r % SHARE) * PARTIAL_LD + 8 * (lane % 4);
#pragma unroll
                for (int j = 0; j < BN / 8; ++j)
                    st_async(target + 32 * j, complete, r / SHARE, acc[j * 4 + half * 2], acc[j * 4 + half * 2 + 1]);
            }
            mbarrier_wait(complete, parity);
            parity ^= 1;
            const float* const partials = reinterpret_cast<const float*>(shared + STAGES * STAGE_BYTES);
            const bool whole = fours && c.holds(BM, BN);
            // Adjacent threads have adjacent outputs of a row of C; each has four adjacent columns of partial sums.
            for (int i = threadIdx.x - WARPGROUP_THREADS; i < SHARE * BN / 4; i += CONSUMERS * WARPGROUP_THREADS) {
                const int share_row = SWAP ? i % SHARE : i / (BN / 4), q = (SWAP ? i / SHARE : i % (BN / 4)) * 4;
                const int r = rank * SHARE + share_row;
                float sum[4];
#pragma unroll
                for (int from = 0; from < SPLIT; ++from) {
                    const auto* const source = partials + (from * SHARE + share_row) * PARTIAL_LD + q;
                    const auto partial = *reinterpret_cast<const Vec<float, 4>*>(source);
#pragma unroll
                    for (int j = 0; j < 4; ++j) sum[j] = from == 0 ? partial.at[j] : __fadd_rn(sum[j], partial.at[j]);
                }
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[j] = finished(sum[j], r, q + j);
                if constexpr (SWAP) {
#pragma unroll
                    for (int j = 0; j < 4; ++j) store_with_epilogue<1, 1>(c, q + j, r, &sum[j], epilogue, false);
                } else {
                    store_with_epilogue<4, 4>(c, r, q, sum, epilogue, whole);
                }
            }
            if (threadIdx.x == WARPGROUP_THREADS) expect_partials();
            __syncwarp();
            cluster_sync();
        }
    });
}
