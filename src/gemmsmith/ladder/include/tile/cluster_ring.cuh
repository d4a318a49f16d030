// A ring of stages that the blocks of a cluster fill together.
//
// The cluster is Rows x Cols blocks. Blocks in the same column need the same columns of B; blocks in the same row need
// the same rows of A. Each block loads one share of such a k-tile and multicasts it to all blocks that need it. So a
// stage is empty only when the consumers of all of them have released it. A cluster may have several such parts, each
// with its own part of K (Parts); those share nothing.
#pragma once

#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "tile/operand_tile.cuh"

// Initialises the barriers of all stages and synchronises the cluster (or the block). Before that, no block may write
// to another block's shared memory. A stage of a block is released by the consumers of Blocks of the cluster's Cluster
// blocks. Relaxed: the barriers alone are made visible, nothing else that was written before.
template <int Stages, int Blocks, int Consumers, int Cluster = Blocks, bool Relaxed = false>
__device__ __forceinline__ void init_ring(unsigned full, unsigned empty, const TensorMap& map_a,
                                          const TensorMap& map_b) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < Stages; ++i) {
            mbarrier_init(full + 8 * i, 1);
            mbarrier_init(empty + 8 * i, Blocks * Consumers);
        }
        mbarrier_init_fence();
        prefetch_tensor_map(map_a);
        prefetch_tensor_map(map_b);
    }
    if (Cluster > 1 && Relaxed) {
        __syncwarp();
        cluster_arrive_relaxed();
        cluster_wait();
    } else if (Cluster > 1) {
        cluster_sync();
    } else {
        __syncthreads();
    }
}

// Called by a consumer warpgroup that has read a stage. `thread` is the caller's index in its warpgroup.
template <int Blocks>
__device__ __forceinline__ void release_stage(unsigned empty, int thread) {
    if (Blocks > 1) {
        if (thread < Blocks) mbarrier_arrive_remote(empty, thread);
    } else if (thread == 0) {
        mbarrier_arrive(empty);
    }
}

// One block's position in its part of the cluster, and what it loads. `first` is the rank of the part's first block.
template <int Rows, int Cols, int Parts = 1>
struct ClusterLoader {
    int part, first, rank, row, col;

    __device__ __forceinline__ ClusterLoader()
        : part(Parts > 1 ? cluster_rank() / (Rows * Cols) : 0), first(part * (Rows * Cols)),
          rank(Rows * Cols > 1 ? cluster_rank() - first : 0), row(rank % Rows), col(rank / Rows) {}

    static constexpr int PEERS = Rows + Cols - 1;  // blocks of the same row or column, with this one

    // Called by a consumer warpgroup that has read a stage: tells the blocks that write to it, which are its peers.
    __device__ __forceinline__ void release(unsigned empty, int thread) const {
        if (Rows * Cols == 1) {
            if (thread == 0) mbarrier_arrive(empty);
        } else if (thread < Rows * Cols && (thread % Rows == row || thread / Rows == col)) {
            mbarrier_arrive_remote(empty, first + thread);
        }
    }

    // The blocks of this cluster row, which need the same rows of A.
    __device__ __forceinline__ unsigned short multicast_mask_a() const {
        unsigned short mask = 0;
        for (int i = 0; i < Cols; ++i) mask |= 1 << (first + i * Rows + row);
        return mask;
    }
    // The blocks of this cluster column, which need the same columns of B.
    __device__ __forceinline__ unsigned short multicast_mask_b() const {
        unsigned short mask = 0;
        for (int i = 0; i < Rows; ++i) mask |= 1 << (first + col * Rows + i);
        return mask;
    }

    // Waits until a stage is empty, then requests this block's shares: of A's Depth k-tiles at (a, k) of matrix z_a,
    // and of B's k-tiles at (k, b) of matrix z_b. `rest` is the map of a narrow last box of B. ExpectLast: loads first, then
    // the bytes that are expected of them; until then the phase cannot complete.
    template <class TileA, class TileB, int Depth = 1, bool ExpectLast = false>
    __device__ __forceinline__ void load(unsigned stage, unsigned full, unsigned empty, unsigned parity,
                                         const TensorMap& map_a, const TensorMap& map_b, int a, int b, int k, int z_a,
                                         int z_b, const TensorMap* rest = nullptr) const {
        mbarrier_wait(empty, parity);
        constexpr int BYTES = Depth * (TileA::LOADED_BYTES + TileB::LOADED_BYTES);
        if (!ExpectLast) mbarrier_arrive_expect_tx(full, BYTES);
#pragma unroll
        for (int d = 0; d < Depth; ++d) {
            const unsigned k_tile = stage + d * (TileA::BYTES + TileB::BYTES);
            TileA::load(k_tile, map_a, full, a, k + d * BK, z_a, col, multicast_mask_a());
            TileB::load(k_tile + TileA::BYTES, map_b, full, b, k + d * BK, z_b, row, multicast_mask_b(),
                        rest);
        }
        if (ExpectLast) mbarrier_arrive_expect_tx(full, BYTES);
    }
};
