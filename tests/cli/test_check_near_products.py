"""gemmsmith check on kernels that are much like a product: they are refused with the reason, and not called wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

from gemmsmith.verify.code.long_indices import computes_long_indices
from gemmsmith.verify.meaning.product_evidence import says_product

SHAPE = ("--m", "16", "--n", "24", "--k", "8")
KERNEL = """
__global__ void NAME(PARAMETERS, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    BODY
}
void run(PARAMETERS, int M, int N, int K) {
    NAME<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(ARGUMENTS, M, N, K);
}
"""
SUM = "float sum = 0; for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];"
FLOATS = "const float* A, const float* B, float* C"
NEAR = {
    "a mask": ("sampled_mm", "const float* A, const float* B, const float* mask, float* C",
               f"{SUM} C[row * N + col] = sum * mask[row * N + col];", "it also multiplies by mask"),
    "a diagonal": ("a_diag_b", "const float* A, const float* d, const float* B, float* C",
                   SUM.replace("* B[", "* d[k] * B[") + " C[row * N + col] = sum;", "it also multiplies by d"),
    "complex numbers": ("cgemm", FLOATS.replace("float", "float2"),
                        "float2 sum = {0, 0}; for (int k = 0; k < K; ++k) { float2 a = A[row * K + k], b = B[k * N + "
                        "col]; sum.x += a.x * b.x - a.y * b.y; sum.y += a.x * b.y + a.y * b.x; } "
                        "C[row * N + col] = sum;", "its numbers are complex"),
    "an activation": ("linear_act", FLOATS, f"{SUM} C[row * N + col] = sum > 0 ? sum : 0.01f * sum;",
                      "its name says that it applies an activation"),
    "a convolution": ("conv1d_rows", FLOATS,
                      "float sum = 0; for (int k = 0; k < K; ++k) if (col + k < N) sum += A[row * N + col + k] * B[k]; "
                      "C[row * N + col] = sum;", "a convolution, which is not judged"),
    "equal letters": ("hamming", "const char* A, const char* B, int* C",
                      "int sum = 0; for (int k = 0; k < K; ++k) sum += A[row * K + k] == B[col * K + k]; "
                      "C[row * N + col] = sum;", "is not linear in A and in B"),
    "an update": ("schur_update", FLOATS, f"{SUM} C[row * N + col] -= sum;", "computes C - A·B"),
    "an update by other elements": ("schur_update", FLOATS, SUM.replace("row * K", "row * N")
                                    + " C[row * N + col] -= sum;", "it subtracts from C"),
    "a negative": ("matmul_minus", FLOATS, SUM.replace("+=", "-=") + " C[row * N + col] = sum;", "computes -A·B"),
    "a residual": ("residual", "const float* A, const float* B, const float* y, float* C",
                   f"{SUM} C[row * N + col] = y[row * N + col] - sum;", "computes y - A·B"),
    "one term K times": ("hadamard", FLOATS, "float sum = 0; for (int k = 0; k < K; ++k) sum += A[row * N + col] * "
                         "B[row * N + col]; C[row * N + col] = sum;", "K times one product of two elements"),
    "remainders": ("modular", FLOATS.replace("float", "int"),
                   "long long sum = 0; for (int k = 0; k < K; ++k) sum = (sum + (long long)A[row * K + k] * "
                   "B[k * N + col]) % 998244353; C[row * N + col] = (int)sum;", "products modulo a number"),
}  # fmt: skip


def _source(name: str, parameters: str, body: str) -> str:
    names = ", ".join(each.split("*")[1].strip() for each in parameters.split(","))
    text = KERNEL.replace("PARAMETERS", parameters).replace("NAME", name)
    return text.replace("BODY", body).replace("ARGUMENTS", names)


def test_a_product_that_is_called_a_convolution(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One over single points is a product, and touches what a product does, right or wrong."""
    right = _source("conv1x1", FLOATS, f"{SUM} C[row * N + col] = sum;")
    code, found = check(tmp_path, right, capsys, *SHAPE)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, right.replace("A[row * K + k]", "A[row * K + (k ^ 1)]"), capsys, *SHAPE)
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_name_with_other_letters_around_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leaky = _source("factor_product", FLOATS, f"{SUM} C[row * N + col] = sum > 0 ? sum : 0.01f * sum;")
    code, said = check(tmp_path, leaky, capsys, *SHAPE)
    assert code == 2
    assert "is not linear" in said


@pytest.mark.parametrize("kind", NEAR)
def test_what_is_no_product(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, parameters, body, why = NEAR[kind]
    code, said = check(tmp_path, _source(name, parameters, body), capsys, *SHAPE)
    assert code == 2, said
    assert why in said, said


@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        (FLOATS, f"{SUM} C[row * N + col] = sum;".replace("k * N", "k * K")),
        ("const float* A, const float* B, const float* Cin, float* D",
         f"{SUM} D[row * N + col] = sum + Cin[row * N + col];".replace("k * N", "k * K")),
        (FLOATS.replace("float", "int"),
         f"{SUM} C[row * N + col] = sum;".replace("float", "int").replace("< K", "< 7")),
    ],
)  # fmt: skip
def test_what_is_a_wrong_product(
    parameters: str, body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, _source("product", parameters, body), capsys, *SHAPE)
    assert code == 1, found
    assert found["status"] == "wrong"


def test_biases_of_a_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = f"{SUM} C[row * N + col] = sum + biases[col] > 0 ? sum + biases[col] : 0;"
    source = _source("layer", "const float* A, const float* B, const float* biases, float* C", body)
    code, found = check(tmp_path, source, capsys, *SHAPE)
    assert (code, found["status"]) == (0, "right"), found


def test_names_that_say_product() -> None:
    assert all(map(says_product, ("sgemm_naive", "gemmKernel", "bmm", "batched_mm", "mmKernel", "matrixMul", "mmult")))
    assert not any(map(says_product, ("hamming", "summary", "comma_count")))


def test_sums_in_64_bits_are_no_indices() -> None:
    assert not computes_long_indices("long long sum = 0; sum += (long long)A[i * K + k] * B[j];")
    assert computes_long_indices("long long at = 0; at += 3; C[at] = 1;")
    assert computes_long_indices("long long sum = 0; C[(long long)i * N + j] = sum;")


COMPLEX = """
#include <cuComplex.h>
__global__ void cgemm(const float2* A, const float2* B, float2* C, int M, int N, int KSCALAR) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float2 sum = make_float2(0, 0);
    for (int k = 0; k < K; ++k) sum = cuCfmaf(A[row * K + k], B[k * N + col], sum);
    C[row * N + col] = sum;
}
// cgemm<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K)
"""


@pytest.mark.parametrize(
    ("scalar", "why"), [("", "cgemm"), (", float2 alpha", "check does not judge complex products")]
)
def test_complex_numbers_by_their_functions(
    scalar: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A launch in a comment is believed of wrong products, not of these."""
    code, said = check(tmp_path, COMPLEX.replace("SCALAR", scalar), capsys, *SHAPE)
    assert code == 2
    assert why in said
