// fp32_split: computes what 25 and 27 compute, bit for bit, in code that compiles in a quarter of a second.
//
// Idea      The first calls of a shape need not be fast, but they must not wait for the compiler. The bits of a split
//           product depend on how k is divided and in which order terms are multiplied and added, and on nothing else.
//           All of that is an argument here, and so are the layouts: one compiled kernel stands in for every
//           configuration of both rungs.
// Changed   From 25: no TMA, no ring, no clusters, no prologue. Threads read k-tiles of both operands, split them and
//           write the terms to shared memory. The parts of k that a cluster of 27 divides are summed one after another,
//           in the cluster's order.
// Owns      A block of one warpgroup owns 64 x 32 outputs (of C, or of its transpose).
// Budget    36,864 bytes of shared memory. A thread holds 16 outputs: for each the tensor core's accumulator, the sum,
//           its rounding error or the sum of blocks, and the sum of the parts.
// Needs     sm_90a. Any fp32 numbers, alignment and layout.

#include "epilogue/epilogue.cuh"
#include "epilogue/ieee_recompute.cuh"
#include "ptx/pdl.cuh"
#include "ptx/predicated_load.cuh"
#include "tile/blocked_sums.cuh"
#include "tile/operand_tile.cuh"
#include "tile/split_bf16.cuh"
#include "tile/split_terms.cuh"

constexpr int BM = 64, BN = 32, THREADS = 128, TERMS = 3, STEPS = BK / 16, COUNT = BN / 2;
constexpr int LINES = BM + BN, TERM_BYTES = LINES * BOX_ROW;  // of a k-tile: rows of A, then columns of B

// Bits of the argument `order` (stand_in/__init__.py); the parts of k are in those from PARTS on.
enum Order {
    SWAPPED = 1, PERMUTED = 2, COMPENSATED_SUMS = 4, TWO_STEPS = 8, TRANSPOSED_A = 16, TRANSPOSED_B = 32, BLOCKED_SUMS = 64
};
constexpr int PARTS = 8;

// An operand as rows of A (or columns of B) by k.
struct Lines {
    const float* first;
    long long step, k_step;
    int count;

