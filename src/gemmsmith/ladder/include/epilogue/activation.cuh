// Activation functions, bit-identical on every GPU and in the simulator.
//
// They use only operations that IEEE rounds: multiply, add, fma, divide. No ex2.approx, rcp.approx or tanh.approx,
// whose bits differ between chips. NaN stays NaN: every clamp is a comparison that NaN fails.
//
// The polynomials are weighted minimax fits (Lawson's iteration on 4,000 Chebyshev points, in float64), with their
// coefficients rounded to fp32 afterwards. tests/ladder/test_activations.py measures the remaining error.
#pragma once

enum Activation { NO_ACTIVATION, RELU, GELU, SILU };

// c[0] + x (c[1] + x (c[2] + ...)), one fma per term.
template <int Terms>
__device__ __forceinline__ float polynomial(float x, const float (&c)[Terms]) {
    float sum = c[Terms - 1];
#pragma unroll
    for (int i = Terms - 2; i >= 0; --i) sum = __fmaf_rn(sum, x, c[i]);
    return sum;
}

// 2^n for -126 <= n <= 127.
__device__ __forceinline__ float power_of_two(int n) { return __int_as_float((n + 127) << 23); }

// e^x for -128 <= x <= 0, to 1.3 units of 2^-24. With n = rint(x / ln 2) and r = x - n ln 2, |r| <= ln 2 / 2: e^x = 2^n
// e^r, and e^r = 1 + r + r^2 q(r), with q of degree 4 fitted to 3.1e-9. 2^n is applied as two factors, because at the
// lower end it is not a normal number: the result goes through the subnormals to 0.
__device__ __forceinline__ float exp_of_negative(float x) {
    constexpr float ROUND_TO_INTEGER = 12582912.0f;  // 1.5 * 2^23: adding it leaves no fraction bits
    constexpr float Q[] = {1.0f, 1.0f, 0.49999994f, 0.166665211f, 0.041668389f, 0.00836871658f, 0.00138145988f};
    const float n = __fsub_rn(__fmaf_rn(x, 1.44269504f, ROUND_TO_INTEGER), ROUND_TO_INTEGER);
    float r = __fmaf_rn(n, -0.693145752f, x);  // ln 2 as a sum of two floats
    r = __fmaf_rn(n, -1.42860677e-6f, r);
    const int exponent = __float2int_rn(n);
    const int half = exponent >> 1;
    return __fmul_rn(__fmul_rn(polynomial(r, Q), power_of_two(half)), power_of_two(exponent - half));
}

__device__ __forceinline__ float relu(float x) { return x < 0.0f ? 0.0f : x; }

// x / (1 + e^-x). For negative x, numerator and denominator are multiplied by e^x, so that nothing overflows.
__device__ __forceinline__ float silu(float x) {
    const float clamped = x < -128.0f ? -128.0f : x;  // e^-128 is 0 in fp32: minus infinity gives -0, not NaN
    const float magnitude = fabsf(clamped) > 128.0f ? 128.0f : fabsf(clamped);
    const float e = exp_of_negative(-magnitude);
    return __fdiv_rn(clamped < 0.0f ? __fmul_rn(clamped, e) : clamped, __fadd_rn(1.0f, e));
}

// x Phi(x), where Phi(x) = (1 + erf(x / sqrt 2)) / 2 is the normal distribution. Phi is accurate to 9e-8, erf to 2e-7.
//   |x| < 1   Phi = 1/2 + x s(x^2), with s of degree 4 fitted to 7.4e-9
//   |x| >= 1  the tail beyond |x| is e^(-x^2/2) u t(u), with u = 1 / (1 + 0.4 |x|) and t of degree 6, fitted to a
//             relative error of 9.6e-8
__device__ __forceinline__ float gelu(float x) {
    constexpr float S[] = {0.398942202f, -0.0664887205f, 0.00996414013f, -0.00116531039f, 9.24481647e-5f};
    constexpr float T[] = {0.159594715f,  0.159119621f,  0.138860166f, 0.0560600981f,
                           0.104347177f, -0.185415298f, 0.0677175298f};
    const float clamped = x < -16.0f ? -16.0f : x;  // e^(-16^2/2) is 0 in fp32: minus infinity gives -0, not NaN
    const float magnitude = fabsf(clamped) > 16.0f ? 16.0f : fabsf(clamped);
    const float u = __fdiv_rn(1.0f, __fmaf_rn(magnitude, 0.4f, 1.0f));
    const float decay = exp_of_negative(__fmul_rn(__fmul_rn(magnitude, -0.5f), magnitude));
    const float tail = __fmul_rn(__fmul_rn(polynomial(u, T), u), decay);
    const float near = __fmaf_rn(clamped, polynomial(__fmul_rn(magnitude, magnitude), S), 0.5f);
    return __fmul_rn(clamped, magnitude < 1.0f ? near : clamped < 0.0f ? tail : __fsub_rn(1.0f, tail));
}

template <int Kind>
__device__ __forceinline__ float activate(float x) {
    if constexpr (Kind == RELU) return relu(x);
    if constexpr (Kind == GELU) return gelu(x);
    if constexpr (Kind == SILU) return silu(x);
    return x;
}
