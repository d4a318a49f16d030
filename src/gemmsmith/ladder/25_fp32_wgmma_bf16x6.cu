// 25 fp32_wgmma_bf16x6: fp32 products, as accurate as fp32, at the speed of Hopper's tensor cores.
//
// Idea      As 22, but split once: a launch before this one has written every operand as three matrices of bf16
//           (split_bf16.cu), and from there on it is 19 (split_mainloop.cuh): the copy engine brings slices, wgmma
//           multiplies them from shared memory. A slice of k is three stages of the ring, one for each part of A and B,
//           and the six products that count are taken from them: less is loaded for a product than in 19.
// Changed   From 19: the tensor core's sums start from zero for each slice, small products first, and are then added to
//           sums that stay outside, rounded to nearest. COMPENSATED: what rounding takes from these is summed up on its
//           own, and given back at the end, so that a deep K costs no accuracy: what is left is what the tensor core
//           cuts off within a slice. While one group adds, the other one multiplies.
// Owns      As 19: clusters of CLUSTER_M x CLUSTER_N blocks, tiles in strips of GROUP. In time, for one slice (A's part
//           times B's):
//
//   stages        [ 0 ] [ 1 ] [ 2 ]                           of the next slice [ 0 ] [ 1 ] ...
//   multiply      [1x1 0x1 1x0][0x2 2x0][0x0]
//   add                                      [sums, lost += product]
//
// Budget    STAGES * (BM + BN) * 128 bytes; of BM * BN / (CONSUMERS * 128) sums a thread has the tensor core's, its own
//           and what they lost, if that is COMPENSATED: three registers each, so that tiles are smaller than 19's.
//           A workspace of 6 bytes a number of A and B.
// Needs     sm_90a. Any fp32 numbers: sums that are not finite are computed again from the operands, as in 22.
// Try next  26 takes half the products where the data allow it.

#include "tile/split_bf16.cuh"
#include "epilogue/ieee_recompute.cuh"
#include "tile/split_mainloop.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     const float* __restrict__ A, long long lda, const float* __restrict__ B, long long ldb, float beta, float* C,
     long long ldc, const float* __restrict__ bias, long long strideA, long long strideB, long long strideC, int batch,
     const int* workspace) {
    const auto finish = [&](SumsOfThread& sums, const SumPlaces& at) {
        scale_or_sum_again(sums, SUM_UNSCALE, [&](int i) {
            if (!at.inside(i)) return 0.0f;
            const int row = at.row + at.row_of(i), col = at.col + at.col_of(i);
            const Line a = {A + at.z * strideA + row * (TRANS_A ? 1 : lda), TRANS_A ? lda : 1};
            const Line b = {B + at.z * strideB + col * (TRANS_B ? ldb : 1), TRANS_B ? 1 : ldb};
            return fma_sum(a, b, K);
        });
    };
    multiply_in_parts<3>(M, N, K, alpha, map_a, map_b, beta, C, ldc, bias, strideA, strideB, strideC, batch, workspace,
                         finish);
}
