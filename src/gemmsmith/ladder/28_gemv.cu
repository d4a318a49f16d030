// 28 gemv: a matrix times one to eight vectors, as fast as memory delivers the matrix.
//
// Idea      If C has up to eight columns or rows, one operand, the long one, is nearly all there is to read. 23 sends
//           it through shared memory, element by element where rows are unaligned, and multiplies tiles that are mostly
//           padding. Here each number goes straight from global memory to the registers of the one thread that needs
//           it. What counts is how many bytes are in flight: a thread has LOADS times 16 loaded before it needs the
//           first. Only the other operand, the short one, is shared: while a k-tile of it is multiplied, cp.async
//           copies the next.
// Changed   From 23: no fragments; lanes divide K where rows of the long operand run along k (K-major). The vectors are
//           the columns of C or, with BM < BN, its rows: then B is the long operand.
// Owns      A block owns BM x BN outputs, of V = min(BM, BN) vectors; CLUSTER_K blocks of a cluster divide K. What a
//           warp loads at once (unaligned: 4 bytes per lane, 128 in a row):
//
//           K-major: ROWS rows x 128 of k            else: all LONG = max(BM, BN) rows x 1 to 16 of k
//               +---------------------------+            +----------------------------+
//           row | lane 0 | lane 1 | .. | 31 |          k | lane 0 | .. | lane 7       | 4 rows per lane
//           row | lane 0 | lane 1 | .. | 31 |          k | lane 8 | .. | lane 15      | (LONG = 32)
//               +---------------------------+            +----------------------------+
//
//           At the end lanes add up by shuffles (lane_sums.cuh), warps through shared memory and blocks through the
//           cluster's, in the same order every time. No number passes through more additions than in a serial sum.
// Budget    Two k-tiles of BK x V floats of shared memory; after the last, partial sums. A thread has up to ROWS * V
//           accumulators and 4 * LOADS loaded numbers: 512 threads with LOADS = 8 have 64 KB in flight on an SM.
// Needs     sm_80; sm_90 for CLUSTER_K > 1. ALIGNED = 1: rows of the long operand start on 16 bytes. 0: any alignment.
//           Any M, N and K; but where C has more rows and columns than V, the long operand is read several times.
// Try next  Copies of 8 bytes for rows that start on 8. TMA for the long operand: more in flight without registers.

#include "epilogue/epilogue.cuh"
#include "ptx/cluster.cuh"
#include "ptx/pdl.cuh"
#include "schedule/tile_order.cuh"
#include "tile/k_tile_copy.cuh"
#include "tile/lane_sums.cuh"
#include "tile/vector_tile.cuh"

