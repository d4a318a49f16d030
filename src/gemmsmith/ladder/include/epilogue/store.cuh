// The way back from sums to C that STORE_MODE says, which is what C allows:
//
//     2, tma      STORE_BOXES boxes are staged at once, and TMA writes them (tma_store.cuh); rows of C start and end on
//                 16 bytes
//     1, threads  boxes are staged, and each warp writes its own 16 rows (thread_store.cuh); rows start anywhere
//     0, direct   nothing is staged: outputs are stored from registers, two neighbours at a time
#pragma once

#include "epilogue/thread_store.cuh"
#include "epilogue/tma_store.cuh"

constexpr int STORE_DIRECT = 0, STORE_BY_THREADS = 1, STORE_BY_TMA = 2;
constexpr int BOXES = STORE_MODE == STORE_DIRECT ? 0 : STORE_BOXES;  // that a group stages at once

// Of so many columns: as many boxes at once as divide them.
template <int Cols>
constexpr int boxes_of() {
    int boxes = BOXES;
    while (boxes > 1 && Cols / CHUNK<Cols> % boxes) --boxes;
    return boxes;
}

// Stores the sums of group 1, 2 ... as STORE_MODE says: its tile begins at (top, left) of C number z, its own rows
// `row` further down. Sums to which C's old values are added are stored from registers.
template <int Cols, int Tiles, class Out>
__device__ __forceinline__ void store_sums_staged(const TensorMap& map, unsigned staging, int group,
                                                  const Window<Out>& c, int row, int top, int left, int z,
                                                  float (&sums)[Tiles][Cols / 2], const Finish<Out>& of_tile,
                                                  bool whole) {
    with_or_without_c(of_tile, [&](const Finish<Out>& finish, auto reads_c) {
        const unsigned own = staging + (group - 1) * BOXES * STORE_BOX<Cols>;
        if constexpr (STORE_MODE == STORE_BY_TMA && !decltype(reads_c)::value)
            store_sums_by_tma<boxes_of<Cols>(), Cols>(map, own, group, c, row, top, left, z, sums, finish, whole);
        else if constexpr (STORE_MODE == STORE_BY_THREADS && !decltype(reads_c)::value)
            store_sums_in_pieces<boxes_of<Cols>(), Cols>(own, c, row, sums, finish, whole);
        else
            store_sums<Cols>(c, row, sums, finish, whole);
    });
}
