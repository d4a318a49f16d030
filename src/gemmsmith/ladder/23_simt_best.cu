// 23 simt_best: the CUDA cores do little else but multiply.
//
// Idea      An SM issues four instructions per cycle, and fma can use every slot: each other instruction in the loop
//           costs speed. With 16 x 8 accumulators per thread, 6 reads of 16 bytes serve 128 fma, and k-tiles come by
//           cp.async: in the machine code for sm_90, 256 of the 273 instructions of the inner loop are fma. Rows of
//           accumulators alternate in direction: each fma shares an operand with the one before.
// Changed   From 11: warp and thread tiles as in 10, fragments one step ahead as in 15, any layout (k_tile_copy.cuh),
//           tiles in grouped order (grouped_order.cuh). Lanes whose numbers differ in bit 0 read the same values of A,
//           those that differ in bit 1 the same of B: a 16-byte read of a warp then takes two wavefronts instead of
//           four. Tiles that do not fill a wave of SHARERS blocks are divided along K (stream_k_tiles.cuh). If tiles
//           are small, TEAMS teams of warps share the steps of every k-tile and add up at its end (team_sums.cuh). If
//           outputs are few, CLUSTER_K blocks of a cluster divide K and add up through distributed shared memory.
// Owns      A block owns BM x BN outputs, a warp WM x WN, a thread TM x TN of them, in 4 x 4 squares:
//
//   warp 64 x 64, 16 x 8 per thread: 4 x 8 lanes        lanes of a subtile of 16 x 32
//   +---------+---------+                                   0  1  4  5  8  9 12 13      each has four rows and
//   | subtile |         |   4 subtiles of 16 rows           2  3  6  7 10 11 14 15      four columns of outputs
//   +---------+---------+   by 2 of 32 columns             16 17 20 21 24 25 28 29
//   |         |         |                                  18 19 22 23 26 27 30 31
//   +---------+---------+
//   :         :         :
//
// Budget    STAGES * BK * (BM + BN) floats of shared memory, plus 4 for each k of a transposed operand: 73 KB. Per
//           thread 128 accumulators and 48 fragment registers. One block per SM, two warps per scheduler.
// Needs     sm_80. ALIGNED = 1: rows of A and B start on 16 bytes (pointers, leading dimensions and batch strides).
//           ALIGNED = 0: any alignment, with 4-byte copies in the same pipeline. TRANSPOSED_COPY = 1: a prologue has
//           transposed K-major operands and aligned the others (transpose.cu), so copies have 16 bytes in any layout.
//           2: K-major operands are transposed in registers (k_tile_transpose.cuh), if rows start on 16 bytes, or on
//           8 (ALIGNED = 2).
// Try next  Tensor cores, with each number split into bf16 terms (22 fp32_tensor_bf16x6).

#include "epilogue/epilogue.cuh"
#include "ptx/cluster.cuh"
#include "ptx/pdl_wait_behind_addresses.cuh"
#include "schedule/grouped_order.cuh"
#include "schedule/stream_k_tiles.cuh"
#include "tile/k_tile_transpose.cuh"
#include "tile/team_sums.cuh"

