"""gemmsmith check of a kernel that adds to C, which a kernel before it sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.cli.verify_run import KernelVerification

_ADDED = """__global__ void start(float* C, const float* bias, int count, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) C[i] = bias[i % N];
}
__global__ void add(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] += sum;
}
void layer(const float* A, const float* B, const float* bias, float* C, int M, int N, int K) {
    start<<<(M * N + 63) / 64, 64>>>(C, bias, M * N, N);
    add<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", 0),
        ("(M * N + 63) / 64, 64", "M * N / 64, 64", 1),  # the rest of C keeps what it held
        ("bias, M * N, N", "bias, (M < 24 ? M : 24) * N, N", 1),  # C beyond row 24
        ("C[i] = bias[i % N]", "C[i] = 1.0f", 0),  # not the product's: C may be any start
    ],
)
def test_what_a_kernel_before_sets(old: str, new: str, expected: int, tmp_path: Path) -> None:
    assert not old or old in _ADDED
    file = tmp_path / "mine.cu"
    file.write_text(_ADDED.replace(old, new) if old else _ADDED)
    trial = ("--strict", "--trial", "a shape that is no multiple of the tile")
    assert run_command(["check", f"{file}:add", "--cures", "0", *trial]) == expected


def test_verify_runs_the_kernel_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails with it is among the verdicts; the cases of the kernel alone are left out here."""
    file = tmp_path / "mine.cu"
    file.write_text(_ADDED.replace("bias, M * N, N", "bias, (M < 64 ? M : 64) * N, N"))
    monkeypatch.setattr(KernelVerification, "_fitted", lambda *_: [])
    monkeypatch.setattr(KernelVerification, "cases", [])
    assert run_command(["verify", f"{file}:add", "--device", "sim"]) == 1
