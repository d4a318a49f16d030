// Sliced-K: teams of threads have accumulators of the same outputs, each over other steps of K, and add them up.
//
//     every team   [ its accumulators ] -> shared memory -> [ a share of the sums ] -> use
//
// All teams leave their accumulators in shared memory at once; then each team adds up a share of the outputs, in the
// order of the teams, so the result does not depend on timing. Where shared memory is too small, this is done in parts.
#pragma once

// Fours of Fours accumulators of a thread, a power of two, that all teams can leave in Bytes of shared memory at once.
template <int Threads, int Fours>
constexpr int fours_at_once(int bytes) {
    int count = 1;
    while (2 * count <= Fours && 2 * count * Threads * 16 <= bytes) count *= 2;
    return count;
}

// Calls `use(f, four)` with sums of accumulators 4 f to 4 f + 3 of a thread of the first team; every team has every
// Teams-th of them. `buffer` is shared memory of Bytes, which is free after the first barrier.
template <int Team, int Teams, int Bytes, int Rows, int Cols, class Use>
__device__ __forceinline__ void add_teams(const float (&acc)[Rows][Cols], float* buffer, const Use& use) {
    constexpr int FOURS = Rows * Cols / 4, AT_ONCE = fours_at_once<Team * Teams, FOURS>(Bytes);
    static_assert(Team * Teams * AT_ONCE * 16 <= Bytes, "four accumulators of every thread fit");
    const int team = threadIdx.x / Team;
    float* const own = buffer + threadIdx.x % Team;
#pragma unroll
    for (int from = 0; from < FOURS; from += AT_ONCE) {
        __syncthreads();  // the ring, or the previous partial sums, have been read
#pragma unroll
        for (int i = 0; i < AT_ONCE * 4; ++i)
            own[(team * AT_ONCE * 4 + i) * Team] = acc[(from * 4 + i) / Cols][(from * 4 + i) % Cols];
        __syncthreads();
#pragma unroll 1
        for (int f = team; f < AT_ONCE; f += Teams) {
            float partial[Teams][4];
#pragma unroll
            for (int i = 0; i < Teams * 4; ++i) partial[i / 4][i % 4] = own[((i / 4 * AT_ONCE + f) * 4 + i % 4) * Team];
#pragma unroll
            for (int i = 4; i < Teams * 4; ++i)
                partial[0][i % 4] = __fadd_rn(partial[0][i % 4], partial[i / 4][i % 4]);
            use(from + f, partial[0]);
        }
    }
}