constexpr int WARPS_N = BN / WN, WARPS = BM / WM * WARPS_N;  // per team
constexpr int TEAM = 32 * WARPS, THREADS = TEAM * TEAMS;
constexpr int LANES_M = WM / TM, LANES_N = WN / TN;
constexpr int STEPS = BK / TEAMS;  // of a team in a k-tile
static_assert(LANES_M * LANES_N == 32 && LANES_M > 1 && LANES_N > 1, "a warp tile has work for 32 lanes");
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread tile consists of 4 x 4 squares");
static_assert(UNROLL % 2 == 0 && STEPS % UNROLL == 0, "two sets of fragments alternate");
// With TRANSPOSED_COPY = 1 neither operand is K-major, whatever the caller's layout.
using CopyA = KTileLoader<TRANSPOSED_COPY == 2, BM, BK, THREADS, !TRANS_A && TRANSPOSED_COPY != 1, ALIGNED>;
using CopyB = KTileLoader<TRANSPOSED_COPY == 2, BN, BK, THREADS, TRANS_B && TRANSPOSED_COPY != 1, ALIGNED>;
constexpr int STAGE_BYTES = CopyA::BYTES + CopyB::BYTES, RING_BYTES = STAGES * STAGE_BYTES;
// Shared memory for the sums of teams: the ring; where a cluster adds up, at least as much as holds all of them.
constexpr int SUM_BYTES = 4 * TEAMS * BM * BN;
constexpr int TEAMS_BYTES = CLUSTER_K > 1 && SUM_BYTES > RING_BYTES ? SUM_BYTES : RING_BYTES;
#if CLUSTER_K > 1
#define CLUSTER_DIMS __cluster_dims__(CLUSTER_K, 1, 1)
#else
#define CLUSTER_DIMS  // GPUs before sm_90 have no clusters
#endif

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc,
     const float* __restrict__ bias, long long strideA, long long strideB, long long strideC,
     unsigned char* workspace) {
    extern __shared__ __align__(16) float shared[];  // a ring of STAGES k-tiles of A and B
    drop_empty_product(K, alpha);
    const bool c_aligned = vectors_fit<4>(C, ldc) && strideC % 4 == 0;
    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % WARPS, team = threadIdx.x / TEAM;
    const int m0 = warp / WARPS_N * WM + (lane / 2 % 2 + lane / (2 * LANES_N) * 2) * 4;
    const int n0 = warp % WARPS_N * WN + (lane % 2 + lane / 4 % (LANES_N / 2) * 2) * 4;

    float a[2][TM], b[2][TN];
    const float *read_a, *read_b;
    const auto read_from = [&](unsigned offset) {
        read_a = shared + offset / 4 + CopyA::line_of(team) + m0;
        read_b = shared + offset / 4 + CopyA::BYTES / 4 + CopyB::line_of(team) + n0;
    };
    const auto read = [&](int k) {
        const int at_a = CopyA::line_of(k * TEAMS), at_b = CopyB::line_of(k * TEAMS);
#pragma unroll
        for (int i = 0; i < TM; i += 4)
            load_fragment<4>(reinterpret_cast<float (&)[4]>(a[k % 2][i]), read_a + at_a + i * LANES_M);
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            load_fragment<4>(reinterpret_cast<float (&)[4]>(b[k % 2][j]), read_b + at_b + j * LANES_N);
    };

    const unsigned tiles_m = (M - 1) / BM + 1, tiles_n = (N - 1) / BN + 1;
    const int k_tiles = K > 0 ? (K - 1) / BK + 1 : 0;
    // Recomputed where it is needed, instead of being kept in registers during the mainloop.
    const auto stream_k = [&] {
        return StreamKTiles<SHARERS ? SHARERS : 1>(opaque(((M - 1) / BM + 1) * ((N - 1) / BN + 1)), k_tiles);
    };
    const unsigned rank = blockIdx.x % CLUSTER_K;
    const int first = 1ll * k_tiles * rank / CLUSTER_K, next = k_tiles * (rank + 1ll) / CLUSTER_K;
    WorkUnit work = {blockIdx.x / CLUSTER_K, first, next - first, 0};
    if (SHARERS) work = stream_k().work_of_block();
    while (true) {
        const TileCoord coord = grouped_tile_coord<GROUP>(work.tile, tiles_m, tiles_n);
        const Tile tile = {static_cast<int>(coord.m * BM), static_cast<int>(coord.n * BN)};
        const auto c = window(C, ldc, M, N, tile.row, tile.col);
        float acc[TM][TN] = {};
        const auto multiply = [&](int k) {
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int step = 0; step < TN; ++step) {
                    const int j = i % 2 ? TN - 1 - step : step;
                    acc[i][j] = __fmaf_rn(a[k % 2][i], b[k % 2][j], acc[i][j]);
                }
        };
        if (work.count > 0) {
            const unsigned ring = shared_address(shared);
            const int begin = work.first * BK, last = work.first + work.count, end = last == k_tiles ? K : last * BK;
            CopyA copy_a(ring, A, lda, tile.row, M, begin, end);
            CopyB copy_b(ring + CopyA::BYTES, B, ldb, tile.col, N, begin, end);
            pdl_wait_behind_addresses(copy_a.source, copy_b.source);
            int left = work.count;  // k-tiles not yet copied; counted only by guarded copies
            const auto copy = [&](auto guarded, unsigned offset) {
                constexpr bool GUARDED = decltype(guarded)::value;
                if (!GUARDED || left > 0) {
                    copy_a.copy<GUARDED>(offset);
                    copy_b.copy<GUARDED>(offset);
                }
                cp_async_commit();  // even an empty group: cp_async_wait counts groups, so every k-tile must have one
                if (GUARDED) --left;
                copy_a.advance();
                copy_b.advance();
            };
            const auto finish = [&](unsigned offset) { copy_a.finish(offset), copy_b.finish(offset); };
#pragma unroll
            for (int stage = 0; stage < STAGES - 1; ++stage)
                copy(Guarded<true>(), stage * STAGE_BYTES), finish(stage * STAGE_BYTES);
            cp_async_wait<STAGES - 2>();
            __syncthreads();
            const auto after = [](unsigned at) { return at == (STAGES - 1) * STAGE_BYTES ? 0 : at + STAGE_BYTES; };
            unsigned from = 0, to = (STAGES - 1) * STAGE_BYTES;  // the stages being read and written
            read_from(from);
            read(0);
            const auto run = [&](auto guarded, int rounds) {
#pragma unroll 1
                for (; rounds > 0; --rounds) {
                    copy(guarded, to);
                    const unsigned filled = to;
                    to = after(to);
                    // All steps of a k-tile but the last, which reads from the next k-tile. They are not fully
                    // unrolled, or the compiler would move reads down to their first use.
#pragma unroll 1
                    for (int k = UNROLL; k < STEPS; k += UNROLL) {
#pragma unroll
                        for (int step = 0; step < UNROLL; ++step) {
                            read(step + 1);
                            multiply(step);
                        }
                        read_a += CopyA::line_of(UNROLL * TEAMS);
                        read_b += CopyB::line_of(UNROLL * TEAMS);
                    }
#pragma unroll
                    for (int step = 0; step < UNROLL - 1; ++step) {
                        read(step + 1);
                        multiply(step);
                    }
                    finish(filled);
                    cp_async_wait<STAGES - 2>();  // this thread's copies of the next k-tile have arrived;
                    __syncthreads();              // now all threads' have, and all have read this one
                    // After the last k-tile there is none: fragments are still read, from valid memory, and not used.
                    if (!decltype(guarded)::value || rounds > 1) from = after(from);
                    read_from(from);
                    read(0);
                    multiply(1);
                }
            };
            const int unguarded = c.holds(BM, BN) ? max(0, (end - begin) / BK - (STAGES - 1)) : 0;
            run(Guarded<false>(), unguarded);
            left = work.count - unguarded - (STAGES - 1);
            run(Guarded<true>(), work.count - unguarded);
        }
        pdl_wait();  // the launch before may still use what is stored now: a block without k-tiles has not waited yet
        if (work.in_next == 0) pdl_launch_dependents();  // blocks that started earlier would fill the SMs unevenly
        const auto epilogue = epilogue_at(tile.row, tile.col, alpha, beta, bias);
        const bool whole = c_aligned && c.holds(BM, BN);
        const auto store_four = [&](int f, const float* four) {  // accumulators 4 f to 4 f + 3
            const int i = f * 4 / TN, j = f * 4 % TN;
            store_with_epilogue<4, 4>(c, m0 + i / 4 * 4 * LANES_M + i % 4, n0 + j * LANES_N, four, epilogue, whole);
        };
        const auto store_one = [&](int r, int q, float x) { store_with_epilogue<1, 1>(c, r, q, &x, epilogue, 0); };
        if constexpr (CLUSTER_K > 1)
            add_cluster<TEAM, TEAMS, CLUSTER_K, TEAMS_BYTES>(acc, shared, rank, store_four);
        else if (!SHARERS || work.count == k_tiles)
            add_teams_for<TEAM, TEAMS, RING_BYTES, WM, WN, WARPS_N>(acc, shared, c_aligned, store_four, store_one);
        else
            stream_k().reduce<TEAM, TEAMS, TM * TN>(work.tile, workspace, [&](const auto& use) {
                for_each_four<TEAM, TEAMS, RING_BYTES>(acc, shared, use); }, store_four);
        if (!SHARERS || work.in_next == 0) return;
        work = {work.tile + 1, 0, work.in_next, 0};  // the ring may be refilled: `reduce` has barriers
    }
}
