// 26 fp32_wgmma_fp16x3: fp32 products by three on Hopper's tensor cores, where the data allow it.
//
// Idea      24 by wgmma: two fp16 numbers for one of fp32, scaled line by line, three products. A launch before this
//           one has split the operands and looked whether that is enough (split_fp16.cu); where it is not, this kernel
//           returns at once and 25 computes the product. The host does not know which it was.
// Changed   From 25: two stages of the ring for a slice, half the products; sums are multiplied by the powers of two
//           of their row and column at the end. No infinity comes here.
// Owns      As 25: clusters of CLUSTER_M x CLUSTER_N blocks, tiles in strips of GROUP. In time, for one slice (A's part
//           times B's):
//
//   stages        [ 0 ] [ 1 ]               of the next slice [ 0 ] [ 1 ] ...
//   multiply      [0x1 1x0 0x0]
//   add                        [sums += product]
//
// Budget    STAGES * (BM + BN) * 128 bytes; registers as 25, without what sums lost unless COMPENSATED: so BN may be
//           wider for CONSUMERS groups. A workspace of 6 bytes a number, as much as 25 needs if it is its turn.
// Needs     sm_90a. Parts, exponents and verdict as split_fp16.cu leaves them.
// Try next  Splitting takes a sixth of the time at 4096: split while loading, with exponents from a pass before.

#include "tile/split_fp16.cuh"
#include "tile/split_mainloop.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
gemm(int M, int N, int K, float alpha, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
     const float* __restrict__ A, long long lda, const float* __restrict__ B, long long ldb, float beta, float* C,
     long long ldc, const float* __restrict__ bias, long long strideA, long long strideB, long long strideC, int batch,
     const int* workspace) {
    const auto finish = [&](SumsOfThread& sums, const SumPlaces& at) {
        if (workspace == nullptr) return;  // there was no product
        const Exponents exponents = exponents_at(workspace, M, N, at.z, batch, strideA, strideB);
#pragma unroll
        for (int i = 0; i < TILES * BN / 2; ++i)
            if (at.inside(i))
                sums[i] =
                    scaled_back(sums[i], -exponents.a[at.row + at.row_of(i)] - exponents.b[at.col + at.col_of(i)]);
    };
    multiply_in_parts<2>(M, N, K, alpha, map_a, map_b, beta, C, ldc, bias, strideA, strideB, strideC, batch, workspace,
                         finish);
}
