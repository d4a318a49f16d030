"""Launches through the driver: the kernel by its literal name, grid and block from the call."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.userfile.text.source import read_source_file

KERNEL = """extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; k++) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""
HOST = """#include <cuda.h>
#define TILE 8
// cuModuleGetFunction(&kernel, module, "other"); in a comment says nothing
int main() {
    CUmodule module; CUfunction kernel;
    printf("one"); NAMED
    CUdeviceptr dA, dB, dC; int M = 512, N = 256, K = 128;
    void* args[] = {&dA, &dB, &dC, &M, &N, &K};
    CALL
}
"""
CALL = "cuLaunchKernel(kernel, (N + TILE - 1) / TILE, (M + TILE - 1) / TILE, 1, TILE, TILE, 1, 0, 0, args, 0);"
NAMED = 'cuModuleGetFunction(&kernel, module, "matmul");'


def written(folder: Path, named: str = NAMED, call: str = CALL) -> Path:
    (folder / "kernel.cu").write_text(KERNEL)
    host = folder / "main.cpp"
    host.write_text(HOST.replace("NAMED", named).replace("CALL", call))
    return host


@pytest.mark.parametrize(
    "named",
    [
        NAMED,
        'cuModuleGetFunction(\n        &kernel, module,\n        "matmul");',
        'cuModuleGetFunction(&kernel, module, "_Z6matmulPKfS0_Pfiii");',
        'cuLibraryGetKernel(&kernel, library, "matmul");',
    ],
)
def test_the_kernel_is_the_one_that_the_driver_is_asked_for(tmp_path: Path, named: str) -> None:
    (launch,) = read_source_file(written(tmp_path, named)).launches
    assert launch.kernel == "matmul"
    assert launch.configuration == ("dim3((N + TILE - 1) / TILE, (M + TILE - 1) / TILE, 1)", "dim3(TILE, TILE, 1)", "0")
    assert launch.arguments == ("*args",)


def test_a_member_is_known_by_its_own_name(tmp_path: Path) -> None:
    host = written(tmp_path, 'cuModuleGetFunction(&context->gemm, module, "matmul");',
                   CALL.replace("(kernel,", "(context.gemm,"))  # fmt: skip
    assert [launch.kernel for launch in read_source_file(host).launches] == ["matmul"]


@pytest.mark.parametrize("named", ["", "cuModuleGetFunction(&kernel, module, name.c_str());",
                                   f'{NAMED} cuModuleGetFunction(&kernel, module, "another");'])  # fmt: skip
def test_a_kernel_that_cannot_be_named_is_not_guessed(tmp_path: Path, named: str) -> None:
    assert read_source_file(written(tmp_path, named)).launches == ()


def test_check_takes_grid_and_block_from_it(tmp_path: Path) -> None:
    from gemmsmith.userfile.files.project import Project
    from gemmsmith.userfile.launches.launch_site import launch_sites

    (tmp_path / ".git").mkdir()
    written(tmp_path)
    file = tmp_path / "kernel.cu"
    (kernel,) = read_source_file(file).kernels
    site = next(iter(launch_sites(Project(file), kernel)))
    assert site.shown() == "main.cpp:9"
    assert site.configuration[1] == "dim3(TILE, TILE, 1)"
    assert site.arguments == ("dA", "dB", "dC", "M", "N", "K")
