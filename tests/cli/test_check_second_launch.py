"""gemmsmith check launches a kernel twice where the first launch leaves something that nobody sets back."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

KERNEL = """
DECLARED
__global__ void mm(const float* A, const float* B, float* C, float* partial, TAKEN int M, int N, int K) {
    __shared__ bool last;
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x, part = (K + 3) / 4;
    float sum = 0.f;
    if (row < M && col < N) {
        int first = blockIdx.z * part, end = min(K, first + part);
        for (int k = first; k < end; ++k) sum += A[row * K + k] * B[k * N + col];
        partial[(blockIdx.z * M + row) * N + col] = sum;
    }
    __threadfence();
    __syncthreads();
    unsigned* ticket = &tickets[blockIdx.y * gridDim.x + blockIdx.x];
    if (threadIdx.x == 0 && threadIdx.y == 0) last = atomicAdd(ticket, 1) == 3;
    __syncthreads();
    if (last) {
        __threadfence();
        if (row < M && col < N) {
            float total = 0.f;
            for (int z = 0; z < 4; ++z) total += __ldcg(&partial[(z * M + row) * N + col]);
            C[row * N + col] = total;
        }
        RESET
    }
}
"""
LAUNCH = """
void run(const float* A, const float* B, float* C, float* partial, PASSED int M, int N, int K) {
    dim3 grid((N + 15) / 16, (M + 15) / 16, 4);
    EACH
    mm<<<grid, dim3(16, 16)>>>(A, B, C, partial, GIVEN M, N, K);
}
"""
MAIN = """
int main() {
    int M = 512, N = 512, K = 512;
    float *A, *B, *C, *partial;
    unsigned* tickets;
    cudaMalloc(&A, 4 * M * K); cudaMalloc(&B, 4 * K * N); cudaMalloc(&C, 4 * M * N);
    cudaMalloc(&partial, 16 * M * N);
    cudaMalloc(&tickets, 4 * (M / 16) * (N / 16));
    cudaMemset(tickets, 0, 4 * (M / 16) * (N / 16));
    RUNS
}
"""
RUN = "run(A, B, C, partial, tickets, M, N, K);"
OF_MODULE = {"DECLARED": "__device__ unsigned tickets[65536];", "TAKEN": "", "PASSED": "", "GIVEN": ""}
OF_HOST = {"DECLARED": "", "TAKEN": "unsigned* tickets,", "PASSED": "unsigned* tickets,", "GIVEN": "tickets,"}
RESET = "if (threadIdx.x == 0 && threadIdx.y == 0) *ticket = 0;"


def source(words: dict[str, str], reset: str, each: str, runs: str) -> str:
    text = KERNEL + LAUNCH + (MAIN if runs else "")
    for word, code in {**words, "RESET": reset, "EACH": each, "RUNS": runs}.items():
        text = text.replace(word, code)
    return text


@pytest.mark.parametrize(("words", "reset", "each", "runs", "is_right"), [
    (OF_MODULE, "", "", "", False),
    (OF_MODULE, RESET, "", "", True),
    (OF_MODULE, "", "unsigned zeros[65536] = {}; cudaMemcpyToSymbol(tickets, zeros, sizeof(zeros));", "", True),
    (OF_HOST, "", "", RUN, True),
    (OF_HOST, "", "", f"{RUN} {RUN}", False),
    (OF_HOST, "", "", f"for (int i = 0; i < 10; ++i) {RUN}", False),
    (OF_HOST, RESET, "", f"for (int i = 0; i < 10; ++i) {RUN}", True),
    (OF_HOST, "", "cudaMemset(tickets, 0, 4 * grid.x * grid.y);", f"for (int i = 0; i < 10; ++i) {RUN}", True),
])  # fmt: skip
def test_tickets(
    words: dict[str, str], reset: str, each: str, runs: str, is_right: bool, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    code, found = check(tmp_path, source(words, reset, each, runs), capsys)
    assert (code == 0, found["status"]) == (is_right, "right" if is_right else "wrong"), found


def test_the_reason_names_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = check(tmp_path, source(OF_MODULE, "", "", ""), capsys)
    assert "the second finds what it left in tickets" in str(found), found


def test_a_file_beside_it_that_has_its_own_function_is_no_caller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.cu").write_text(source(OF_HOST, RESET, "", f"{RUN} {RUN}"))
    code, found = check(tmp_path, source(OF_HOST, "", "", RUN), capsys)
    assert (code, found["status"]) == (0, "right"), found
