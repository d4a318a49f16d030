"""Host code that sets C to zero for a kernel that adds to it: all of C, or a part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from checking import check

from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.host.cleared import not_cleared
from gemmsmith.verify.verdict import Verdict

KERNEL = """
__global__ void parts(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = blockIdx.z; k < K; k += 2) sum += A[row * K + k] * B[k * N + col];
    atomicAdd(&C[row * N + col], sum);
}
void run(const float* A, const float* B, float* C, int M, int N, int K, cudaStream_t stream) {
    cudaMemsetAsync(C, 0, BYTES, stream);
    parts<<<dim3((N + 7) / 8, (M + 7) / 8, 2), dim3(8, 8)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(
    ("size", "status"),
    [("(size_t)M * N * sizeof(float)", "right"), ("M * N", "wrong"), ("sizes(M, N)", "right")],
)
def test_how_much_of_c_is_cleared(size: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, KERNEL.replace("BYTES", size), capsys, "--m", "16", "--n", "24", "--k", "8")
    assert (code, found["status"]) == (int(status == "wrong"), status), found
    said = " ".join(reason for trial in found["trials"] for reason in trial["reasons"])
    assert ("`cudaMemsetAsync(C, 0, M * N, stream)` sets " in said) == (status == "wrong")


def test_the_bytes_are_counted(tmp_path: Path) -> None:
    spec = user_kernel(_written(tmp_path, "M * N"), UserOptions())
    spec = spec.read_as(replace(spec.signature, accumulates=True), "NN")
    right = replace(spec.signature, accumulates=False)
    like = Verdict("mine", "", spec.problem(8, 8, 8), "sim", "float", "normal", 0, 0.0, 16.0, 0.0, None, None, None, 0,
                   0, 1, False, (), (), "")  # fmt: skip
    found = not_cleared(spec, spec.problem(16, 24, 8), like)
    assert found is not None
    assert "sets 384 of the 1536 bytes of C to zero" in found.reasons[0]
    assert not_cleared(spec.read_as(right, "NN"), spec.problem(16, 24, 8), like) is None


def test_bytes_that_are_enough_for_some_shapes_only(tmp_path: Path) -> None:
    spec = user_kernel(_written(tmp_path, "M * (K < N ? K : N) * 4"), UserOptions())
    spec = spec.read_as(replace(spec.signature, accumulates=True), "NN")
    problem = spec.problem(16, 24, 48)
    like = Verdict("mine", "", problem, "sim", "float", "normal", 0, 0.0, 16.0, 0.0, None, None, None, 0, 0, 1, False,
                   (), (), "")  # fmt: skip
    assert not_cleared(spec, problem, like) is None  # a shape that was asked for
    found = not_cleared(spec, problem, like, free=True)
    assert found is not None
    assert found.problem.k < found.problem.n


def _written(folder: Path, size: str) -> Path:
    path = folder / "mine.cu"
    path.write_text(KERNEL.replace("BYTES", size))
    return path
