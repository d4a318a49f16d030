// Sliced-K: teams of threads have accumulators of the same outputs, each over other steps of K, and add them up.
//
//     every team   [ its accumulators ] -> shared memory -> [ a share of the sums ] -> use
//
// All teams leave their accumulators in shared memory at once; then each team adds up a share of the outputs, in the
// order of the teams, so the result does not depend on timing. Where shared memory is too small, this is done in parts.
//
// If rows of C are unaligned, four adjacent outputs cannot be stored together, and a warp whose lanes have four each
// would touch every sector four times. Then lanes take adjacent columns instead (add_teams_by_rows).
//
// Blocks of a cluster that divide K add up in the same way, through distributed shared memory (add_cluster).
#pragma once

#include "epilogue/epilogue.cuh"
#include "ptx/cluster.cuh"

// Groups of four accumulators, of Fours that a thread has: all of them, or a power of two that divides them, so many
// that all Threads can leave theirs in `bytes` of shared memory at once.
template <int Threads, int Fours>
constexpr int fours_at_once(int bytes) {
    if (Fours * Threads * 16 <= bytes) return Fours;
    int count = 1;
    while (Fours % (2 * count) == 0 && 2 * count * Threads * 16 <= bytes) count *= 2;
    return count;
}

// Where number e of a group of four of thread `thread` lies among those of all threads: permuted among the lanes that
// have other rows, so that adjacent columns of a row are in different banks.
__device__ __forceinline__ int sum_slot(int thread, int e) { return thread ^ ((e & 1) * 2 | (e & 2) * 8); }

// Leaves accumulators 4 from to 4 (from + AtOnce) - 1 of every thread in shared memory, between two barriers.
template <int Team, int AtOnce, int Rows, int Cols>
__device__ __forceinline__ void leave_sums(const float (&acc)[Rows][Cols], float* buffer, int from) {
    __syncthreads();  // the ring, or the previous partial sums, have been read
    float* const own = buffer + threadIdx.x / Team * (AtOnce * 4 * Team);
#pragma unroll
    for (int i = 0; i < AtOnce * 4; ++i)
        own[i * Team + sum_slot(threadIdx.x % Team, i % 4)] = acc[(from * 4 + i) / Cols][(from * 4 + i) % Cols];
    __syncthreads();
}

// Calls `use(f, four)` with sums of accumulators 4 f to 4 f + 3 of a thread of the first team; every team has every
// Teams-th of them. `buffer` is shared memory of Bytes, which is free after a barrier.
template <int Team, int Teams, int Bytes, int Rows, int Cols, class Use>
__device__ __forceinline__ void add_teams(const float (&acc)[Rows][Cols], float* buffer, const Use& use) {
    constexpr int FOURS = Rows * Cols / 4, AT_ONCE = fours_at_once<Team * Teams, FOURS>(Bytes);
    static_assert(Team * Teams * AT_ONCE * 16 <= Bytes, "four accumulators of every thread fit");
#pragma unroll
    for (int from = 0; from < FOURS; from += AT_ONCE) {
        leave_sums<Team, AT_ONCE>(acc, buffer, from);
#pragma unroll 1
        for (int f = threadIdx.x / Team; f < AT_ONCE; f += Teams) {
            float partial[Teams][4];
#pragma unroll
            for (int i = 0; i < Teams * 4; ++i)
                partial[i / 4][i % 4] =
                    buffer[((i / 4 * AT_ONCE + f) * 4 + i % 4) * Team + sum_slot(threadIdx.x % Team, i % 4)];
#pragma unroll
            for (int i = 4; i < Teams * 4; ++i)
                partial[0][i % 4] = __fadd_rn(partial[0][i % 4], partial[i / 4][i % 4]);
            use(from + f, partial[0]);
        }
    }
}

// The same where there may be one team: its accumulators are the sums.
template <int Team, int Teams, int Bytes, int Rows, int Cols, class Use>
__device__ __forceinline__ void for_each_four(float (&acc)[Rows][Cols], float* buffer, const Use& use) {
    if constexpr (Teams > 1)
        add_teams<Team, Teams, Bytes>(acc, buffer, use);
    else
        for_each_row(acc, [&](int i, const float (&row)[Cols]) {
#pragma unroll
            for (int j = 0; j < Cols; j += 4) use((i * Cols + j) / 4, &row[j]);
        });
}

