"""CUDA kernels that use many instructions each, for comparing PTX with machine code. All take (in, out, n)."""

from __future__ import annotations

INTEGERS = r"""
extern "C" __global__ void k(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, w = 0;
    if (i >= n) return;
    int a = in[i], b = in[(i + 7) % n], s = in[(i + 3) % n] & 63;
    unsigned ua = a, ub = b;
    long long x = (long long)a * 3000000007ll + b, y = ((long long)b << 31) ^ a;
    unsigned long long ux = x, uy = y;
    auto put = [&](long long v) { out[(w * n + i) * 2] = (int)v; out[(w * n + i) * 2 + 1] = (int)(v >> 32); ++w; };
    put(x + y); put(x - y); put(x * y); put(x << s); put(x >> s); put(ux >> s); put(ux << (s & 31));
    put(a + b); put(a - b); put(a * b); put(__mulhi(a, b)); put(__umulhi(ua, ub)); put((long long)a * b + y);
    put((unsigned long long)ua * ub + ux); put(a < b); put(ua < ub); put(x < y); put(ux < uy); put(x == y); put(x >= y);
    put(min(a, b)); put(max(ua, ub)); put(min(x, y)); put(abs(a)); put(llabs(x)); put(min(max(a, -100), 1000));
    put(__popc(ua)); put(__clz(a)); put(__brev(ua)); put(__ffs(a)); put(__popcll(ux)); put(__clzll(x));
    put(__brevll(ux));
    put(__byte_perm(ua, ub, 0x3614)); put(__funnelshift_l(ua, ub, s)); put(__funnelshift_r(ua, ub, s));
    put(__funnelshift_lc(ua, ub, s)); put(__funnelshift_rc(ua, ub, s)); put(__dp4a(a, b, s)); put(__dp4a(ua, ub, 5u));
    put(a / (b | 1)); put(a % (b | 1)); put(ua / (ub | 1)); put(ua % (ub | 1)); put(a / 7); put(ua / 10); put(a % 12);
    put(x / (y | 1)); put(ux % (uy | 1)); put((a & b) | (~a & s)); put(a ^ (b >> 3)); put((a >> s) & 1 ? b : s);
    put((ua >> 5) & 0x7ff); put((a << 13) >> 13); put((short)a); put((signed char)a); put((unsigned char)(a >> 8));
    put(__sad(a, b, 9u)); put(__hadd(a, b)); put(__rhadd(a, b)); put(__usad(ua, ub, 1u)); put(a * 12345 + b * 7 - s);
    put((x + y + (long long)a) ^ (x - (y + b)));
}
"""

