"""Which kernels promise indices beyond 2³¹ elements: those that multiply in 64 bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.verify.code.long_indices import (
    computes_long_indices,
    indexes_in_64_bits,
    is_row_long,
    means_long_indices,
)

PLACES = "size_t row = blockIdx.y * 16; size_t ty = threadIdx.y; int m = row + ty; "


@pytest.mark.parametrize(("code", "long"), [
    (PLACES + "C[m * K + k] = sum;", False),
    (PLACES + "C[row * K + k] = sum;", True),
    (PLACES + "C[K * (row) + k] = sum;", True),
    (PLACES + "C[(size_t)m * K + k] = sum;", True),
    ("for (size_t k = 0; k < K; ++k) sum += A[row * K + k];", False),
    ("size_t at = (size_t)row * K; C[at] = sum;", True),
    ("int row = blockIdx.y; C[row * K] = sum;", False),
    ("C += (size_t)blockIdx.z * M * N; C[row * N + col] = sum;", False),
    ("int b = blockIdx.z; float *Cb = C + static_cast<size_t>(b) * M * N; Cb[row * N + col] = sum;", False),
    ("size_t b = blockIdx.z; float *Cb = C + b * M * N; Cb[row * N + col] = sum;", False),
    ("const size_t at = (size_t)blockIdx.z * M * N; C[at + row * N + col] = sum;", False),
    ("void f(float *C, long long strideC) { C += blockIdx.z * strideC; C[row * N + col] = sum; }", False),
    ("void f(float *C, int64_t ldc) { C += (int64_t)blockIdx.z * M * ldc; C[row * ldc + col] = sum; }", True),
    ("C += (size_t)blockIdx.z * M * N; C[(size_t)row * N + col] = sum;", True),
    ("C += (size_t)blockIdx.y * M * N; C[row * N + col] = sum;", True),
])  # fmt: skip
def test_what_is_multiplied_in_64_bits(code: str, long: bool) -> None:
    assert computes_long_indices(code) is long


MIXED = """__global__ void k(const float* A, const float* B, float* C, int m, int n, int k) {
    const float* tile = A + (size_t)blockIdx.y * 16 * k;
    size_t at = row * n + col;
    int place = row * n + col;
    sum += tile[ty * k + p] * B[static_cast<long long>(p) * n + col];
    C[place] = sum;
    D[at] = sum;
    E[at / (b[2] + 1)] = 1LL;
    fill(F, n);
}"""


@pytest.mark.parametrize(("pointer", "long"), [
    ("A", True),  # by the pointer that is made of it
    ("B", True),
    ("C", False),
    ("D", True),  # the product is made of ints, and meant to be more
    ("E", True),
    ("F", None),  # given to a function
    ("G", None),
])  # fmt: skip
def test_which_matrices_are_indexed_in_64_bits(pointer: str, long: bool | None) -> None:
    assert indexes_in_64_bits(MIXED, pointer) is long


PRODUCT = """__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) sum += A[LEFT] * B[RIGHT];
    C[row * N + col] = sum;
}
"""


@pytest.mark.parametrize(("left", "right", "means"), [
    ("(size_t)row * K + k", "(size_t)k * N + col", True),
    ("(size_t)row * K + k", "k * N + col", False),  # a long K is meant
    ("row * K + k", "(size_t)k * N + col", False),
    ("row * K + k", "k * N + col", False),
])  # fmt: skip
def test_who_widens_the_indices_of_both_operands_means_a_large_result(
    left: str, right: str, means: bool, tmp_path: Path
) -> None:
    (tmp_path / "k.cu").write_text(PRODUCT.replace("LEFT", left).replace("RIGHT", right), encoding="utf-8")
    assert means_long_indices(user_kernel(tmp_path / "k.cu", UserOptions()), "C") is means


BATCH = """__global__ void k(const float* A, float* C, int m, int n, int k) {
    int batch = blockIdx.z;
    const float* a = A + (long long)batch * m * k;
    float* c = C + static_cast<size_t>(blockIdx.z) * m * n;
    c[INDEX] = a[row * k];
}"""


def test_the_offset_of_a_batch_says_nothing_of_one_matrix() -> None:
    assert indexes_in_64_bits(BATCH.replace("INDEX", "row * n + col"), "C") is False
    assert indexes_in_64_bits(BATCH, "A") is False
    assert indexes_in_64_bits(BATCH.replace("INDEX", "(size_t)row * n + col"), "C") is True


@pytest.mark.parametrize(("role", "long"), [
    ("M", True), ("lda", True), ("8 * K", True), ("ld", True),
    ("M * K", False), ("M * ldc", False), ("strideA", False), ("batch", False), ("", False),
])  # fmt: skip
def test_the_size_of_a_matrix_is_no_length_of_a_row(role: str, long: bool) -> None:
    assert is_row_long(role) is long