    __device__ __forceinline__ StridedVector vector(int line) const { return {first + line * step, k_step}; }
};

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(int M, int N, int K, float alpha, const float* A, long long lda, const float* B, long long ldb, float beta,
     float* C, long long ldc, const float* bias, long long strideA, long long strideB, long long strideC, int order) {
    __shared__ __align__(1024) unsigned char shared[TERMS * TERM_BYTES];
    const unsigned tiles = shared_address(shared);
    pdl_launch_and_wait();
    const bool swapped = order & SWAPPED, permuted = order & PERMUTED;
    const int parts = order >> PARTS, steps = order & TWO_STEPS ? STEPS / 2 : STEPS;
    const unsigned tiles_m = ((swapped ? N : M) - 1) / BM + 1, tiles_n = ((swapped ? M : N) - 1) / BN + 1;
    const unsigned z = blockIdx.x / (tiles_m * tiles_n), i = blockIdx.x - z * (tiles_m * tiles_n);
    const int row = i / tiles_n * BM, col = i % tiles_n * BN;
    const Lines a = {A + z * strideA, order & TRANSPOSED_A ? 1 : lda, order & TRANSPOSED_A ? lda : 1, M};
    const Lines b = {B + z * strideB, order & TRANSPOSED_B ? ldb : 1, order & TRANSPOSED_B ? 1 : ldb, N};
    const Lines tall = swapped ? b : a, shorter = swapped ? a : b;

    float total[COUNT];
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
        float acc[COUNT] = {}, error[COUNT] = {}, product[COUNT];  // BLOCKED_SUMS: error is the sum of blocks
        const KTileRange range = k_tile_range(K, alpha, 1, part, parts);
        const int block = terms_of_block(range.end - range.begin);
#pragma unroll 1
        for (int k = range.begin; k < range.end; ++k) {
            __syncthreads();  // the terms of the k-tile before have been multiplied
#pragma unroll 1
            for (int at = threadIdx.x; at < LINES * BK / 2; at += THREADS) {  // pairs of numbers
                const int line = at / (BK / 2), pair = at % (BK / 2) * 2, of_16 = pair % 16;
                // As 27 reads a K-major tall operand: numbers 2q, 2q + 1 of 16 for wgmma are 4q, 4q + 1 as stored,
                // and 2q + 8, 2q + 9 are 4q + 2, 4q + 3.
                const int from = k * BK + pair - of_16 + (permuted ? of_16 % 8 * 2 + of_16 / 8 * 2 : of_16);
                const Lines operand = line < BM ? tall : shorter;
                const int index = line < BM ? row + line : col + line - BM;
                const float* const number = operand.first + index * operand.step + from * operand.k_step;
                const bool exists = index < operand.count && k * BK < K;
                unsigned terms[TERMS];
                split_pair(terms, load_32_or_zero(number, exists && from < K),
                           load_32_or_zero(number + operand.k_step, exists && from + 1 < K));
#pragma unroll
                for (int p = 0; p < TERMS; ++p)
                    *reinterpret_cast<unsigned*>(shared + p * TERM_BYTES + line * BOX_ROW +
                                                 ((pair / 8 ^ line % 8) * 16 + pair % 8 * 2)) = terms[p];
            }
            fence_proxy_async();
            __syncthreads();
#pragma unroll 1
            for (int first = 0; first < STEPS; first += steps) {
                wgmma_fence();
#pragma unroll
                for (int p = 0; p < Split<TERMS>::PRODUCTS; ++p) {
                    const TermProduct terms = Split<TERMS>::product(p);
                    const auto of_a = matrix_descriptor<true>(tiles + terms.a * TERM_BYTES);
                    const auto of_b = matrix_descriptor<true>(tiles + terms.b * TERM_BYTES + BM * BOX_ROW);
#pragma unroll 1
                    for (int step = first; step < first + steps; ++step)
                        Wgmma<__nv_bfloat16, BN, true, true>::multiply(product, of_a + step * K_STEP<true>,
                                                                       of_b + step * K_STEP<true>,
                                                                       p > 0 || step > first);
                }
                wgmma_commit();
                wgmma_wait<0>();
#pragma unroll
                for (int j = 0; j < COUNT; ++j) {
                    const float sum = __fadd_rn(acc[j], product[j]);
                    if (order & COMPENSATED_SUMS)
                        error[j] = __fadd_rn(error[j], __fsub_rn(product[j], __fsub_rn(sum, acc[j])));
                    acc[j] = sum;
                }
            }
            if (order & BLOCKED_SUMS && (k - range.begin) % block == block - 1)
#pragma unroll
                for (int j = 0; j < COUNT; ++j) {
                    error[j] = __fadd_rn(error[j], acc[j]);
                    acc[j] = 0.0f;
                }
        }
#pragma unroll
        for (int j = 0; j < COUNT; ++j) {
            const float sum = order & (COMPENSATED_SUMS | BLOCKED_SUMS) ? __fadd_rn(acc[j], error[j]) : acc[j];
            total[j] = part == 0 ? sum : __fadd_rn(total[j], sum);
        }
    }

    const int top = swapped ? col : row, left = swapped ? row : col;
    const Window<float> c = window(C + z * strideC, ldc, M, N, top, left);
    const Epilogue<float> epilogue = epilogue_at(top, left, alpha, beta, bias);
    const int lane = threadIdx.x % 32, thread_row = threadIdx.x / 32 * 16 + lane / 4;
    // Registers cannot be indexed, so they rotate (ieee_recompute.cuh): one copy of the code serves all outputs.
#pragma unroll 1
    for (int j = 0; j < COUNT; ++j) {
        float value = __fmul_rn(total[0], ACC_UNSCALE);
#pragma unroll
        for (int other = 1; other < COUNT; ++other) total[other - 1] = total[other];
        const int r = thread_row + j / 2 % 2 * 8, q = lane % 4 * 2 + j / 4 * 8 + j % 2;
        if (!c.inside(swapped ? q : r, swapped ? r : q)) continue;
        if (!(fabsf(value) < __int_as_float(0x7F800000)))
            value = fma_dot(tall.vector(row + r), shorter.vector(col + q), K);
        store_with_epilogue<1, 1>(c, swapped ? q : r, swapped ? r : q, &value, epilogue, false);
    }
}
