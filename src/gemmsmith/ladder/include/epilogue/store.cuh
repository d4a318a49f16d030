// How accumulators are stored to C: as STORE_MODE says, which is what C allows.
//
//     2, tma      STORE_BOXES boxes are staged at once and stored by TMA (tma_store.cuh); rows of C start and end on 16
//                 bytes
//     1, threads  boxes of 16-bit outputs are staged, and each warp stores its own 16 rows (thread_store.cuh); rows of C
//                 start at any address
//     0, direct   nothing is staged: outputs are stored from registers, two adjacent elements at a time
//                 (direct_store.cuh)
#pragma once

#include "epilogue/thread_store.cuh"
#include "epilogue/tma_store.cuh"

constexpr int STORE_DIRECT = 0, STORE_BY_THREADS = 1, STORE_BY_TMA = 2;
constexpr int BOXES = STORE_MODE == STORE_DIRECT ? 0 : STORE_BOXES;  // that a warpgroup stages at once

// The largest number of boxes, up to BOXES, that divides Cols columns; of 32-bit outputs, any number.
template <int Cols>
constexpr int boxes_of() {
    constexpr int ALL = Cols / STAGED_COLS<Cols>;
    int boxes = BOXES;
    while (boxes > 1 && (sizeof(OUT) == 2 ? ALL % boxes > 0 : boxes > ALL)) --boxes;
    return boxes;
}

// Stores the accumulators of warpgroup 1, 2 ... as STORE_MODE says: its tile begins at (top, left) of C number z, its own rows `row`
// further down. If the old values of C are added, outputs are stored from registers.
template <int Cols, int MTiles, class Out>
__device__ __forceinline__ void store_accumulators(const TensorMap& map, unsigned staging, int warpgroup,
                                                   const Window<Out>& c, int row, int top, int left, int z,
                                                   float (&acc)[MTiles][Cols / 2], const Epilogue<Out>& of_tile,
                                                   bool whole) {
    with_or_without_c(of_tile, [&](const Epilogue<Out>& epilogue, auto reads_c) {
        const unsigned own = staging + (warpgroup - 1) * BOXES * STORE_BOX<Cols>;
        if constexpr (STORE_MODE == STORE_BY_TMA && !decltype(reads_c)::value)
            store_accumulators_by_tma<boxes_of<Cols>(), Cols>(map, own, warpgroup, c, row, top, left, z, acc, epilogue,
                                                              whole);
        else if constexpr (STORE_MODE == STORE_BY_THREADS && !decltype(reads_c)::value)
            store_accumulators_by_threads<boxes_of<Cols>(), Cols>(own, c, row, acc, epilogue, whole);
        else
            store_accumulators_direct<Cols>(c, row, acc, epilogue, whole);
    });
}
