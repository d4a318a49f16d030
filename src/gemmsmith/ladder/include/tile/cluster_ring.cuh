// A ring of slices that the blocks of a cluster fill together: Rows x Cols blocks, of which those above each other need
// the same columns of B and those beside each other the same rows of A. Each loads a part of such a slice, for all who
// need it; so a stage is empty when the consumers of the whole cluster have left it.
#pragma once

#include "tile/operand_tile.cuh"

// Barriers of all stages, and the cluster (or the block) met: before this nobody may write to another's shared memory.
template <int Stages, int Blocks, int Consumers>
__device__ __forceinline__ void start_ring(unsigned full, unsigned empty, const TensorMap& map_a,
                                           const TensorMap& map_b) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < Stages; ++i) {
            barrier_init(full + 8 * i, 1);
            barrier_init(empty + 8 * i, Blocks * Consumers);
        }
        barrier_init_done();
        prefetch_map(map_a);
        prefetch_map(map_b);
    }
    if (Blocks > 1)
        cluster_sync();
    else
        __syncthreads();
}

// This group has read a stage: `thread` is the number of the calling thread in its group.
template <int Blocks>
__device__ __forceinline__ void leave_stage(unsigned empty, int thread) {
    if (Blocks > 1) {
        if (thread < Blocks) barrier_arrive_at(empty, thread);
    } else if (thread == 0) {
        barrier_arrive(empty);
    }
}

// One block's place in its cluster, and what it loads.
template <int Rows, int Cols>
struct ClusterLoader {
    int rank, row, col;

    __device__ __forceinline__ ClusterLoader()
        : rank(Rows * Cols > 1 ? cluster_rank() : 0), row(rank % Rows), col(rank / Rows) {}

    // The blocks that need this one's rows of A, and those that need its columns of B.
    __device__ __forceinline__ unsigned short beside() const {
        unsigned short mask = 0;
        for (int i = 0; i < Cols; ++i) mask |= 1 << (i * Rows + row);
        return mask;
    }
    __device__ __forceinline__ unsigned short above() const {
        unsigned short mask = 0;
        for (int i = 0; i < Rows; ++i) mask |= 1 << (col * Rows + i);
        return mask;
    }

    // Waits for a stage to be empty, then asks for this block's parts of the slices of A at (a, k) of matrix z_a and of
    // B at (k, b) of matrix z_b.
    template <class TileA, class TileB>
    __device__ __forceinline__ void load(unsigned stage, unsigned full, unsigned empty, unsigned parity,
                                         const TensorMap& map_a, const TensorMap& map_b, int a, int b, int k, int z_a,
                                         int z_b) const {
        barrier_wait(empty, parity);
        barrier_expect(full, TileA::BYTES + TileB::BYTES);
        TileA::load(stage, map_a, full, a, k, z_a, col, beside());
        TileB::load(stage + TileA::BYTES, map_b, full, b, k, z_b, row, above());
    }
};
