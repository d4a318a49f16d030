// wgmma_plain: computes what 19 and 20 compute, bit for bit, in code that compiles in a quarter of a second.
//
// Idea      As fp32_split.cu: how k is divided and the layouts are arguments, so one compiled kernel stands in for every
//           configuration of both rungs. A tensor core adds along k in one accumulator, whatever the tile; the parts of k
//           that a cluster of 20 divides are summed one after another, in the cluster's order.
// Owns      A block of one warpgroup owns 64 x 32 outputs.
// Budget    12,288 bytes of shared memory; a thread holds 16 outputs: an accumulator, and the sum of the parts.
// Needs     sm_90a. Any alignment and layout.

#include "epilogue/epilogue.cuh"
#include "ptx/pdl.cuh"
#include "ptx/predicated_load.cuh"
#include "tile/operand_tile.cuh"

constexpr int BM = 64, BN = 32, THREADS = 128, STEPS = BK / 16, COUNT = BN / 2;
constexpr int LINES = BM + BN;  // of a k-tile: rows of A, then columns of B

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const IN* A, long long lda, const IN* B, long long ldb, float beta, OUT* C,
     long long ldc, const OUT* bias, long long strideA, long long strideB, long long strideC,
     int transposed_a, int transposed_b, int depth, int parts) {
    __shared__ __align__(1024) unsigned char shared[LINES * BOX_ROW];
    const unsigned tile = shared_address(shared);
    pdl_launch_and_wait();
    const unsigned tiles_m = (M - 1) / BM + 1, tiles_n = (N - 1) / BN + 1;
    const unsigned z = blockIdx.x / (tiles_m * tiles_n), i = blockIdx.x - z * (tiles_m * tiles_n);
    const int row = i / tiles_n * BM, col = i % tiles_n * BN;

    float total[COUNT];
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
        float acc[COUNT];
        const KTileRange range = k_tile_range(K, alpha, depth, part, parts);  // stages of `depth` k-tiles
        int accumulate = 0;
#pragma unroll 1
        for (int k = range.begin * depth; k < range.end * depth; ++k) {
            __syncthreads();  // the k-tile before has been multiplied
#pragma unroll 1
            for (int at = threadIdx.x; at < LINES * BK / 2; at += THREADS) {  // pairs of elements
                const int line = at / (BK / 2), pair = at % (BK / 2) * 2, from = k * BK + pair;
                const bool of_a = line < BM;
                const int index = of_a ? row + line : col + line - BM;
                const long long step = of_a ? (transposed_a ? 1 : lda) : (transposed_b ? ldb : 1);
                const long long k_step = of_a ? (transposed_a ? lda : 1) : (transposed_b ? 1 : ldb);
                const IN* const element = (of_a ? A + z * strideA : B + z * strideB) + index * step + from * k_step;
                const bool exists = index < (of_a ? M : N);
                const unsigned low = load_16_or_zero(element, exists && from < K);
                const unsigned high = load_16_or_zero(element + k_step, exists && from + 1 < K);
                *reinterpret_cast<unsigned*>(shared + line * BOX_ROW + ((pair / 8 ^ line % 8) * 16 + pair % 8 * 2)) =
                    low | high << 16;
            }
            fence_proxy_async();
            __syncthreads();
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                Wgmma<IN, BN, true, true>::multiply(acc, matrix_descriptor<true>(tile) + step * K_STEP<true>,
                                                    matrix_descriptor<true>(tile + BM * BOX_ROW) + step * K_STEP<true>,
                                                    accumulate);
                accumulate = 1;
            }
            wgmma_commit();
            wgmma_wait<0>();
        }
#pragma unroll
        for (int j = 0; j < COUNT; ++j) total[j] = part == 0 ? acc[j] : __fadd_rn(total[j], acc[j]);
    }

    const Window<OUT> c = window(C + z * strideC, ldc, M, N, row, col);
    const Epilogue<OUT> epilogue = epilogue_at(row, col, alpha, beta, bias);
    const int lane = threadIdx.x % 32, thread_row = threadIdx.x / 32 * 16 + lane / 4;
    // Registers cannot be indexed, so they rotate: one copy of the code serves all outputs.
#pragma unroll 1
    for (int j = 0; j < COUNT; ++j) {
        const float value = total[0];
#pragma unroll
        for (int other = 1; other < COUNT; ++other) total[other - 1] = total[other];
        const int r = thread_row + j / 2 % 2 * 8, q = lane % 4 * 2 + j / 4 * 8 + j % 2;
        store_with_epilogue<1, 1>(c, r, q, &value, epilogue, false);
    }
}
