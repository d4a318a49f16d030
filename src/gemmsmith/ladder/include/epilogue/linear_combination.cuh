// The epilogue of the fp32 SIMT rungs: C = alpha * acc + beta * C, with each rounding spelled out.
//
// It is written with intrinsics, because ptxas may or may not contract a plain `*` and `+` into an fma with one
// rounding. So the GPU, the simulator and every rung agree to the last bit.
#pragma once

#include "tile/window.cuh"

// BLAS: with alpha = 0 or K = 0 neither A nor B is read, and C becomes beta * C.
__device__ __forceinline__ void drop_empty_product(int& K, float& alpha) {
    if (alpha == 0.0f || K == 0) {
        alpha = 0.0f;  // K = 0 with an infinite alpha must not give NaN
        K = 0;
    }
}

// Stores one output. With beta = 0, C is never read: it may hold NaN or be uninitialised.
__device__ __forceinline__ void store(float* c, float acc, float alpha, float beta) {
    const float value = __fmul_rn(alpha, acc);
    *c = beta == 0.0f ? value : __fmaf_rn(beta, *c, value);
}

// Stores Width adjacent outputs of one row. Guarded skips those outside the matrix.
template <bool Guarded, int Width>
__device__ __forceinline__ void store_row(const Window<float>& c, int row, int col, const float (&acc)[Width],
                                          float alpha, float beta) {
    if (Guarded && row >= c.rows) return;
    float* const target = c.at(row, col);
#pragma unroll
    for (int j = 0; j < Width; ++j)
        if (!Guarded || col + j < c.cols) store(target + j, acc[j], alpha, beta);
}

// The same; unguarded, as vector stores of Width floats.
template <bool Guarded, int Width, int Count>
__device__ __forceinline__ void store_vectors(const Window<float>& c, int row, int col, const float (&acc)[Count],
                                              float alpha, float beta) {
    static_assert(Count % Width == 0, "a row of outputs is a whole number of vectors");
    if constexpr (Guarded) {
        store_row<true>(c, row, col, acc, alpha, beta);
    } else {
        auto* const targets = reinterpret_cast<Vec<float, Width>*>(c.at(row, col));
#pragma unroll
        for (int i = 0; i < Count / Width; ++i) {
            Vec<float, Width> value;
#pragma unroll
            for (int j = 0; j < Width; ++j) value.at[j] = __fmul_rn(alpha, acc[i * Width + j]);
            if (beta != 0.0f) {
                const Vec<float, Width> old = targets[i];
#pragma unroll
                for (int j = 0; j < Width; ++j) value.at[j] = __fmaf_rn(beta, old.at[j], value.at[j]);
            }
            targets[i] = value;
        }
    }
}
