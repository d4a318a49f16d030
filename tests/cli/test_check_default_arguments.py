"""gemmsmith check on calls that leave arguments out: of kernels, of host functions, with defaults in prototypes."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

KERNEL = """
PROTOTYPE
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K MORE) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = END;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    mm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K GIVEN);
}
"""


def kernel(more: str, end: str, prototype: str = "", given: str = "") -> str:
    source = KERNEL.replace("MORE", more).replace("END", end).replace("PROTOTYPE", prototype)
    return source.replace("GIVEN", given)


RIGHT = {
    "a flag": kernel(", bool clamp = false", "clamp ? fmaxf(sum, 0.0f) : sum"),
    "a start of k": kernel(", int first = 0", "first ? 0.0f : sum"),
    "a real": kernel(", float gain = 1.0f", "sum * gain"),
    "in a prototype": kernel(", bool clamp, float gain", "clamp ? 0.0f : sum * gain",
                             "__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K, "
                             "bool clamp = false, float gain = 0.5f);", ", false, 1.f"),
    "one given": kernel(", float gain = 1.0f, float other = 0.25f", "sum * (gain + other)", "", ", 0.75f"),
    "a null pointer": kernel(", const float* scratchpad = nullptr", "scratchpad ? scratchpad[row] : sum"),
}  # fmt: skip
# The same kernels, wrong where the default decides: with any other value they would be right.
WRONG = {
    "a flag": kernel(", bool clamp = false", "clamp ? sum : sum + 1.0f"),
    "a start of k": kernel(", int first = 1", "first ? 0.0f : sum"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_defaults_are_passed(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, RIGHT[name], capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found


@pytest.mark.parametrize("name", WRONG)
def test_wrong_with_its_defaults(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, WRONG[name], capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_real_that_gives_no_product(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be a parameter of an activation; else the kernel is refused."""
    code, found = check(tmp_path, kernel(", float slope = 0.5f", "sum > 0 ? sum : slope * sum"), capsys, *QUICK)
    assert code == 0, found
    assert "leaky_relu(A·B, slope)" in found["verdict"]
    code, found = check(tmp_path, kernel(", float slope = 0.5f", "sum > 0 ? sum : cosf(slope * sum)"), capsys, *QUICK)
    assert code == 2, found
    assert "slope" in found


HOST = """
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K, int wide = 8, int high = 4);
void test(float* a, float* b, float* c, int m, int n, int k) { run(a, b, c, m, n, k, 16); }
void run(const float* A, const float* B, float* C, int M, int N, int K, int wide, int high) {
    dim3 block(wide, high), grid((N + wide - 1) / wide, (M + high - 1) / high);
    mm<<<grid, block>>>(A, B, C, M, N, K);
}
"""


def test_defaults_of_a_host_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, HOST, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert found["launch"]["block"][:2] == [16, 4]


def test_a_real_that_a_caller_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not rounded: with a slope of 0 the kernel would be taken for relu."""
    source = kernel(", float slope", "sum > 0 ? sum : slope * sum", given=", slope")
    source = source.replace("int N, int K) {\n    mm<<<", "int N, int K, float slope) {\n    mm<<<")
    source += "void test(float* a, float* b, float* c) { run(a, b, c, 64, 96, 32, 0.5f); }\n"
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert code == 0, found
    assert "leaky_relu(A·B, slope)" in found["verdict"]
