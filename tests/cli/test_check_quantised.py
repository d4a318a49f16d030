"""gemmsmith check of quantised products: scales in structs, packed bytes and nibbles, bf16 in integers, bytes again."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

HEAD = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
"""
ONE_OUTPUT = """
    int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
"""
IN_STRUCT = """
struct Args { const __nv_bfloat16* act; const uint8_t* wt; const float* w_scale; const float* w_zero;
              __nv_bfloat16* out; int M, N, K; };
__global__ void w8a16(Args p) {
    const int M = p.M, N = p.N, K = p.K;
    ONE_OUTPUT
    float s = 0.0f;
    for (int k = 0; k < K; ++k) s += __bfloat162float(p.act[m * K + k]) * ((float)p.wt[n * K + k] - p.w_zero[n]);
    p.out[m * N + n] = __float2bfloat16(s * p.w_scale[n]);
}
void run(const Args& p) { w8a16<<<dim3((p.N + 15) / 16, (p.M + 15) / 16), dim3(16, 16)>>>(p); }
"""
WORDS = """
__global__ void qlin(const int* A4, const int* B4, const int* bias, const float* multiplier, uint8_t* out, int M, int N,
                     int K4, int zp_out) {
    ONE_OUTPUT
    int acc = bias[n];
    for (int k = 0; k < K4; ++k) acc = __dp4a(A4[m * K4 + k], B4[k * N + n], acc);
    int v = (int)rintf(acc * multiplier[n]) + zp_out;
    out[m * N + n] = (uint8_t)min(max(v, 0), 255);
}
void run(const int* a, const int* b, const int* bias, const float* mul, uint8_t* o, int M, int N, int K, int zp) {
    qlin<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, bias, mul, o, M, N, K / 4, zp);
}
"""
FIXED_POINT = """
struct Requant { int32_t mult; int shift; int32_t zp_out; int32_t lo, hi; };
__device__ int32_t requantise(int32_t acc, const Requant& q) {
    int64_t product = (int64_t)acc * q.mult;
    int32_t v = (int32_t)((product + (1ll << 30)) >> 31);
    if (q.shift > 0) v = (v + (1 << (q.shift - 1))) >> q.shift;
    return min(max(v + q.zp_out, q.lo), q.hi);
}
__global__ void qmm(const int8_t* A, const int8_t* B, const int32_t* bias, int8_t* O, int M, int N, int K, Requant q) {
    ONE_OUTPUT
    int32_t acc = bias[n];
    for (int k = 0; k < K; ++k) acc += A[m * K + k] * B[k * N + n];
    O[m * N + n] = (int8_t)requantise(acc, q);
}
void run(const int8_t* a, const int8_t* b, const int32_t* bias, int8_t* o, int M, int N, int K, Requant q) {
    qmm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, bias, o, M, N, K, q);
}
"""
NIBBLES = """
// group may be 16, 32 or 64
__global__ void w4(const half* x, const uint32_t* qweight, const half* scales, half* y, int N, int K, int group) {
    int n = blockIdx.x * 64 + threadIdx.x, m = blockIdx.y;
    if (n >= N) return;
    float s = 0.0f;
    for (int w = 0; w < K / 8; ++w) {
        uint32_t q = qweight[(size_t)w * N + n];
        for (int j = 0; j < 8; ++j) {
            int k = w * 8 + j, code = (q >> (4 * j)) & 0xF;
            s += __half2float(x[(size_t)m * K + k]) * (float)(code - 8) * __half2float(scales[k / group * N + n]);
        }
    }
    y[(size_t)m * N + n] = __float2half(s);
}
void run(const half* x, const uint32_t* q, const half* s, half* y, int M, int N, int K, int group) {
    w4<<<dim3((N + 63) / 64, M), 64>>>(x, q, s, y, N, K, group);
}
"""
RAW_BF16 = """
__device__ float up(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
__global__ void mm(const unsigned short* A, const signed char* B, uint16_t* C, int M, int N, int K) {
    ONE_OUTPUT
    float s = 0.0f;
    for (int k = 0; k < K; ++k) s += up(A[m * K + k]) * B[k * N + n];
    uint32_t u = __float_as_uint(s);
    C[m * N + n] = (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
void run(const unsigned short* a, const signed char* b, uint16_t* c, int M, int N, int K) {
    mm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, c, M, N, K);
}
"""
ROWS_AND_COLUMNS = """
__global__ void mm(const float* A, const float* B, const float* rs, const float* cs, float* C, int M, int N, int K) {
    ONE_OUTPUT
    float s = 0.0f;
    for (int k = 0; k < K; ++k) s += A[m * K + k] * B[k * N + n];
    C[m * N + n] = rs[m] * s * cs[n];
}
void run(const float* a, const float* b, const float* r, const float* c, float* o, int M, int N, int K) {
    mm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, r, c, o, M, N, K);
}
"""
FP8_BYTES = """
__device__ float value(uint8_t v) {
    uint16_t h = (uint16_t)((v & 0x80) << 8) | (uint16_t)((v & 0x7f) << 7);
    return __half2float(__ushort_as_half(h)) * 256.0f;
}
__global__ void mm(const uint8_t* A, const uint8_t* B, float* C, int M, int N, int K, float scale_a, float scale_b) {
    ONE_OUTPUT
    float s = 0.0f;
    for (int k = 0; k < K; ++k) s += value(A[m * K + k]) * value(B[n * K + k]);
    C[m * N + n] = s * scale_a * scale_b;
}
void run(const uint8_t* a, const uint8_t* b, float* c, int M, int N, int K, float sa, float sb) {
    mm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, c, M, N, K, sa, sb);
}
"""