FLOATS = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void k(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, w = 0;
    if (i >= n) return;
    float a = __int_as_float(in[i]), b = __int_as_float(in[(i + 7) % n]), c = (float)in[(i + 3) % n];
    double x = (double)c * 1.000000001, y = (double)in[(i + 5) % n] / 3.0;
    auto put = [&](float v) { out[(w * n + i) * 2] = __float_as_int(v); out[(w * n + i) * 2 + 1] = 0; ++w; };
    auto put8 = [&](double v) { long long z = __double_as_longlong(v);
        out[(w * n + i) * 2] = (int)z; out[(w * n + i) * 2 + 1] = (int)(z >> 32); ++w; };
    put(__fadd_rn(a, b)); put(__fmul_rn(a, b)); put(__fmaf_rn(a, b, c)); put(__fadd_rz(a, b)); put(__fmaf_ru(a, b, c));
    put(__fmul_rd(a, c)); put(-a); put(fabsf(b)); put(fminf(a, c)); put(fmaxf(b, c)); put(__saturatef(c));
    put(a < b); put(a >= b); put(a == b); put(!(a < c)); put(isnan(a)); put(isinf(b)); put(c > 0 ? a : b);
    put(__fdiv_rn(c, 7.0f)); put(__frcp_rn(c)); put(__fsqrt_rn(fabsf(c))); put(__fdividef(c, 3.1f));
    put(exp2f(c * 1e-9f)); put(__log2f(fabsf(c) + 1)); put(__sinf(c * 1e-8f)); put(rsqrtf(fabsf(c) + 1));
    put(tanhf(c * 1e-9f));
    put(rintf(c * 0.37f)); put(floorf(c * 0.37f)); put(ceilf(c * 0.37f)); put(truncf(c * 0.37f));
    put((float)(int)(c * 0.3f)); put((float)(unsigned)fabsf(c)); put((float)(long long)(c * 5e3f)); put((float)in[i]);
    put((float)(unsigned)in[i]); put(__int2float_rz(in[i])); put(__half2float(__float2half(c * 1e-5f)));
    put(__bfloat162float(__float2bfloat16(c)));
    __half2 h = __floats2half2_rn(c * 1e-6f, 1.5f), g = __floats2half2_rn(-0.25f, c * 1e-7f);
    put(__low2float(__hfma2(h, g, h))); put(__high2float(__hadd2(h, g))); put(__low2float(__hmul2(g, __hneg2(h))));
    put(__high2float(__hmax2(h, g))); put(__hgt(__low2half(h), __high2half(g)));
    __nv_bfloat162 p = __floats2bfloat162_rn(c, 3.0f);
    put(__low2float(__hfma2(p, p, p)));
    put8(x + y); put8(x * y); put8(fma(x, y, 0.5)); put8(x < y); put8((double)in[i]); put((float)x); put8((double)c);
    put8((double)(long long)x); put8(-x); put8(fabs(y));
}
"""

DIVERGENCE = r"""
__device__ int collatz(int v) {
    int steps = 0;
    while (v != 1 && steps < 200) {
        if (v & 1) v = 3 * v + 1; else v >>= 1;
        ++steps;
        if (v > 1000000) break;
    }
    return steps;
}
extern "C" __global__ void k(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = in[i] & 1023, total = 0;
    for (int r = 0; r < (a & 7); ++r) {
        if (r == 5) continue;
        for (int q = r; q < 4; ++q) total += (q & 1) ? collatz(a + q) : q;
    }
    switch (a % 9) {
        case 0: total += 5; break;
        case 1: total ^= a; break;
        case 2: total *= 3;
        case 3: total -= 7; break;
        case 4: if (total & 1) { out[2 * i] = total; return; } break;
        case 5: total += in[(i + 1) % n]; break;
        case 6: total = ~total; break;
        default: total <<= 1;
    }
    out[2 * i] = total;
    out[2 * i + 1] = a;
}
"""

WARPS = r"""
extern "C" __global__ void k(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, a = in[i % n], v = a;
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
    int up = __shfl_up_sync(~0u, a, 3), down = __shfl_down_sync(~0u, a, 5, 16), pick = __shfl_sync(~0u, a, lane * 7);
    unsigned votes = __ballot_sync(~0u, a & 1);
    int any = __any_sync(~0u, a == in[0]), all = __all_sync(~0u, a != 17);
    int reduced = __reduce_add_sync(~0u, a), least = __reduce_min_sync(~0u, a), bits = __reduce_or_sync(~0u, a);
    unsigned same = __match_any_sync(~0u, a & 3);
    int half = 0;
    if (lane < 16) half = __shfl_xor_sync(0xffffu, a, 1);
    else half = __ballot_sync(0xffff0000u, a > 0);
    __syncwarp();
    out[2 * i] = v ^ up * 3 ^ down * 5 ^ pick * 7 ^ votes;
    out[2 * i + 1] = (any + 2 * all) ^ reduced ^ least * 11 ^ bits ^ same * 13 ^ half;
}
"""

BLOCKS = r"""
__constant__ int table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ int counter = 5;
extern "C" __global__ void k(const int* in, int* out, int n) {
    __shared__ int tile[256];
    __shared__ unsigned sums[4];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, own[12];
    int a = in[i % n];
    if (t < 4) sums[t] = 0;
    tile[t] = a;
    for (int q = 0; q < 12; ++q) own[q] = a * q;
    own[a & 7] = 99;
    __syncthreads();
    atomicAdd(&sums[a & 3], (unsigned)a & 255);
    atomicMax((int*)&sums[3], t);
    int other = tile[(t * 37 + 11) % blockDim.x];
    int odd = __syncthreads_count(a & 1), some = __syncthreads_or(a == 12345), every = __syncthreads_and(t < 1000);
    if (t < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    else asm volatile("bar.sync 2, %0;" :: "r"((int)blockDim.x - 64) : "memory");
    int* p = (a & 1) ? tile : own;  // a generic pointer into shared or local memory
    out[2 * i] = other + odd * 3 + some + every * 2 + own[(a >> 3) & 7] + table[a & 15] + p[1];
    __syncthreads();
    out[2 * i + 1] = sums[0] + sums[1] * 3 + sums[2] * 5 + sums[3] * 7;
    if (t == 0) atomicAdd(&counter, 1);
    atomicAdd(out + 2 * n, 1);
    atomicXor(out + 2 * n + 1, a);
    atomicAdd((float*)out + 2 * n + 2, 0.5f);
    if (t == 0) atomicCAS(out + 2 * n + 3, 0, 42);
    unsigned long long* wide = (unsigned long long*)(out + 2 * n + 4);
    atomicAdd(wide, (unsigned long long)(unsigned)a);
    atomicMin((long long*)wide + 1, (long long)a * 1000003);
    if (i == 7) out[2 * n + 10] = (int)atomicExch(wide + 2, 0x123456789abcull);
    if (i == 9) out[2 * n + 11] = (int)(atomicCAS(wide + 4, 0ull, 77ull) >> 3);
    atomicAdd((double*)wide + 5, 0.25);
    __shared__ float total;
    if (t == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, (float)(a & 7));
    __syncthreads();
    if (t == 5) ((float*)out)[2 * n + 16 + blockIdx.x] = total;
}
"""

NARROW_CONSTANTS = r"""
__constant__ short halves[5] = {-3, 12345, -32768, 77, 9};
__constant__ unsigned short positive[3] = {65535, 40000, 3};
__constant__ signed char bytes[6] = {-1, 2, -128, 127, 5, -7};
__constant__ unsigned char whole[5] = {255, 1, 128, 200, 17};
extern "C" __global__ void k(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, w = 0;
    if (i >= n) return;
    int a = in[i];
    auto put = [&](int v) { out[(w * n + i) * 2] = v + a; out[(w * n + i) * 2 + 1] = v; ++w; };
    put(halves[0]); put(halves[1]); put(halves[2]); put(halves[3]); put(positive[0]); put(positive[1]);
    put(bytes[0]); put(bytes[1]); put(bytes[2]); put(bytes[3]); put(bytes[5]);
    put(whole[0]); put(whole[1]); put(whole[2]); put(whole[3]); put(whole[4]);
    put(halves[(a & 7) % 5]); put(whole[(a & 7) % 5]); put((short)n); put((unsigned char)(n >> 8));
}
"""

HALF_PARAMETERS = r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half* in, __half* out, int n, __half alpha, __half beta, short whole) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half a = in[i];
    out[3 * i] = __hfma(alpha, a, __hmul(beta, out[i]));
    out[3 * i + 1] = __int2half_rn(whole);
    out[3 * i + 2] = __hadd(__hmul(a, beta), alpha);
}
"""

# Lanes copy different rows: a loop takes the values of one lane after another, since the copy has uniform registers.
VALUES_IN_TURN = r"""
extern "C" __global__ void k(const int* in, int* out, int n) {
    __shared__ alignas(16) int rows[32][4];
    __shared__ alignas(8) unsigned long long barrier;
    unsigned at = (unsigned)__cvta_generic_to_shared(&barrier), lane = threadIdx.x;
    if (lane == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at));
    __syncthreads();
    if (lane == 0) asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 320;" ::"r"(at) : "memory");
    __syncthreads();
    if (lane < 20) {
        unsigned row = (unsigned)__cvta_generic_to_shared(rows[lane]);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
                     ::"r"(row), "l"(in + 4 * (lane * 7 % 20)), "r"(at) : "memory");
    }
    for (unsigned done = 0; !done;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at) : "memory");
    if (blockIdx.x == 0 && lane < 20) out[lane] = rows[lane][0] + rows[lane][3];
}
"""

# Copies arrive at two mbarriers: one counts the arrivals from the start (noinc), the other is told by each arrival.
ARRIVALS_OF_COPIES = r"""
extern "C" __global__ void k(const int* in, int* out, int n) {
    __shared__ alignas(16) int copied[128];
    __shared__ alignas(8) unsigned long long barriers[2];
    unsigned counted = (unsigned)__cvta_generic_to_shared(barriers), told = counted + 8, lane = threadIdx.x;
    if (lane == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(counted));
        asm volatile("mbarrier.init.shared.b64 [%0], 128;" ::"r"(told));
    }
    __syncthreads();
    unsigned to = (unsigned)__cvta_generic_to_shared(copied + lane);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + lane) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(counted) : "memory");
    asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(told) : "memory");
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(told) : "memory");
    for (int n = 0; n < 2; ++n)
        for (unsigned done = 0; !done;)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(counted + 8 * n) : "memory");
    out[blockIdx.x * 128 + lane] = copied[127 - lane];
}
"""

# Two numbers that are converted one after the other come to one register: F2FP.MERGE_C on sm_86.
MERGED_HALVES = r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half2* in, __half2* out, int n, float alpha, float beta) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half a = __float2half(alpha), b = __float2half(beta);
    for (int j = 0; j < 8; ++j) {
        __half2 x = in[(i * 8 + j) % n], y = in[(i * 8 + j + 3) % n];
        out[i * 8 + j] = __hfma2(x, __half2half2(a), __hmul2(y, __half2half2(b)));
    }
}
"""
