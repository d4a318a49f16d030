// 25 fp32_wgmma_bf16x6: fp32 products with fp32 accuracy, at the speed of Hopper's tensor cores.
//
// Idea      As 22, but split once: the prologue has written every operand as three matrices of bf16 terms
//           (split_bf16.cu). From there on it is 19 (split_mainloop.cuh): TMA loads k-tiles, and wgmma multiplies them
//           from shared memory. A k-tile takes three stages of the ring, one for each term of A and B, and serves six
//           products: less is loaded per product than in 19.
// Changed   From 19: the tensor core's accumulators start from zero for each k-tile, small products first. They are
//           then added, rounded to nearest, to accumulators outside. BLOCKED_SUMS: k-tiles are added in blocks, and
//           blocks to another sum (blocked_sums.cuh), so that a deep K costs little accuracy. While one warpgroup adds,
//           another one multiplies.
// Owns      As 19: clusters of CLUSTER_M x CLUSTER_N blocks, tiles in strips of GROUP. In time, for one k-tile (A's
//           term times B's):
//
//   stages        [ 0 ] [ 1 ] [ 2 ]                           of the next k-tile [ 0 ] [ 1 ] ...
//   multiply      [1x1 0x1 1x0][0x2 2x0][0x0]
//   add                                      [acc += product]
//
// Budget    STAGES * (BM + BN) * 128 bytes. A thread holds BM * BN / (CONSUMERS * 128) outputs: for each the tensor
//           core's accumulator, the sum and, with BLOCKED_SUMS, the sum of blocks. With three registers per output,
//           tiles are smaller than in 19. A workspace of 6 bytes per number of A and B.
// Needs     sm_90a. Any fp32 numbers: accumulators that are not finite are recomputed from the operands, as in 22.
// Try next  Half the products, where the data allow it (26 fp32_wgmma_fp16x3).

#include "epilogue/ieee_recompute.cuh"
#include "tile/split_bf16.cuh"
#include "tile/split_mainloop.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     const float* __restrict__ A, long long lda, const float* __restrict__ B, long long ldb, float beta, float* C,
     long long ldc, const float* __restrict__ bias, long long strideA, long long strideB, long long strideC, int batch,
     const int* workspace) {
    const auto recompute = [&](ThreadAccumulators& acc, const AccumulatorCoords& at) {
        scale_or_recompute(acc, ACC_UNSCALE, [&](int i) {
            if (!at.inside(i)) return 0.0f;
            const int row = at.row + at.row_of(i), col = at.col + at.col_of(i);
            const StridedVector a = {A + at.z * strideA + row * (TRANS_A ? 1 : lda), TRANS_A ? lda : 1};
            const StridedVector b = {B + at.z * strideB + col * (TRANS_B ? ldb : 1), TRANS_B ? 1 : ldb};
            return fma_dot(a, b, K);
        });
    };
    split_gemm<3>(M, N, K, alpha, map_a, map_b, beta, C, ldc, bias, strideA, strideB, strideC, batch, workspace,
                  recompute);
}
