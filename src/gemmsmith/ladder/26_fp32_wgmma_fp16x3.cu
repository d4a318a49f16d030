// 26 fp32_wgmma_fp16x3: fp32 products from three fp16 products on Hopper's tensor cores, where the data allow it.
//
// Idea      24 with wgmma: two fp16 terms per fp32 number, scaled line by line, three products. The prologue has split
//           the operands and checked whether two terms suffice (split_fp16.cu). If not, this kernel returns at once and
//           25 computes the product. The host does not know which of them did.
// Changed   From 25: two stages of the ring per k-tile and half the products. At the end, accumulators are multiplied
//           by the powers of two of their row and column. Infinities and NaN never get here.
// Owns      As 25: clusters of CLUSTER_M x CLUSTER_N blocks, tiles in strips of GROUP. In time, for one k-tile (A's
//           term times B's):
//
//   stages        [ 0 ] [ 1 ]               of the next k-tile [ 0 ] [ 1 ] ...
//   multiply      [0x1 1x0 0x0]
//   add                        [acc += product]
//
// Budget    STAGES * (BM + BN) * 128 bytes. Registers as 25, without sums of blocks unless BLOCKED_SUMS, so BN may
//           be larger for the same CONSUMERS. A workspace of 6 bytes per number, as much as 25 needs if it has to
//           compute.
// Needs     sm_90a. Terms, exponents and verdict as split_fp16.cu writes them.
// Try next  The split takes a sixth of the time at 4096: split while loading, with exponents from an earlier pass.

#include "tile/split_fp16.cuh"
#include "tile/split_mainloop.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     const float* __restrict__ A, long long lda, const float* __restrict__ B, long long ldb, float beta, float* C,
     long long ldc, const float* __restrict__ bias, long long strideA, long long strideB, long long strideC, int batch,
     const int* workspace) {
    const auto unscale_all = [&](ThreadAccumulators& acc, const AccumulatorCoords& at) {
        if (workspace == nullptr) return;  // K or alpha is 0: nothing was split
        const Exponents exponents = exponents_at(workspace, M, N, at.z, batch, strideA, strideB);
#pragma unroll
        for (int i = 0; i < M_TILES * BN / 2; ++i)
            if (at.inside(i))
                acc[i] = unscale(acc[i], -exponents.a[at.row + at.row_of(i)] - exponents.b[at.col + at.col_of(i)]);
    };
    split_gemm<2>(M, N, K, alpha, map_a, map_b, beta, C, ldc, bias, strideA, strideB, strideC, batch, workspace,
                  unscale_all);
}
