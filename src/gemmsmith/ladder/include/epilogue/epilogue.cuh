// The last steps of a product, fused: scale, add C, add a bias, apply an activation, convert, store.
//
//     value = alpha * sum          one rounding          (an int32 sum is converted to fp32 first)
//     value = beta * C + value     one rounding, only where beta is not 0: else C is never read
//     value = value + bias         one rounding          BIAS 1: one for each row of C; 2: one for each column
//     value = activation(value)                          ACTIVATION 1: ReLU, 2: GELU, 3: SiLU
//     C     = value                to nearest-even; fp16 overflows to infinity, int8 saturates (NaN becomes 0)
//
// int32 outputs stay integers, modulo 2^32: alpha is 1 and beta 0 or 1 there, and ReLU the only activation. All
// roundings are spelled out, so that the GPU and the simulator agree to the last bit.
#pragma once

#include "epilogue/activation.cuh"
#include "epilogue/linear_combination.cuh"
#include "tile/half.cuh"

template <class Out>
struct Finish {
    float alpha, beta;
    const Out* bias;  // of the window's first row (BIAS 1) or column (BIAS 2)
};

// The last steps for a tile of C.
template <class Out>
__device__ __forceinline__ Finish<Out> finish_at(int row, int col, float alpha, float beta, const Out* bias) {
    return {alpha, beta, BIAS == 1 ? bias + row : BIAS == 2 ? bias + col : bias};
}

__device__ __forceinline__ float to_float(int x) { return __int2float_rn(x); }
__device__ __forceinline__ float to_float(signed char x) { return __int2float_rn(x); }

__device__ __forceinline__ void convert(float value, float& out) { out = value; }
__device__ __forceinline__ void convert(float value, __half& out) { out = __float2half_rn(value); }
__device__ __forceinline__ void convert(float value, __nv_bfloat16& out) { out = __float2bfloat16_rn(value); }
__device__ __forceinline__ void convert(float value, signed char& out) {
    out = static_cast<signed char>(max(-128, min(127, __float2int_rn(value))));
}

// The output for one sum; old is C's element, of no meaning where beta is 0.
template <class Out, class Sum>
__device__ __forceinline__ Out finished(Sum sum, Out old, Out bias, float alpha, float beta) {
    float value = __fmul_rn(alpha, to_float(sum));
    if (beta != 0.0f) value = __fmaf_rn(beta, to_float(old), value);
    if constexpr (BIAS != 0) value = __fadd_rn(value, to_float(bias));
    Out out;
    convert(activated<ACTIVATION>(value), out);
    return out;
}

template <>
__device__ __forceinline__ int finished(int sum, int old, int bias, float, float beta) {
    unsigned value = sum;  // unsigned: wraps around where int may not
    if (beta != 0.0f) value += old;
    if constexpr (BIAS != 0) value += bias;
    return ACTIVATION == RELU ? max(static_cast<int>(value), 0) : static_cast<int>(value);
}

// The outputs for Width neighbouring sums of one row. `whole` says that all of the tile lies inside the matrix,
// aligned; else they are of no meaning beyond the matrix, where nothing is read.
template <int Width, class Out, class Sum>
__device__ __forceinline__ Vec<Out, Width> finished_vector(const Window<Out>& c, int row, int col, const Sum* sums,
                                                           const Finish<Out>& finish, bool whole) {
    const bool inside = whole || row < c.rows;
    const int valid = whole ? Width : inside ? c.cols - col : 0;
    Vec<Out, Width> values = {}, bias = {};  // a plain load below: __ldg is hoisted out of loops, past its guard
    if (finish.beta != 0.0f) {
        const Out* const old = c.at(row, col);
        if (whole) values = *reinterpret_cast<const Vec<Out, Width>*>(old);
#pragma unroll
        for (int j = 0; j < Width; ++j)
            if (!whole && j < valid) values.at[j] = old[j];
    }
#pragma unroll
    for (int j = 0; j < Width; ++j) {
        if (BIAS == 1 && inside) bias.at[j] = finish.bias[row];
        if (BIAS == 2 && j < valid) bias.at[j] = finish.bias[col + j];
    }
#pragma unroll
    for (int j = 0; j < Width; ++j)
        values.at[j] = finished(sums[j], values.at[j], bias.at[j], finish.alpha, finish.beta);
    return values;
}

// Stores Count neighbouring outputs of one row, Width at a time where the tile is whole; else one by one, without those
// beyond the matrix.
template <int Width, int Count, class Out, class Sum>
__device__ __forceinline__ void store_finished(const Window<Out>& c, int row, int col, const Sum* sums,
                                               const Finish<Out>& finish, bool whole) {
    static_assert(Count % Width == 0, "a row of outputs is a whole number of vectors");
#pragma unroll
    for (int i = 0; i < Count; i += Width) {
        Out* const target = c.at(row, col + i);
        const int valid = row < c.rows ? c.cols - col - i : 0;
        const Vec<Out, Width> values = finished_vector<Width>(c, row, col + i, sums + i, finish, whole);
        if (whole) *reinterpret_cast<Vec<Out, Width>*>(target) = values;
#pragma unroll
        for (int j = 0; j < Width; ++j)
            if (!whole && j < valid) target[j] = values.at[j];
    }
}

// Hands out the rows of a thread's sums one after another, with their numbers. Where an activation makes the code of
// a row long, the loop is rolled, since a hundred copies of GELU take a minute to compile. Registers cannot be indexed,
// so the rows move up by one each time.
template <class Sum, int Rows, int Cols, class Store>
__device__ __forceinline__ void for_each_row(Sum (&sums)[Rows][Cols], const Store& store) {
    constexpr int AT_ONCE = ACTIVATION > RELU ? 1 : Rows;
#pragma unroll AT_ONCE
    for (int i = 0; i < Rows; ++i) {
        store(i, sums[0]);
#pragma unroll
        for (int r = 1; r < Rows; ++r)
#pragma unroll
            for (int j = 0; j < Cols; ++j) sums[r - 1][j] = sums[r][j];
    }
}

template <bool Value>
struct ReadsC {
    static constexpr bool value = Value;
};

// Calls `store` with the finish and whether it reads C's old values. In the usual case of beta = 0 it does not, and the
// compiler knows: the code for it has no trace of them.
template <class Out, class Store>
__device__ __forceinline__ void with_or_without_c(const Finish<Out>& finish, const Store& store) {
    if (finish.beta == 0.0f)
        store(Finish<Out>{finish.alpha, 0.0f, finish.bias}, ReadsC<false>());
    else
        store(finish, ReadsC<true>());
}
