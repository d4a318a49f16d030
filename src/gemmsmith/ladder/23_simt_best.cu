// 23 simt_best: the CUDA cores do little else than multiply.
//
// Idea      An SM issues four instructions a clock, and products can take every slot: whatever else the loop does costs
//           speed. 16 x 8 sums a thread need 6 reads of 16 bytes for 128 products, and slices come by cp.async: in the
//           machine code for sm_90, 256 of the 273 instructions of the inner loop multiply. Rows of sums are gone
//           through to and fro, so that a product shares operands with the one before it, also from row to row.
// Changed   From 11: the tile of a warp and of a thread as in 10, fragments a step ahead as in 15, any layout
//           (k_tile_copy.cuh), blocks in groups (grouped_order.cuh). Lanes are dealt out so that those whose numbers
//           differ in bit 0 read the same of A and those that differ in bit 1 the same of B: a read of 16 bytes by a
//           warp then takes two wavefronts instead of four. Tiles that do not fill a wave of SHARERS blocks are shared
//           (stream_k_tiles.cuh); where tiles are small, TEAMS teams of warps share the steps of every slice.
// Owns      A block owns BM x BN outputs, a warp WM x WN, a thread TM x TN of them, in pieces of 4 x 4:
//
//   warp 64 x 64, 16 x 8 a thread: 4 x 8 lanes          lanes of a piece of 16 x 32
//   +---------+---------+                                   0  1  4  5  8  9 12 13      four rows and four columns
//   | piece   |         |   4 pieces of 16 rows             2  3  6  7 10 11 14 15      of outputs each
//   +---------+---------+   by 2 of 32 columns             16 17 20 21 24 25 28 29
//   |         |         |                                  18 19 22 23 26 27 30 31
//   +---------+---------+
//   :         :         :
//
// Budget    STAGES * BK * (BM + BN) floats of shared memory, and 4 more for each k of an operand that is transposed:
//           73 KB. 128 sums and 48 fragment registers a thread; one block has the SM to itself, two warps a scheduler.
// Needs     sm_80. ALIGNED = 1 where rows of A and B start on 16 bytes (pointers, leading dimensions and batch
//           strides); ALIGNED = 0 anywhere: copies of 4 bytes, in the same pipeline. TRANSPOSED_COPY = 1: operands along k, or
//           off 16 bytes, have been turned before (transpose.cu): copies of 16 bytes in any layout.
// Try next  Tensor cores, with numbers in parts: 22.

#include "epilogue/epilogue.cuh"
#include "schedule/grouped_order.cuh"
#include "schedule/stream_k_tiles.cuh"
#include "tile/k_tile_copy.cuh"

