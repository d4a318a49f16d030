// fp32_fma: computes what 23 simt_best computes, bit for bit, in code that compiles in a fraction of a second.
//
// Idea      As fp32_split.cu: the order of additions and the layouts are arguments, so one compiled kernel stands in for
//           every configuration of the rung. In 23, k is divided among the blocks of a cluster or among the sharers of a
//           tile (stream_k_tiles.cuh), and within each k-tile among teams; here one thread adds all of it, in that
//           order.
// Owns      A thread owns one output, a warp 32 adjacent ones of a row.
// Needs     Any alignment and layout.

#include "epilogue/epilogue.cuh"
#include "epilogue/ieee_recompute.cuh"
#include "ptx/pdl.cuh"

constexpr int COLS = 32, ROWS = 4, THREADS = COLS * ROWS;
constexpr unsigned MAX_SHARERS = 1024;  // of stream_k_tiles.cuh

// How 23 divides k: its parameters BM, BN, BK, GROUP, TEAMS, CLUSTER_K and SHARERS.
struct Division {
    int bm, bn, bk, group, teams, cluster;
    unsigned sharers;
};

// The sum over k-tiles begin to end. Team t has the steps t, t + teams, ... of each; numbers beyond K are zero.
__device__ __forceinline__ float span(StridedVector a, StridedVector b, int K, int begin, int end, const Division& by) {
    float total = 0.0f;
#pragma unroll 1
    for (int team = 0; team < by.teams; ++team) {
        float sum = 0.0f;
#pragma unroll 1
        for (int k = begin * by.bk + team; k < end * by.bk; k += by.teams) {
            const bool exists = k < K;
            sum = __fmaf_rn(exists ? a.first[k * a.stride] : 0.0f, exists ? b.first[k * b.stride] : 0.0f, sum);
        }
        total = team == 0 ? sum : __fadd_rn(total, sum);
    }
    return total;
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const float* A, long long lda, const float* B, long long ldb, float beta,
     float* C, long long ldc, const float* bias, long long strideA, long long strideB, long long strideC,
     int transposed_a, int transposed_b, int bm, int bn, int bk, int group, int teams, int cluster, int sharers) {
    pdl_launch_and_wait();
    drop_empty_product(K, alpha);
    const Division by = {bm, bn, bk, group, teams, cluster, static_cast<unsigned>(sharers)};
    const unsigned across = (N - 1) / COLS + 1;
    const int row = blockIdx.x / across * ROWS + threadIdx.x / COLS, col = blockIdx.x % across * COLS + threadIdx.x % COLS;
    if (row >= M || col >= N) return;
    const StridedVector a = {A + blockIdx.z * strideA + row * (transposed_a ? 1 : lda), transposed_a ? lda : 1};
    const StridedVector b = {B + blockIdx.z * strideB + col * (transposed_b ? ldb : 1), transposed_b ? 1 : ldb};
    const unsigned k_tiles = K > 0 ? (K - 1) / by.bk + 1 : 0;

    // The tile of 23 that this output is in, in grouped order (grouped_order.cuh), and the tiles before it in a wave.
    const unsigned tiles_m = (M - 1) / by.bm + 1, tiles_n = (N - 1) / by.bn + 1, tiles = tiles_m * tiles_n;
    const unsigned tile_m = row / by.bm, tile_n = col / by.bn, top = tile_m / by.group * by.group;
    const unsigned number = top * tiles_n + tile_n * min(tiles_m - top, static_cast<unsigned>(by.group)) + tile_m - top;
    const bool shares = by.sharers > 0 && k_tiles > 0 && gridDim.z <= MAX_SHARERS / by.sharers;
    const unsigned shared_tiles = shares ? tiles % by.sharers : 0, whole = tiles - shared_tiles;

    // Spans of k: of a cluster's blocks, or of the sharers that have a part of this tile; else all of it.
    unsigned first = 0, last = by.cluster;
    unsigned long long length = k_tiles, count = by.cluster, start = 0;
    if (number >= whole) {
        length = 1ull * shared_tiles * k_tiles, start = 1ull * (number - whole) * k_tiles;
        count = length < by.sharers ? length : by.sharers;
        first = static_cast<unsigned>(((start + 1) * count - 1) / length);
        last = static_cast<unsigned>(((start + k_tiles) * count - 1) / length) + 1;
    }
    float total = 0.0f;
#pragma unroll 1
    for (unsigned i = first; i < last; ++i) {
        const unsigned long long begin = max(length * i / count, start);
        const unsigned long long end = min(length * (i + 1) / count, start + k_tiles);
        const float sum = span(a, b, K, static_cast<int>(begin - start), static_cast<int>(end - start), by);
        total = i == first ? sum : __fadd_rn(total, sum);
    }
    const Window<float> c = window(C + blockIdx.z * strideC, ldc, M, N, row, col);
    store_with_epilogue<1, 1>(c, 0, 0, &total, epilogue_at(row, col, alpha, beta, bias), false);
}
