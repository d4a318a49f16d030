"""Traces of users' kernels: in the layout, with the roles and the memory that ``gemmsmith check`` finds."""

from __future__ import annotations

from pathlib import Path

import pytest

import gemmsmith
from gemmsmith.call.binding import aligned_code
from gemmsmith.compile.compiler import compile_for
from gemmsmith.report.view.data import ownership
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.trace.launch_trace import Array, LaunchTrace
from gemmsmith.trace.recording.record import record_product
from gemmsmith.userfile.kernels.kernel_named import kernel_named
from gemmsmith.verify.meaning.recognise import recognised

NT = """
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[col * K + k];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    mine<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
COLUMN_MAJOR = NT.replace("A[row * K + k] * B[col * K + k]", "A[k * M + row] * B[col * K + k]").replace(
    "C[row * N + col]", "C[col * M + row]"
)
ADDED = """
__global__ void mine(const float* A, const float* B, const float* C, float* D, float alpha, float beta, int M, int N,
                     int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    D[row * N + col] = alpha * sum + beta * C[row * N + col];
}
void run(const float* A, const float* B, const float* C, float* D, float alpha, float beta, int M, int N, int K) {
    mine<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, D, alpha, beta, M, N, K);
}
"""
# The tile passes through an array that is indexed at run time, so that it lies in local memory, and is read by an
# ldmatrix that takes generic addresses.
GENERIC = """
#include <cuda_fp16.h>
__global__ void mine(const half* A, const half* B, half* C, int M, int N, int K) {
    __shared__ half As[16 * 16], Bs[8 * 16];
    int lane = threadIdx.x;
    unsigned d0 = 0, d1 = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        float4 kept[2];
        for (int i = 0; i < 2; ++i)
            kept[(i + K) % 2] = *(const float4*)&A[(blockIdx.y * 16 + lane / 2) * K + k0 + lane % 2 * 8];
        *(float4*)&As[lane / 2 * 16 + lane % 2 * 8] = kept[K / 16 % 2];
        if (lane < 16)
            *(float4*)&Bs[lane / 2 * 16 + lane % 2 * 8] =
                *(const float4*)&B[(blockIdx.x * 8 + lane / 2) * K + k0 + lane % 2 * 8];
        __syncthreads();
        unsigned a0, a1, a2, a3, b0, b1;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3) : "l"(As + lane % 16 * 16 + lane / 16 * 8));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.b16 {%0, %1}, [%2];"
                     : "=r"(b0), "=r"(b1) : "l"(Bs + lane % 8 * 16 + lane / 8 % 2 * 8));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                     : "+r"(d0), "+r"(d1) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        __syncthreads();
    }
    half* out = C + (blockIdx.y * 16 + lane / 4) * N + blockIdx.x * 8 + lane % 4 * 2;
    *(unsigned*)out = d0;
    *(unsigned*)(out + 8 * N) = d1;
}
void run(const half* A, const half* B, half* C, int M, int N, int K) {
    mine<<<dim3(N / 8, M / 16), 32>>>(A, B, C, M, N, K);
}
"""


def _recorded(folder: Path, source: str, shape: tuple[int, int, int]) -> LaunchTrace:
    file = folder / "mine.cu"
    file.write_text(source)
    spec, config = kernel_named(file)
    found = recognised(spec, config, compile_for, "sm_90")
    spec = found.spec
    problem = spec.problem(*shape)
    compiled = compile_for(spec, *aligned_code(spec, config, problem), "sm_90")
    return record_product(spec, config, problem, compiled, title="mine", text_of=lambda _: source,
                          confirmed=found.confirmed)  # fmt: skip


def _by_role(trace: LaunchTrace) -> dict[str, Array]:
    return {array.role: array for array in trace.arrays if array.role}


def _first(trace: LaunchTrace, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The rows and columns of an array that thread 1 consumes."""
    fed = next(each for each in trace.fed if each.array == name)
    return fed.sets[fed.by_thread[1]]


def test_a_transposed_operand_is_drawn_as_the_product_has_it(tmp_path: Path) -> None:
    trace = _recorded(tmp_path, NT, (32, 48, 16))
    b = _by_role(trace)["B"]
    assert (b.name, b.rows, b.columns, b.row_stride, b.column_stride) == ("B", 16, 48, 1, 16)
    assert _first(trace, "B") == (tuple(range(16)), (1,))  # column 1 of B, all of k
    assert "guessed" not in trace.problem


def test_a_layout_that_no_launch_confirms_is_called_a_guess(tmp_path: Path) -> None:
    """A kernel that is wrong may still be looked at, but nobody knows how its matrices lie."""
    wrong = _recorded(tmp_path, NT.replace("k < K", "k < K - 1"), (32, 32, 16))
    assert wrong.problem.get("guessed")
    notice = ownership.build(ViewSubject(wrong))
    assert notice is not None
    assert "--layout" in notice.notice


def test_a_column_major_kernel_is_drawn_by_its_own_names(tmp_path: Path) -> None:
    trace = _recorded(tmp_path, COLUMN_MAJOR, (32, 48, 16))
    found = {role: (each.name, each.rows, each.columns, each.row_stride) for role, each in _by_role(trace).items()}
    assert found == {"A": ("A", 32, 16, 1), "B": ("B", 16, 48, 1), "C": ("C", 32, 48, 1)}
    assert (trace.problem["m"], trace.problem["n"]) == (32, 48)
    assert _first(trace, "A") == ((0,), tuple(range(16)))
    assert _first(trace, "B") == (tuple(range(16)), (1,))


def test_c_and_d_are_two_arrays(tmp_path: Path) -> None:
    trace = _recorded(tmp_path, ADDED, (32, 32, 16))
    places = {array.name: array.address for array in trace.arrays}
    assert list(places) == ["A", "B", "D", "C"]
    assert _by_role(trace)["C"].name == "D"  # the output
    assert all(block.stored for block in trace.blocks)


def test_a_kernel_that_adds_a_c_can_be_profiled(tmp_path: Path) -> None:
    """Without a C of its own it is passed the output, not a null pointer."""
    file = tmp_path / "mine.cu"
    file.write_text(ADDED)
    assert gemmsmith.profile(file, 32, 32, 16).origin == "simulated"


@pytest.mark.parametrize("array", ["A", "B"])
def test_elements_are_followed_through_local_memory_and_generic_ldmatrix(tmp_path: Path, array: str) -> None:
    trace = _recorded(tmp_path, GENERIC, (16, 8, 32))
    wanted = {"A": ((0, 8), tuple(range(32))), "B": (tuple(range(32)), (2, 3))}
    if array == "B":
        assert any("ld.local" in each.ptx for each in trace.instructions)
    assert _first(trace, array) == wanted[array]
