"""Leading dimensions, strides and scalars that host code passes for one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.kernel.exchanged_arguments import with_exchanged_arguments
from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import found_values, user_kernel


def signature(*passed: tuple[str, str]) -> Signature:
    """Parameters that are named as their roles, each with what the launch passes for it."""
    return Signature("mine", tuple(Argument(role, role, "P" if role in "ABC" else "i", "int", at_launch=text)
                                   for role, text in passed))  # fmt: skip


def roles(*passed: tuple[str, str]) -> list[str]:
    return [arg.role for arg in with_exchanged_arguments(signature(*passed)).arguments]


def test_a_leading_dimension_of_another_matrix() -> None:
    matrices = ("A", "d_a"), ("B", "d_b"), ("C", "out")
    assert roles(*matrices, ("lda", "ldb"), ("ldb", "(int)lda"), ("ldc", "ldc"))[3:] == ["ldb", "lda", "ldc"]
    assert roles(*matrices, ("strideA", "strideC"), ("strideB", "strideB"), ("strideC", "strideA"))[3:] == [
        "strideC", "strideB", "strideA"]  # fmt: skip


def test_scalars() -> None:
    assert roles(("alpha", "beta"), ("beta", "alpha")) == ["beta", "alpha"]


@pytest.mark.parametrize(
    "passed",
    [
        [("A", "b"), ("B", "a"), ("lda", "ldb"), ("ldb", "lda")],  # column-major: the matrices are exchanged, too
        [("A", "a"), ("B", "b"), ("lda", "ldb"), ("ldb", "ldb")],  # equal on purpose, perhaps
        [("A", "x + 4"), ("B", "y + 8"), ("lda", "ldb"), ("ldb", "lda")],  # whose they are is not told
        [("A", "a"), ("B", "b"), ("lda", "K"), ("ldb", "N")],
    ],
)
def test_no_exchange(passed: list[tuple[str, str]]) -> None:
    assert roles(*passed) == [role for role, _ in passed]


@pytest.mark.parametrize("launch", ["mine<<<n, m>>>(a, b, c, m, n, k, ldb, lda);",
                                    "cudaLaunchKernel((void*)mine, dim3(n), dim3(m), args, 0, 0);"])  # fmt: skip
def test_of_a_file(launch: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    file.write_text(
        "__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb) {\n"
        "    float s = 0.f;\n"
        "    for (int k = 0; k < K; ++k) s += A[threadIdx.x * lda + k] * B[k * ldb + blockIdx.x];\n"
        "    C[threadIdx.x * N + blockIdx.x] = s;\n"
        "}\n"
        "void run(float* a, float* b, float* c, int m, int n, int k, int lda, int ldb) {\n"
        "    void* args[] = {&a, &b, &c, &m, &n, &k, &ldb, &lda};\n"
        f"    {launch}\n"
        "}\n"
    )
    kernel = user_kernel(file, UserOptions())
    assert [arg.role for arg in kernel.signature.arguments] == ["A", "B", "C", "M", "N", "K", "ldb", "lda"]
    assert any(value.value == "lda gets ldb, ldb gets lda" for value in found_values(file, UserOptions()))