def source(body: str, old: str = "", new: str = "") -> str:
    assert old in body
    return HEAD + (body.replace(old, new) if old else body).replace("ONE_OUTPUT", ONE_OUTPUT)


RIGHT = {
    "pointers and sizes in a struct": (IN_STRUCT, "Σ p.act·(p.wt − p.w_zero[n])·p.w_scale[n]"),
    "four bytes in a word": (WORDS, "the rounded (Σ A4·B4 + bias[n])·multiplier[n] + zp_out (to the nearest even)"),
    "fixed-point numbers": (FIXED_POINT, "the rounded (Σ A·B + bias[n])·q.mult / 2^(31 + shift) + q.zp_out (half up)"),
    "groups of nibbles, and rows from the grid": (NIBBLES, "Σ x·qweight·scales[k/64, n]"),
    "bf16 as its bits, times bytes": (RAW_BF16, "Σ A·B"),
    "scales of fp32": (ROWS_AND_COLUMNS, "Σ A·rs[m]·B·cs[n]"),
    "fp8 as its bits": (FP8_BYTES, "Σ A·scale_a·B·scale_b"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_products(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body, formula = RIGHT[name]
    code, found = check(tmp_path, source(body), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert f"as {formula}:" in found["verdict"]


WIDE, GROUPS, TINY = (("--trial", label) for label in ("values of the whole range", "groups of",
                                                       "the smallest numbers of fp8"))  # fmt: skip
WRONG = {
    "a zero point of rows": (source(IN_STRUCT, "p.w_zero[n]", "p.w_zero[m]"), QUICK),
    "bytes that wrap around": (source(WORDS, "(uint8_t)min(max(v, 0), 255)", "(uint8_t)v"), QUICK),
    "one half added to negative results": (
        source(WORDS, "(int)rintf(acc * multiplier[n])", "(int)(acc * multiplier[n] + 0.5f)"), QUICK
    ),
    "a product in 32 bits": (source(FIXED_POINT, "(int64_t)acc * q.mult", "(int64_t)(acc * q.mult)"), QUICK),
    "a scale of whole tiles": (source(NIBBLES, "k / group * N", "k / 32 * 32 / group * N"), GROUPS),
    "a nibble's sign": (source(NIBBLES, "code - 8)", "(j < 7 || code < 15 ? code : 7) - 8)"), QUICK),
    "scales of other rows": (source(NIBBLES, "k / group * N", "k / group * 64"), QUICK),
    "rows of B in bf16": (source(RAW_BF16, "B[k * N", "B[k * M"), QUICK),
    "columns scaled by rows": (source(ROWS_AND_COLUMNS, "cs[n]", "cs[m]"), QUICK),
    "fp8 decoded by its fields": (source(FP8_BYTES.replace("* 256.0f", "* 256.0f * (((v >> 3) & 0xF) ? 1 : 2)")), TINY),
    "fp8 without its small numbers": (
        source(FP8_BYTES, "uint16_t h =", "if (!(v & 0x78)) return 0; uint16_t h ="), TINY
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_products(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong, trial = WRONG[name]
    code, found = check(tmp_path, wrong, capsys, *trial)
    assert (code, found["status"]) == (1, "wrong"), found


def test_another_rounding_to_the_nearest_is_no_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results of one step more or less, near one half, are a choice."""
    other = "(int)floorf(acc * multiplier[n] + 0.4f)"
    code, found = check(tmp_path, source(WORDS, "(int)rintf(acc * multiplier[n])", other), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found


def test_a_group_length_that_no_text_names_does_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel whose tiles need groups of 64 is not called wrong for shorter ones that nobody passes."""
    tiles = source(NIBBLES, "k / group * N", "k / 64 * 64 / group * N").replace("// group may be 16, 32 or 64", "")
    code, found = check(tmp_path, tiles, capsys, *GROUPS)
    assert (code, found["status"]) == (0, "right"), found


def test_unclear_packing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number that follows from two codes is no number of four bits."""
    mixed = source(NIBBLES, "int k = w * 8 + j, code = (q >> (4 * j)) & 0xF;",
                   "int k = w * 8 + j, code = ((q >> (4 * j)) ^ (q >> (4 * (j ^ 1)))) & 0xF;")  # fmt: skip
    code, found = check(tmp_path, mixed, capsys, *QUICK)
    assert code == 2, found


def test_rows_that_the_size_of_a_tensor_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``x.size(0)`` is not known, and not 0: M is what the grid has under that name."""
    host = (
        source(NIBBLES.partition("void run")[0])
        + """
    void run(Tensor x, Tensor q, const half* s, half* y, int group) {
        const int M = x.size(0), K = x.size(1), N = q.size(1);
        w4<<<dim3((N + 63) / 64, M), 64>>>((const half*)x.data_ptr(), (const uint32_t*)q.data_ptr(), s, y, N, K, group);
    }
    """
    )
    code, found = check(tmp_path, host, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