constexpr bool SWAP = BM < BN;
constexpr int LONG = SWAP ? BN : BM, V = SWAP ? BM : BN;
constexpr int WARPS = LONG / ROWS * WARPS_K, THREADS = 32 * WARPS;
constexpr bool K_MAJOR = SWAP ? TRANS_B : !TRANS_A, SHORT_K_MAJOR = SWAP ? !TRANS_A : TRANS_B;
// Lanes along the rows of a warp. The others have other k, as have all warps unless the long operand is K-major.
constexpr int ALONG = ALIGNED ? LONG / 4 : LONG, LANES = K_MAJOR ? 1 : ALONG < 32 ? ALONG : 32;
constexpr int PARTS = K_MAJOR ? WARPS_K : WARPS * 32 / LANES;  // of K, which are added up in shared memory
constexpr int DEPTH = K_MAJOR ? 128 * PARTS : PARTS;           // of the chunks of all threads
// Of a thread's chunk: four k of each row, or one k of several rows; and how far apart these are.
constexpr int CHUNK_ROWS = K_MAJOR ? ROWS : LONG / LANES, NUMBERS = CHUNK_ROWS * (K_MAJOR ? 4 : 1);
constexpr int APART = ALIGNED ? 1 : K_MAJOR ? 32 : LANES;
constexpr int UNROLL = 4 * LOADS / NUMBERS, STEP = DEPTH * UNROLL;  // the same in every layout and alignment
constexpr int SUMS_PITCH = (LONG + 31) / 32 * 32 + 32 / V, SUMS = V * SUMS_PITCH;  // vectors in different banks
using ShortTile = VectorTile<V, BK, K_MAJOR, !ALIGNED>;
static_assert(STEP == 128 * WARPS_K * LOADS / ROWS && BK % STEP == 0, "a k-tile is a whole number of steps");
#if CLUSTER_K > 1
#define CLUSTER_DIMS __cluster_dims__(CLUSTER_K, 1, 1)
#else
#define CLUSTER_DIMS  // GPUs before sm_90 have no clusters
#endif

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(THREADS, MIN_BLOCKS)
gemm(int M, int N, int K, float alpha, const float* __restrict__ A, long long lda,
     const float* __restrict__ B, long long ldb, float beta, float* C, long long ldc,
     const float* __restrict__ bias, long long strideA, long long strideB, long long strideC) {
    extern __shared__ __align__(16) float shared[];
    drop_empty_product(K, alpha);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned number = blockIdx.x / CLUSTER_K, rank = blockIdx.x % CLUSTER_K, across = (N - 1) / BN + 1;
    const Tile tile = {static_cast<int>(number / across * BM), static_cast<int>(number % across * BN)};
    const int first_row = SWAP ? tile.col : tile.row, rows = (SWAP ? N : M) - first_row;
    const int first_vector = SWAP ? tile.row : tile.col, vectors = (SWAP ? M : N) - first_vector;
    const long long ld = SWAP ? ldb : lda, short_ld = SWAP ? lda : ldb;
    // The block's part of K. Unsigned: what is beyond K may be beyond 2^31.
    const int steps = K > 0 ? (K - 1) / STEP + 1 : 0;
    const int first = 1ll * steps * rank / CLUSTER_K, count = steps * (rank + 1ll) / CLUSTER_K - first;
    const unsigned begin = static_cast<unsigned>(first) * STEP, length = static_cast<unsigned>(count) * STEP;
    const unsigned end = min(begin + length, static_cast<unsigned>(K));

    const int row = K_MAJOR ? warp / WARPS_K * ROWS : lane % LANES * (ALIGNED ? 4 : 1);
    const int part = K_MAJOR ? warp % WARPS_K : warp * (32 / LANES) + lane / LANES;
    unsigned k = begin + (K_MAJOR ? part * 128 + lane * (ALIGNED ? 4 : 1) : part);  // of the next chunk
    const float* const matrix = (SWAP ? B : A) + blockIdx.z * (SWAP ? strideB : strideA);
    const float* from[K_MAJOR ? ROWS : 1];
    if constexpr (K_MAJOR) {  // a row outside is read as the last one: nobody stores its sums
#pragma unroll
        for (int i = 0; i < ROWS; ++i) from[i] = matrix + (first_row + 1ll * min(row + i, rows - 1)) * ld + k;
    } else {
        from[0] = matrix + k * ld + first_row + row;
    }
    const float* const vector = (SWAP ? A : B) + blockIdx.z * (SWAP ? strideA : strideB) +
                                first_vector * (SHORT_K_MAJOR ? short_ld : 1ll);
    pdl_wait();

    float x[UNROLL][NUMBERS], acc[CHUNK_ROWS * V] = {};
    const auto load = [&](auto guarded, float (&chunk)[NUMBERS]) {
#pragma unroll
        for (int n = 0; n < NUMBERS; ++n) {
            const int at = (K_MAJOR ? n % 4 : n) * APART;
            const float* const source = from[K_MAJOR ? n / 4 : 0] + at;
            if constexpr (decltype(guarded)::value)
                chunk[n] = (K_MAJOR ? k + at < end : k < end && row + at < rows) ? *source : 0.0f;
            else if (!ALIGNED)
                chunk[n] = *source;
            else if (n % 4 == 0)
                load_fragment<4>(reinterpret_cast<float (&)[4]>(chunk[n]), source);
        }
#pragma unroll
        for (auto& each : from) each += K_MAJOR ? DEPTH : DEPTH * ld;
        k += DEPTH;
    };
    const auto multiply = [&](const float (&chunk)[NUMBERS], const float* fragment) {
        constexpr int WIDTH = K_MAJOR ? 4 : V;
#pragma unroll
        for (int v = 0; v < V; v += K_MAJOR ? 1 : V) {
            float own[WIDTH];  // four k of a vector, or one of all
            load_fragment<(WIDTH < 4 ? WIDTH : 4)>(own, fragment + v * ShortTile::PITCH);
#pragma unroll
            for (int i = 0; i < CHUNK_ROWS; ++i)
#pragma unroll
                for (int j = 0; j < WIDTH; ++j) {
                    float& sum = acc[i * V + (K_MAJOR ? v : j)];
                    sum = __fmaf_rn(chunk[K_MAJOR ? i * 4 + j : i], own[j], sum);
                }
        }
    };
    const auto copy_short = [&](unsigned from_k) {  // counted from the block's first
        ShortTile::copy<THREADS, SHORT_K_MAJOR>(shared + from_k / BK % 2 * ShortTile::FLOATS, vector, short_ld, vectors,
                                                begin + from_k, end, length - from_k);
    };
    unsigned done = 0;  // of the block's k
    const auto run = [&](auto guarded, int rounds) {
#pragma unroll 1
        for (; rounds > 0; --rounds, done += STEP) {
            if (done % BK == 0) {
                cp_async_wait<0>();
                __syncthreads();  // the k-tile of the short operand has arrived, and all have read the one before
                if (done + BK < length) copy_short(done + BK);
            }
            const float* const fragment = shared + done / BK % 2 * ShortTile::FLOATS +
                                          (K_MAJOR ? done % BK + part * 128 + lane * 4 : (done % BK + part) * V);
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                multiply(x[u], fragment + u * DEPTH * (K_MAJOR ? 1 : V));
                load(guarded, x[u]);  // for the next round
            }
        }
    };
    const int whole = K_MAJOR || rows >= LONG ? (end - begin) / STEP : 0, unguarded = max(0, whole - 1);
    const auto load_first = [&](auto guarded) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) load(guarded, x[u]);
    };
    if (count > 0) copy_short(0);
    if (whole > 0)
        load_first(Guarded<false>());
    else
        load_first(Guarded<true>());
    run(Guarded<false>(), unguarded);
    run(Guarded<true>(), count - unguarded);
    pdl_launch_dependents();

    // Each part leaves the sum of row r and vector v at v * SUMS_PITCH + r.
    __syncthreads();  // the last k-tile has been read
    float* const sums = shared + part * SUMS;
    if constexpr (K_MAJOR) {
        add_lanes(acc);
        for_each_sum(acc, [&](int i, float sum) { sums[i % V * SUMS_PITCH + row + i / V] = sum; });
    } else {
#pragma unroll
        for (int i = 0; i < CHUNK_ROWS * V; ++i) sums[i % V * SUMS_PITCH + row + i / V * APART] = acc[i];
    }
    __syncthreads();
    // Calls `use` with an output's row and vector and where its sum is; adjacent threads have adjacent columns of C.
    const auto for_each_output = [&](int begins, int stride, const auto& use) {
        for (int i = begins; i < LONG * V; i += stride) {
            const int r = SWAP ? i % LONG : i / V, v = SWAP ? i / LONG : i % V;
            use(r, v, shared + v * SUMS_PITCH + r);
        }
    };
    const auto add_parts = [&](const float* at) {
        float sum = *at;
        for (int p = 1; p < PARTS; ++p) sum = __fadd_rn(sum, at[p * SUMS]);
        return sum;
    };
    pdl_wait();  // a block without k has not waited yet
    const auto c = window(C + blockIdx.z * strideC, ldc, M, N, tile.row, tile.col);
    const auto epilogue = epilogue_at(tile.row, tile.col, alpha, beta, bias);
    const auto finish = [&](int r, int v, float sum) {
        store_with_epilogue<1, 1>(c, SWAP ? v : r, SWAP ? r : v, &sum, epilogue, false);
    };
    if constexpr (CLUSTER_K == 1) {
        for_each_output(threadIdx.x, THREADS, [&](int r, int v, const float* at) { finish(r, v, add_parts(at)); });
    } else {
        for_each_output(threadIdx.x, THREADS, [&](int, int, float* at) { *at = add_parts(at); });
        cluster_sync();
        for_each_output(rank * THREADS + threadIdx.x, CLUSTER_K * THREADS, [&](int r, int v, const float* at) {
            float sum = load_cluster_4(shared_address(at), 0);
            for (int p = 1; p < CLUSTER_K; ++p) sum = __fadd_rn(sum, load_cluster_4(shared_address(at), p));
            finish(r, v, sum);
        });
        cluster_sync();  // others may still read this block's sums
    }
}
