// Sums over the lanes of a warp, of several numbers at once.
#pragma once

// Every lane has Count numbers, a power of two. Adds up those of all 32 lanes: afterwards x[i] of a lane is the sum of
// numbers number lane * Count / 32 + i, with i < Count / 32. If Count is below 32, 32 / Count lanes have the same one.
//
// In each step a lane sends one half of the numbers it has left and keeps the other: 62 shuffles for 64 numbers, not
// 320. The order of additions is a tree: lanes that differ in bit 4 first, in bit 0 last.
template <int Left, int Offset, int Count>
__device__ __forceinline__ void add_halves(float (&x)[Count]) {
    if constexpr (Left == 1) {
        x[0] = __fadd_rn(x[0], __shfl_xor_sync(0xFFFFFFFF, x[0], Offset));
    } else {
        const bool upper = threadIdx.x & Offset;
#pragma unroll
        for (int i = 0; i < Left / 2; ++i) {
            const float sent = upper ? x[i] : x[i + Left / 2], kept = upper ? x[i + Left / 2] : x[i];
            x[i] = __fadd_rn(kept, __shfl_xor_sync(0xFFFFFFFF, sent, Offset));
        }
    }
    if constexpr (Offset > 1) add_halves<(Left > 1 ? Left / 2 : 1), Offset / 2>(x);
}

template <int Count>
__device__ __forceinline__ void add_lanes(float (&x)[Count]) {
    static_assert((Count & (Count - 1)) == 0, "numbers are halved");
    add_halves<Count, 16>(x);
}

// Calls `use(number, sum)` for the sums that this lane stores: each of Count numbers is stored by one lane.
template <int Count, class Use>
__device__ __forceinline__ void for_each_sum(const float (&x)[Count], const Use& use) {
    constexpr int OWN = Count < 32 ? 1 : Count / 32, SAME = 32 * OWN / Count;  // lanes with the same sum
    const int lane = threadIdx.x % 32;
    if (lane % SAME != 0) return;
#pragma unroll
    for (int i = 0; i < OWN; ++i) use(lane / SAME * OWN + i, x[i]);
}
