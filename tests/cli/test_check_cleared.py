"""Host code that sets C to zero for a kernel that adds to it: all of C, or a part."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

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
