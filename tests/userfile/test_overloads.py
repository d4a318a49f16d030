"""Kernels of one name: each is found by its line, and named so in a table of several kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.check_folder import kernels_in
from gemmsmith.cli.entry_words import split_entry
from gemmsmith.cure.program import program_of
from gemmsmith.errors import SignatureError
from gemmsmith.userfile.options import UserOptions
from gemmsmith.userfile.user_kernel import user_kernel

SOURCE = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
    C[blockIdx.x * N + threadIdx.x] = A[0] * B[0] * M * K;
}
__global__ void gemm(const double* A, const double* B, double* C, int M, int N, int K) {
    C[blockIdx.x * N + threadIdx.x] = A[0] * B[0] * M * K;
}
__global__ void other(const float* A, const float* B, float* C, int M, int N, int K) {
    C[blockIdx.x * N + threadIdx.x] = A[0] * B[0] * M * K;
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "two.cu").write_text(SOURCE)
    return tmp_path / "two.cu"


def test_a_line_means_the_overload_there(file: Path) -> None:
    assert [place.entry for place in kernels_in(file.parent)] == ["gemm@2", "gemm@5", "other"]
    assert split_entry(f"{file}:6") == (str(file), "gemm@5")
    assert split_entry(f"{file}:9") == (str(file), "other")


@pytest.mark.parametrize(("entry", "dtype", "line"), [("gemm@2", "fp32", 2), ("gemm@5", "fp64", 5)])
def test_each_overload_is_read_and_changed_as_itself(file: Path, entry: str, dtype: str, line: int) -> None:
    spec = user_kernel(file, UserOptions(entry=entry, block="32", grid="M"))
    assert spec.dtypes[0].name == dtype
    kernel = program_of(spec).kernel
    assert kernel is not None
    assert kernel.starts == line


def test_a_line_without_that_kernel_is_refused(file: Path) -> None:
    with pytest.raises(SignatureError, match="no __global__ function named 'gemm@3'"):
        user_kernel(file, UserOptions(entry="gemm@3", block="32", grid="M"))
