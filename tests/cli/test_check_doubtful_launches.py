"""gemmsmith check where the launch is guessed, or may be one of another kernel of the same name: a wrong result is then
no verdict on the kernel, unless the launch fits it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command

PROTOTYPE = "__global__ void product(const float* A, const float* B, float* C, int M, int N, int K)"
# One block of 16x16 threads for 32x32 outputs.
COARSE = (
    PROTOTYPE
    + """ {
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    for (int i = 0; i < 32; i += 16)
        for (int j = 0; j < 32; j += 16) {
            float s = 0;
            for (int k = 0; k < K; ++k) s += A[(row + i) * K + k] * B[k * N + col + j];
            C[(row + i) * N + col + j] = s;
        }
}
"""
)
# One block of 24x2 threads for 48x2 outputs: no usual block gives its product.
UNUSUAL = (
    PROTOTYPE
    + """ {
    __shared__ float row_of_a[2][48];
    int row = blockIdx.x * 2 + threadIdx.y, col = blockIdx.y * 48 + threadIdx.x * 2;
    float s = 0, t = 0;
    for (int k0 = 0; k0 < K; k0 += 48) {
        for (int i = 0; i < 2; ++i)
            row_of_a[threadIdx.y][threadIdx.x + 24 * i] = k0 + threadIdx.x + 24 * i < K
                ? A[row * K + k0 + threadIdx.x + 24 * i] : 0;
        __syncthreads();
        for (int k = 0; k < 48 && k0 + k < K; ++k) {
            s += row_of_a[threadIdx.y][k] * B[(k0 + k) * N + col];
            t += row_of_a[threadIdx.y][k] * B[(k0 + k) * N + col + 1];
        }
        __syncthreads();
    }
    C[row * N + col] = s;
    C[row * N + col + 1] = t;
}
"""
)
PLAIN = (
    PROTOTYPE
    + """ {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
"""
)
MAIN = (
    PROTOTYPE
    + """;
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    product<<<dim3(N / 8, M / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""
)


def check(file: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    code = run_command(["check", str(file), "--json", "--cures", "0", *more])
    found = json.loads(capsys.readouterr().out)
    return code, f"{found['error']['message']}; {found['error']['hint']}" if "error" in found else found


def repository(folder: Path, **files: str) -> Path:
    (folder / ".git").mkdir()
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".cu").write_text(text, encoding="utf-8")
    return folder


def test_a_launch_of_a_namesake_is_no_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = repository(tmp_path, main=MAIN, one__k=PLAIN, two__k=COARSE)
    code, found = check(root / "one" / "k.cu", capsys, "--trial", "M, N and K all different")
    assert (code, found["launch"]["block"]) == (0, [8, 8, 1]), found  # it gives a product
    code, found = check(root / "two" / "k.cu", capsys, "--trial", "M, N and K all different")
    assert (code, found["launch"]["block"]) == (0, [16, 16, 1]), found
    assert found["launch"]["source"] == "found by trying"


def test_a_launch_of_a_namesake_is_asked_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = repository(tmp_path, main=MAIN, one__k=PLAIN, two__k=UNUSUAL)
    code, found = check(root / "two" / "k.cu", capsys)
    assert code == 2
    assert "main.cu:3 may launch the kernel of that name in one/k.cu" in found
    assert "--block" in found


def test_includes_decide_which_kernel_a_launch_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = repository(tmp_path, main='#include "two/k.cu"\n' + MAIN, one__k=PLAIN, two__k=UNUSUAL)
    code, found = check(root / "two" / "k.cu", capsys)
    assert (code, found["status"]) == (1, "wrong")


def test_a_folder_decides_which_kernel_a_launch_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = PLAIN.replace("A[row * K + k]", "A[row * K + (k ^ 1)]")
    root = repository(tmp_path, one__main=MAIN, one__k=broken, two__main=MAIN, two__k=PLAIN)
    code, found = check(root / "one" / "k.cu", capsys)
    assert (code, found["status"]) == (1, "wrong")


def test_a_launch_that_nobody_writes_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = repository(tmp_path, k=UNUSUAL)
    code, found = check(root / "k.cu", capsys)
    assert code == 2
    assert "no host code launches it" in found
    assert "blocks of 32x32" in found  # what was tried
    launch = ("--block", "24,2", "--grid", "M/2,N/48", "--m", "48", "--n", "96", "--k", "48")
    code, found = check(root / "k.cu", capsys, *launch, "--trial", "integers, bit for bit")
    assert (code, found["status"]) == (0, "right"), found


@pytest.mark.parametrize("broken", [
    PLAIN.replace("k < K", "k < K - 1"), PLAIN.replace("k < K", "k <= K"),
])  # fmt: skip
def test_a_guess_that_fits_is_a_verdict(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Threads store as many elements as C has: the launch is right, and the kernel wrong."""
    root = repository(tmp_path, k=broken)
    code, found = check(root / "k.cu", capsys)
    assert (code, found["status"]) == (1, "wrong"), found


WRONG_FOR_EVERY_LAUNCH = """__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 1; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(float* A, float* B, float* C) {
    dim3 block(16, 16), grid(2, 2);
    mine<<<grid, block>>>(A, B, C, 32, 32, 16);
}
"""


def test_a_launch_with_numbers_alone_is_no_excuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The grid fits one problem. Another one is guessed, and its blocks store every element of C."""
    (tmp_path / "mine.cu").write_text(WRONG_FOR_EVERY_LAUNCH, encoding="utf-8")
    assert run_command(["check", str(tmp_path / "mine.cu")]) == 1
    assert "without the terms of k = 0" in " ".join(capsys.readouterr().out.split())


def test_work_that_is_divided_along_z_leaves_a_guessed_launch_in_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block stores its part of C, but adds the terms of its own z alone, of which there may be any number."""
    divided = WRONG_FOR_EVERY_LAUNCH.replace("int k = 1; k < K", "int k = blockIdx.z; k < K / 2")
    (tmp_path / "mine.cu").write_text(divided, encoding="utf-8")
    assert run_command(["check", str(tmp_path / "mine.cu")]) == 2
    assert "is not understood" in " ".join(capsys.readouterr().err.split())