// The same for a cluster of Blocks, whose blocks have sums over parts of K: block `rank` uses every Blocks-th share.
template <int Team, int Teams, int Blocks, int Bytes, int Rows, int Cols, class Use>
__device__ __forceinline__ void add_cluster(float (&acc)[Rows][Cols], float* buffer, int rank, const Use& use) {
    if (Teams == 1) __syncthreads();  // the ring has been read
    // A thread leaves sums where it read those of the first team, if there are several: nobody else reads them.
    const int thread = threadIdx.x % Team;
    for_each_four<Team, Teams, Bytes>(acc, buffer, [&](int f, const float* four) {
#pragma unroll
        for (int i = 0; i < 4; ++i) buffer[(f * 4 + i) * Team + sum_slot(thread, i)] = four[i];
    });
    cluster_sync();
    // All of a thread's sums are read before the first is stored: a read from another block takes long, and so would the
    // barrier behind stores, since its release waits until they are written.
    constexpr int FOURS = Rows * Cols / 4, STRIDE = Blocks * Teams, EACH = (FOURS - 1) / STRIDE + 1;
    const int first = rank * Teams + threadIdx.x / Team;
    const auto has = [&](int n) { return FOURS % STRIDE == 0 || first + n * STRIDE < FOURS; };
    float sums[EACH][4];
#pragma unroll
    for (int n = 0; n < EACH; ++n)
        if (has(n)) {
            float partial[Blocks][4];
            const float* const own = &buffer[(first + n * STRIDE) * 4 * Team];
#pragma unroll
            for (int i = 0; i < Blocks * 4; ++i)
                partial[i / 4][i % 4] =
                    load_cluster_4(shared_address(&own[i % 4 * Team + sum_slot(thread, i % 4)]), i / 4);
#pragma unroll
            for (int i = 0; i < Blocks * 4; ++i)
                sums[n][i % 4] = i < 4 ? partial[0][i] : __fadd_rn(sums[n][i % 4], partial[i / 4][i % 4]);
        }
    cluster_arrive();
    for_each_row(sums, [&](int n, const float (&four)[4]) {
        if (has(n)) use(first + n * STRIDE, four);
    });
    cluster_wait();  // others may still read this block's sums
}

// Whether `bytes` of shared memory hold whole rows of the thread tiles of all threads.
template <int Threads, int Fours>
constexpr bool can_add_teams_by_rows(int bytes, int warp_cols, int thread_cols) {
    const int fours = fours_at_once<Threads, Fours>(bytes);
    return fours * Threads * 16 <= bytes && fours * 4 % thread_cols == 0 && warp_cols % 32 == 0;
}

// The same as add_teams, but calls `use(row, col, sum)` for single outputs of the block's tile: the lanes of a warp
// have adjacent columns. Warp tiles are WarpRows x WarpCols, WarpsN next to each other.
template <int Team, int Teams, int Bytes, int WarpRows, int WarpCols, int WarpsN, int Rows, int Cols, class Use>
__device__ __forceinline__ void add_teams_by_rows(const float (&acc)[Rows][Cols], float* buffer, const Use& use) {
    constexpr int FOURS = Rows * Cols / 4, AT_ONCE = fours_at_once<Team * Teams, FOURS>(Bytes);
    constexpr int LANES_OF_ROWS = WarpRows / Rows, LANES_OF_COLS = WarpCols / Cols;
    constexpr int ROWS_AT_ONCE = AT_ONCE * 4 / Cols, SPANS = WarpCols / 32;  // rows of a thread; 32 columns of a warp
    static_assert(can_add_teams_by_rows<Team * Teams, FOURS>(Bytes, WarpCols, Cols), "whole rows fit");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int from = 0; from < FOURS; from += AT_ONCE) {
        leave_sums<Team, AT_ONCE>(acc, buffer, from);
#pragma unroll 2
        for (int u = threadIdx.x / 32; u < Team / 32 * ROWS_AT_ONCE * LANES_OF_ROWS * SPANS; u += Team * Teams / 32) {
            const int lane_row = u / SPANS % LANES_OF_ROWS, thread_row = u / (SPANS * LANES_OF_ROWS) % ROWS_AT_ONCE;
            const int w = u / (SPANS * LANES_OF_ROWS * ROWS_AT_ONCE);
            const int col = u % SPANS * 32 + lane, e = col % 4, lane_col = col / 4 % LANES_OF_COLS;
            const int owner = lane_col % 2 + lane_row % 2 * 2 + lane_col / 2 * 4 + lane_row / 2 * (2 * LANES_OF_COLS);
            const int i = thread_row * Cols + col / (4 * LANES_OF_COLS) * 4 + e;
            float sum = buffer[i * Team + w * 32 + sum_slot(owner, e)];
#pragma unroll
            for (int team = 1; team < Teams; ++team)
                sum = __fadd_rn(sum, buffer[(team * AT_ONCE * 4 + i) * Team + w * 32 + sum_slot(owner, e)]);
            const int r = from * 4 / Cols + thread_row;
            use(w / WarpsN * WarpRows + r / 4 * (4 * LANES_OF_ROWS) + lane_row * 4 + r % 4, w % WarpsN * WarpCols + col,
                sum);
        }
    }
}

// Calls `use_four` for all sums; or, if rows of C are unaligned and shared memory suffices, `use_one`.
template <int Team, int Teams, int Bytes, int WarpRows, int WarpCols, int WarpsN, int Rows, int Cols, class UseFour,
          class UseOne>
__device__ __forceinline__ void add_teams_for(float (&acc)[Rows][Cols], float* buffer, bool aligned,
                                              const UseFour& use_four, const UseOne& use_one) {
    if constexpr (can_add_teams_by_rows<Team * Teams, Rows * Cols / 4>(Bytes, WarpCols, Cols)) {
        if (aligned)
            for_each_four<Team, Teams, Bytes>(acc, buffer, use_four);
        else
            add_teams_by_rows<Team, Teams, Bytes, WarpRows, WarpCols, WarpsN>(acc, buffer, use_one);
    } else {
        for_each_four<Team, Teams, Bytes>(acc, buffer, use_four);
    }
}
