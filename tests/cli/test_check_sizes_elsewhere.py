"""Sizes behind a pointer to a struct or in an array of one, and strides that only their use tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.kernel.axis_strides import batch_stride_by_use

KERNEL = """
TYPE
__global__ void gemm(const float* A, const float* B, float* C, SIZES) {
    READ
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * PITCH + k] * B[k * N + col];
    C[row * N + col] = sum;
}
LAUNCH
"""
RUN = "void run(const float* A, const float* B, float* C, int M, int N, int K, int batch) {"
GRID = "gemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, "
DIMS = "struct Dims { int m, n, k; };"
MNK = "int M = d->m, N = d->n, K = d->k;"
# The type, the parameters, how the kernel reads them, host code.
TAKEN = {
    "a pointer to a struct": (DIMS, "const Dims* __restrict__ d", MNK, f"{RUN} Dims h{{M, N, K}}; Dims* d;"
                              f" cudaMemcpy(d, &h, sizeof h, cudaMemcpyHostToDevice); {GRID}d); }}"),
    "a pointer to a vector": ("", "const int3* d", "int M = d->x, N = (*d).y, K = d->z;",
                              f"{RUN} int3* d;{GRID}d); }}"),
    "an array": ("struct Sizes { int v[3]; };", "Sizes s", "int M = s.v[0], N = s.v[1], K = s.v[2];",
                 f"{RUN} Sizes s = {{{{M, N, K}}}}; {GRID}s); }}"),
    "batch strides": ("", "int M, int N, int K, int p, int q, int r",
                      "size_t z = blockIdx.z; A += z * p; B += z * q; C += z * r;",
                      f"{RUN} dim3 g((N + 15) / 16, (M + 15) / 16, batch); gemm<<<g, dim3(16, 16)>>>("
                      "A, B, C, M, N, K, M * K, K * N, M * N); }"),
}  # fmt: skip


def checked(folder: Path, case: str, pitch: str, *options: str) -> int:
    kind, sizes, read, launch = TAKEN[case]
    text = KERNEL.replace("TYPE", kind).replace("SIZES", sizes).replace("READ", read).replace("LAUNCH", launch)
    (folder / "k.cu").write_text(text.replace("PITCH", pitch))
    return run_command(["check", str(folder / "k.cu"), "--cures", "0", *options])


@pytest.mark.parametrize("case", TAKEN)
def test_the_sizes_are_understood(tmp_path: Path, case: str) -> None:
    assert checked(tmp_path, case, "K", "--trial", "random data") == 0


@pytest.mark.parametrize("case", TAKEN)
def test_a_wrong_kernel_is_wrong(tmp_path: Path, case: str) -> None:
    assert checked(tmp_path, case, "N") == 1


def test_an_int_is_given_no_stride_that_it_does_not_hold(tmp_path: Path) -> None:
    assert checked(tmp_path, "batch strides", "K") == 0


def test_an_array_of_structs_is_no_struct_of_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = KERNEL.replace("TYPE", DIMS).replace("SIZES", "const Dims* d, int i").replace("LAUNCH", "")
    (tmp_path / "k.cu").write_text(
        text.replace("READ", "int M = d[i].m, N = d[i].n, K = d[i].k;").replace("PITCH", "K")
    )
    assert run_command(["check", str(tmp_path / "k.cu"), "--cures", "0"]) == 2
    assert "by value" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("A += blockIdx.z * p; x = A[0];", "strideA"),
        ("const int z = blockIdx.z; const float* a = A + (long)z * p;", "strideA"),
        ("x = A[blockIdx.z * p + k];", "strideA"),
        ("A += blockIdx.z * p; B += blockIdx.z * p;", ""),
        ("A += blockIdx.z * p; x = A[row * p];", ""),
        ("A += blockIdx.y * p;", ""),
    ],
)
def test_a_batch_stride_by_use(body: str, role: str) -> None:
    assert batch_stride_by_use("p", {"A": "A", "B": "B", "C": "C"}, body) == role
