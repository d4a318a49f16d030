"""gemmsmith check on products with scales, zero points and operands of two types, and on the same with a mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checking import QUICK, check

KERNEL = """
#include <cuda_fp16.h>
#include <cuda_fp8.h>
__global__ void mm(PARAMETERS) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    SUM sum = 0;
    for (int k = 0; k < K; ++k) sum += TERM;
    C[row * N + col] = STORED;
}
void run(PARAMETERS) { mm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(NAMES); }
"""


def kernel(types: str, more: str, term: str, stored: str, sum_type: str = "float") -> str:
    a, b, c = types.split(",")
    parameters = f"const {a}* A, const {b}* B, {c}* C, int M, int N, int K{', ' if more else ''}{more}"
    names = ", ".join(part.split()[-1].lstrip("*") for part in parameters.split(","))
    source = KERNEL.replace("PARAMETERS", parameters).replace("NAMES", names).replace("SUM", sum_type)
    return source.replace("TERM", term).replace("STORED", stored)


INT8, DOT = "signed char,signed char,float", "A[row * K + k] * B[k * N + col]"
SCALES = "const float* scale_a, const float* scale_b"
ZEROS = "int zp_a, int zp_b"
GROUPED = "(float)A[row * K + k] * ((float)B[k * N + col] * __half2float(scales[k / group_size * N + col]))"
BYTES = "signed char,signed char,signed char"
OF_ALL = "float scale_a, float scale_b, float scale_c, int zero_a, int zero_b, int zero_c"
ZERO_DOT = "(A[row * K + k] - zero_a) * (B[k * N + col] - zero_b)"
ROUNDED = "max(-128, min(127, (int)roundf(sum * scale_a * scale_b / scale_c) + zero_c))"
RIGHT = {
    "scales of rows and columns": (
        kernel(INT8, SCALES, DOT, "sum * scale_a[row] * scale_b[col]", "int"),
        "Σ A·scale_a[m]·B·scale_b[n]",
    ),
    "arrays of scales with names of two letters": (
        kernel(INT8, "const float* sa, const float* sb", DOT, "sum * sa[row] * sb[col]", "int"),
        "Σ A·sa[m]·B·sb[n]",
    ),
    "zero points": (
        kernel("unsigned char,signed char,int", ZEROS, "(A[row * K + k] - zp_a) * (B[k * N + col] - zp_b)", "sum",
               "int"),
        "Σ (A − zp_a)·(B − zp_b)",
    ),
    "weights with scales of groups": (
        kernel("__half,signed char,__half", "const __half* scales, int group_size", GROUPED, "__float2half(sum)"),
        "Σ A·B·scales[k/128, n]",
    ),
    "fp8 with one scale each": (
        kernel("__nv_fp8_e4m3,__nv_fp8_e5m2,float", "float scale_a, float scale_b",
               "float(A[row * K + k]) * float(B[col * K + k])", "sum * scale_a * scale_b"),
        "Σ A·scale_a·B·scale_b",
    ),
    "bytes again": (
        kernel(BYTES, OF_ALL, ZERO_DOT, ROUNDED, "int"),
        "the rounded Σ (A − zero_a)·scale_a·(B − zero_b)·scale_b / scale_c + zero_c (half away from zero)",
    ),
    "two types": (kernel("__half,float,float", "", "__half2float(A[row * K + k]) * B[k * N + col]", "sum"), "Σ A·B"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_products(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, formula = RIGHT[name]
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert f"as {formula}:" in found["verdict"]


EDGE = ("--trial", "a shape that is no multiple of the tile")
WIDE = ("--trial", "values of the whole range")
SCALED = "sum * scale_a[row] * scale_b[col]"
WRONG = {
    "the last row": (kernel(INT8, SCALES, f"(row == M - 1 && M % 16 ? 0 : {DOT})", SCALED, "int"), EDGE),
    "an element of C": (kernel(INT8, SCALES, DOT, f"{SCALED} + (row == 5 && col == 70)", "int"), QUICK),
    "sums in 16 bits": (kernel(INT8, SCALES, DOT, SCALED, "short"), WIDE),
    "the first product": (kernel(INT8, SCALES, DOT, SCALED, "int").replace("int k = 0", "int k = 1"), QUICK),
    "rows of B": (kernel(INT8, SCALES, DOT.replace("k * N", "k * M"), SCALED, "int"), QUICK),
    "a column's scale by rows": (kernel(INT8, SCALES, DOT, "sum * scale_a[row] * scale_b[row]", "int"), QUICK),
    "bytes without their sign": (
        kernel(INT8, SCALES, "(unsigned char)A[row * K + k] * B[k * N + col]", SCALED, "int"), QUICK
    ),
    "scales of the first columns": (kernel(INT8, SCALES, DOT, "sum * scale_a[row] * scale_b[col & 63]", "int"), QUICK),
    "groups of a fixed length": (
        kernel("__half,signed char,__half", "const __half* scales, int group_size",
               GROUPED.replace("k / group_size", "k / 64"), "__float2half(sum)"),
        QUICK,
    ),
    "bytes that wrap around": (
        kernel(BYTES, "float scale_a, int zero_a, int zero_b", ZERO_DOT, "(int)roundf(sum * scale_a)", "int"), QUICK
    ),
    "a zero point of seven bits": (
        kernel("unsigned char,signed char,int", ZEROS,
               "(A[row * K + k] - (signed char)zp_a) * (B[k * N + col] - zp_b)", "sum", "int"),
        WIDE,
    ),
    "one zero point for both": (
        kernel(
            "unsigned char,signed char,int", ZEROS, "(A[row * K + k] - zp_a) * (B[k * N + col] - zp_a)", "sum", "int"
        ),
        QUICK,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_products(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, trial = WRONG[name]
    code, found = check(tmp_path, source, capsys, *trial)
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_kernel_without_guards_is_right_for_whole_tiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = kernel(INT8, SCALES, DOT, SCALED, "int").replace("if (row >= M || col >= N) return;", "")
    code, found = check(tmp_path, source, capsys, *EDGE)
    assert (code, found["status"]) == (0, "whole_tiles"), found


def test_a_wrong_product_reads_its_scales_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistake in the sum is no access outside of scales, whatever their meaning."""
    wrong = kernel(INT8, SCALES, DOT.replace("col]", "(col ^ 1)]"), SCALED, "int")
    code, found = check(tmp_path, wrong, capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found
    assert "out-of-bounds" not in str(found["trials"]), found["trials"]
    assert "Σ A·scale_a[m]·B·scale_b[n]" in found["verdict"]


PACKED = "__half2float(A[row * K + k]) * ((B[k / 2 * N + col] >> k % 2 * 4 & 15) - 8)"
# No meaning that the names allow gives the result, but no mistake is seen either.
REFUSED = {
    "no division by the scale of C": kernel(BYTES, OF_ALL, ZERO_DOT, ROUNDED.replace("/ scale_c", ""), "int"),
    "groups of another length": kernel("__half,signed char,__half", "const __half* scales, int group_size",
                                       GROUPED.replace("k / group_size", "k / (group_size + 1)"), "__float2half(sum)"),
    "a column-major C": kernel(INT8, SCALES, DOT, SCALED, "int").replace("C[row * N + col]", "C[col * M + row]"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_meaning_explains_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, REFUSED[name], capsys, *QUICK)
    assert code == 2
    assert "ways to apply" in found


def test_packed_numbers_are_unpacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = kernel("__half,unsigned char,float", "const float* scale_b", PACKED, "sum * scale_b[col]")
    code, found = check(tmp_path, packed, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert "as Σ A·B·scale_b[n]:" in found["verdict"]


def test_the_cause_is_named_with_a_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the author meant is not known: the kernel stays refused, and the message has the change that cures it."""
    term = DOT.replace("A[row * K + k]", "__half2float(A[row * K + k])")
    of_rows = kernel("__half,signed char,float", "const float* scales", term, "sum * scales[row]")
    code, found = check(tmp_path, of_rows, capsys, "--cures", "60")
    assert code == 2
    assert "If this is a mistake: the index of scales in line" in found
    assert "Write `scales[col]`" in found
    assert re.search(r"all \d+ trials pass, as Σ A·B·scales\[n\]", found)
    assert "--expect FILE.py:FUNCTION" in found, "and what to do if it is none"


def test_a_wrong_product_has_its_cause_and_patch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guarded = kernel(INT8, SCALES, DOT, "sum * scale_a[row] * scale_b[col]", "int").replace("row >= M", "row > M")
    code, found = check(tmp_path, guarded, capsys, "--cures", "60")
    assert (code, found["status"]) == (1, "wrong")
    assert [cause["kind"] for cause in found["causes"]] == ["comparison"]
    assert "row >= M" in found["causes"][0]["diff"]


def test_a_short_k_is_tried_and_no_cure_gives_up_the_edges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """A guard that is taken away leaves whole tiles right, which they were before."""
    own = kernel(INT8, SCALES, DOT, "sum * scale_a[row] * scale_b[col]", "int")
    assert own.count("k < K") == 1
    code, found = check(tmp_path, own.replace("k < K", "k < (K < 3 ? 3 : K)"), capsys)
    assert (code, found["status"]) == (1, "wrong"), found
    assert found["verdict"].endswith("other K (17x17x1)")
    assert found["causes"] == []