constexpr int WARPS_N = BN / WN, WARPS = BM / WM * WARPS_N;  // of a team
constexpr int TEAM = 32 * WARPS, THREADS = TEAM * TEAMS;
constexpr int LANES_M = WM / TM, LANES_N = WN / TN;
constexpr int STEPS = BK / TEAMS;  // of a team in a slice
static_assert(LANES_M * LANES_N == 32 && LANES_M > 1 && LANES_N > 1, "a warp's tile keeps 32 lanes busy");
static_assert(TM % 4 == 0 && TN % 4 == 0, "a thread's tile is made of pieces of 4 x 4");
static_assert(UNROLL % 2 == 0 && STEPS % UNROLL == 0, "two sets of fragments take turns");
// TRANSPOSED_COPY: both lie across k, whatever the caller's do.
using CopyA = SliceCopy<BM, BK, THREADS, !TRANS_A && !TRANSPOSED_COPY, ALIGNED>;
using CopyB = SliceCopy<BN, BK, THREADS, TRANS_B && !TRANSPOSED_COPY, ALIGNED>;
constexpr int STAGE = CopyA::BYTES + CopyB::BYTES;

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc,
     const float* __restrict__ bias, long long strideA, long long strideB, long long strideC,
     unsigned char* workspace) {
    extern __shared__ __align__(16) float shared[];  // a ring of STAGES slices of A and B
    drop_empty_product(K, alpha);
    const bool vectors = vectors_fit<4>(C, ldc) && strideC % 4 == 0;
    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % WARPS, team = threadIdx.x / TEAM;
    const int m0 = warp / WARPS_N * WM + (lane / 2 % 2 + lane / (2 * LANES_N) * 2) * 4;
    const int n0 = warp % WARPS_N * WN + (lane % 2 + lane / 4 % (LANES_N / 2) * 2) * 4;

    float a[2][TM], b[2][TN];
    const float *read_a, *read_b;
    const auto read_from = [&](unsigned offset) {
        read_a = shared + offset / 4 + team * CopyA::PITCH + m0;
        read_b = shared + offset / 4 + CopyA::BYTES / 4 + team * CopyB::PITCH + n0;
    };
    const auto read = [&](int k) {
#pragma unroll
        for (int i = 0; i < TM; i += 4)
            load_fragment<4>(reinterpret_cast<float (&)[4]>(a[k % 2][i]),
                             read_a + k * TEAMS * CopyA::PITCH + i * LANES_M);
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            load_fragment<4>(reinterpret_cast<float (&)[4]>(b[k % 2][j]),
                             read_b + k * TEAMS * CopyB::PITCH + j * LANES_N);
    };

    const unsigned down = (M - 1) / BM + 1, across = (N - 1) / BN + 1;  // in tiles
    const int slices = K > 0 ? (K - 1) / BK + 1 : 0;
    // Worked out again where it is needed, rather than kept in registers while slices are multiplied.
    const auto sharing = [&] {
        return SharedTiles<SHARERS ? SHARERS : 1>(anew(((M - 1) / BM + 1) * ((N - 1) / BN + 1)), slices);
    };
    Part part = {blockIdx.x, 0, slices, 0};
    if (SHARERS) part = sharing().part_of_block();
    while (true) {
        const Place place = grouped_place<GROUP>(part.tile, down, across);
        const Tile tile = {static_cast<int>(place.down * BM), static_cast<int>(place.across * BN)};
        const auto c = window(C, ldc, M, N, tile.row, tile.col);
        float sums[TM][TN] = {};
        const auto multiply = [&](int k) {
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int step = 0; step < TN; ++step) {
                    const int j = i % 2 ? TN - 1 - step : step;
                    sums[i][j] = __fmaf_rn(a[k % 2][i], b[k % 2][j], sums[i][j]);
                }
        };
        if (part.count > 0) {
            const unsigned ring = shared_address(shared);
            const int begin = part.first * BK, last = part.first + part.count, end = last == slices ? K : last * BK;
            CopyA copy_a(ring, A, lda, tile.row, M, begin, end);
            CopyB copy_b(ring + CopyA::BYTES, B, ldb, tile.col, N, begin, end);
            int left = part.count;  // not yet copied; counted where there is a guard
            const auto copy = [&](auto guarded, unsigned offset) {
                constexpr bool GUARDED = decltype(guarded)::value;
                if (!GUARDED || left > 0) {
                    copy_a.copy<GUARDED>(offset);
                    copy_b.copy<GUARDED>(offset);
                }
                cp_async_commit();  // even an empty group: waiting counts groups, so every slice must have one
                if (GUARDED) --left;
                copy_a.advance();
                copy_b.advance();
            };
#pragma unroll
            for (int stage = 0; stage < STAGES - 1; ++stage) copy(Guarded<true>(), stage * STAGE);
            cp_async_wait<STAGES - 2>();
            __syncthreads();
            const auto after = [&](unsigned offset) { return offset == (STAGES - 1) * STAGE ? 0 : offset + STAGE; };
            unsigned from = 0, to = (STAGES - 1) * STAGE;  // where slices are read and written
            read_from(from);
            read(0);
            const auto run = [&](auto guarded, int rounds) {
#pragma unroll 1
                for (; rounds > 0; --rounds) {
                    copy(guarded, to);
                    to = after(to);
                    // The last step of a slice is left out: it reads from the next one. Steps are not all unrolled, as
                    // the compiler would then move reads down to where they are needed.
#pragma unroll 1
                    for (int k = UNROLL; k < STEPS; k += UNROLL) {
#pragma unroll
                        for (int step = 0; step < UNROLL; ++step) {
                            read(step + 1);
                            multiply(step);
                        }
                        read_a += UNROLL * TEAMS * CopyA::PITCH;
                        read_b += UNROLL * TEAMS * CopyB::PITCH;
                    }
#pragma unroll
                    for (int step = 0; step < UNROLL - 1; ++step) {
                        read(step + 1);
                        multiply(step);
                    }
                    cp_async_wait<STAGES - 2>();  // this thread's copies of the next slice have arrived,
                    __syncthreads();              // now everyone's have, and all have read this one
                    // Behind the last slice there is none: what is read then is not used, but must exist.
                    if (!decltype(guarded)::value || rounds > 1) from = after(from);
                    read_from(from);
                    read(0);
                    multiply(1);
                }
            };
            const int unguarded = c.holds(BM, BN) ? max(0, (end - begin) / BK - (STAGES - 1)) : 0;
            run(Guarded<false>(), unguarded);
            left = part.count - unguarded - (STAGES - 1);
            run(Guarded<true>(), part.count - unguarded);
        }

        float* const kept = shared + threadIdx.x % TEAM;
#pragma unroll 1
        for (int other = 1; other < TEAMS; ++other) {
            __syncthreads();  // the ring, or what the team before left here, has been read
            if (team == other) for_each_sum(sums, [&](float sum, int i) { kept[i * TEAM] = sum; });
            __syncthreads();
            if (team == 0) for_each_sum(sums, [&](float& sum, int i) { sum = __fadd_rn(sum, kept[i * TEAM]); });
        }
        const auto finish = finish_at(tile.row, tile.col, alpha, beta, bias);
        const bool all = vectors && c.holds(BM, BN);
        const auto store_four = [&](int i, int j, const float* four) {  // of this thread's sums, from the i, j-th on
            store_finished<4, 4>(c, m0 + i / 4 * 4 * LANES_M + i % 4, n0 + j * LANES_N, four, finish, all);
        };
        if (!SHARERS || part.count == slices) {
            if (team == 0)
                for_each_row(sums, [&](int i, const float (&row)[TN]) {
#pragma unroll
                    for (int j = 0; j < TN; j += 4) store_four(i, j, &row[j]);
                });
        } else {
            sharing().add_up<TEAM, TEAMS>(part.tile, sums, workspace, store_four);
        }
        if (!SHARERS || part.in_next == 0) return;
        part = {part.tile + 1, 0, part.in_next, 0};  // the ring has been read: add_up has barriers
    }
}
