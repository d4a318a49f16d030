"""gemmsmith check says which kernel goes on with a result, and is not judged with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import ONE_OUTPUT_A_THREAD, QUICK, check

HOST = """
__global__ void half_of(const float* T, float* C, int M, int N) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < M * N / 2) C[i] = T[i] - T[i + M * N / 2];
}
void run(const float* A, const float* B, float* C, float* T, int M, int N, int K) {
    mine<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, T, M, N, K);
    AFTER
}
"""


@pytest.mark.parametrize(("after", "said"), [
    ("half_of<<<(M * N / 2 + 255) / 256, 256>>>(T, C, M, N);", ["what half_of at k.cu:16 makes of T is not judged"]),
    ("cudaDeviceSynchronize();", []),
])  # fmt: skip
def test_a_kernel_that_goes_on(after: str, said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, ONE_OUTPUT_A_THREAD + HOST.replace("AFTER", after), capsys, "--entry", "mine", *QUICK)
    assert code == 0, found
    assert [line for line in found["found"] if "not judged" in line] == said
