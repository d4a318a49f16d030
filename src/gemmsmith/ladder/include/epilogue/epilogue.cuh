// The fused epilogue: scale, add C, add a bias, apply an activation, convert, store.
//
//     value = alpha * acc          one rounding          (an int32 accumulator is converted to fp32 first)
//     value = beta * C + value     one rounding; only if beta is not 0, else C is never read
//     value = value + bias         one rounding          BIAS 1: one bias per row of C; 2: one per column
//     value = activation(value)                          ACTIVATION 1: ReLU, 2: GELU, 3: SiLU
//     C     = value                to nearest-even; fp16 overflows to infinity, int8 saturates (NaN becomes 0)
//
// int32 outputs stay integers, modulo 2^32: alpha is 1, beta is 0 or 1, and ReLU is the only activation. All roundings
// are spelled out, so that the GPU and the simulator agree to the last bit.
#pragma once

#include "epilogue/activation.cuh"
#include "epilogue/linear_combination.cuh"
#include "tile/half_to_float.cuh"

template <class Out>
struct Epilogue {
    float alpha, beta;
    const Out* bias;  // of the window's first row (BIAS 1) or column (BIAS 2)
};

// The epilogue of the tile at (row, col) of C.
template <class Out>
__device__ __forceinline__ Epilogue<Out> epilogue_at(int row, int col, float alpha, float beta, const Out* bias) {
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

// The output for one accumulator. `old` is C's element; it is ignored if beta is 0.
template <class Out, class Acc>
__device__ __forceinline__ Out apply_epilogue(Acc acc, Out old, Out bias, float alpha, float beta) {
    float value = __fmul_rn(alpha, to_float(acc));
    if (beta != 0.0f) value = __fmaf_rn(beta, to_float(old), value);
    if constexpr (BIAS != 0) value = __fadd_rn(value, to_float(bias));
    Out out;
    convert(activate<ACTIVATION>(value), out);
    return out;
}

template <>
__device__ __forceinline__ int apply_epilogue(int acc, int old, int bias, float, float beta) {
    unsigned value = acc;  // unsigned: overflow wraps around, where that of int is undefined
    if (beta != 0.0f) value += old;
    if constexpr (BIAS != 0) value += bias;
    return ACTIVATION == RELU ? max(static_cast<int>(value), 0) : static_cast<int>(value);
}

// The outputs for Width adjacent accumulators of one row. `whole` says that the entire tile is inside the matrix and
// aligned. Otherwise outputs outside the matrix are undefined, and nothing is read there.
template <int Width, class Out, class Acc>
__device__ __forceinline__ Vec<Out, Width> apply_epilogue_vector(const Window<Out>& c, int row, int col,
                                                                 const Acc* acc, const Epilogue<Out>& epilogue,
                                                                 bool whole) {
    const bool inside = whole || row < c.rows;
    const int valid = whole ? Width : inside ? c.cols - col : 0;
    Vec<Out, Width> values = {}, bias = {};  // plain loads: the compiler hoists __ldg out of loops, past its guard
    if (epilogue.beta != 0.0f) {
        const Out* const old = c.at(row, col);
        if (whole) values = *reinterpret_cast<const Vec<Out, Width>*>(old);
#pragma unroll
        for (int j = 0; j < Width; ++j)
            if (!whole && j < valid) values.at[j] = old[j];
    }
#pragma unroll
    for (int j = 0; j < Width; ++j) {
        if (BIAS == 1 && inside) bias.at[j] = epilogue.bias[row];
        if (BIAS == 2 && j < valid) bias.at[j] = epilogue.bias[col + j];
    }
#pragma unroll
    for (int j = 0; j < Width; ++j)
        values.at[j] = apply_epilogue(acc[j], values.at[j], bias.at[j], epilogue.alpha, epilogue.beta);
    return values;
}

// Stores Count adjacent outputs of one row: Width at a time if the tile is `whole`, else one by one, skipping those
// outside the matrix.
template <int Width, int Count, class Out, class Acc>
__device__ __forceinline__ void store_with_epilogue(const Window<Out>& c, int row, int col, const Acc* acc,
                                                    const Epilogue<Out>& epilogue, bool whole) {
    static_assert(Count % Width == 0, "a row of outputs is a whole number of vectors");
#pragma unroll
    for (int i = 0; i < Count; i += Width) {
        Out* const target = c.at(row, col + i);
        const int valid = row < c.rows ? c.cols - col - i : 0;
        const Vec<Out, Width> values = apply_epilogue_vector<Width>(c, row, col + i, acc + i, epilogue, whole);
        if (whole) *reinterpret_cast<Vec<Out, Width>*>(target) = values;
#pragma unroll
        for (int j = 0; j < Width; ++j)
            if (!whole && j < valid) target[j] = values.at[j];
    }
}

// Calls `store` with each row of a thread's accumulators and its index. With GELU or SiLU the code of a row is long, so
// the loop is rolled: a hundred copies of GELU take a minute to compile. Registers cannot be indexed, so in every
// iteration the rows move up by one.
template <class Acc, int Rows, int Cols, class Store>
__device__ __forceinline__ void for_each_row(Acc (&acc)[Rows][Cols], const Store& store) {
    constexpr int UNROLLED = ACTIVATION > RELU ? 1 : Rows;
#pragma unroll UNROLLED
    for (int i = 0; i < Rows; ++i) {
        store(i, acc[0]);
#pragma unroll
        for (int r = 1; r < Rows; ++r)
#pragma unroll
            for (int j = 0; j < Cols; ++j) acc[r - 1][j] = acc[r][j];
    }
}

template <bool Value>
struct ReadsC {
    static constexpr bool value = Value;
};

// Calls `store` with the epilogue, and with whether it reads C. In the usual case beta = 0 it does not, and the
// compiler knows: that code contains no loads of C.
template <class Out, class Store>
__device__ __forceinline__ void with_or_without_c(const Epilogue<Out>& epilogue, const Store& store) {
    if (epilogue.beta == 0.0f)
        store(Epilogue<Out>{epilogue.alpha, 0.0f, epilogue.bias}, ReadsC<false>());
    else
        store(epilogue, ReadsC<true>());
}
