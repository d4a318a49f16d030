"""gemmsmith check of a kernel whose operands other kernels write before, in a layout of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

from gemmsmith.userfile.kernels.rearranged_operands import rearranged_by
from gemmsmith.userfile.kernels.user_kernel import UserOptions, is_product, user_kernel
from gemmsmith.userfile.launches.user_launch import UserLaunch

# Tiles of 16 rows, one k after another in each; rows beyond the last are zeros.
KERNELS = """
#include <cuda_runtime.h>
constexpr int T = 16;
struct Room { float* a; float* b; };
__global__ void pack(const float* src, float* dst, int rows, int K, int down, int right) {
    float* d = dst + (size_t)blockIdx.x * T * K;
    for (int i = threadIdx.x; i < T * K; i += blockDim.x) {
        int row = blockIdx.x * T + i % T, k = i / T;
        d[i] = row < rows ? src[row * down + k * right] : 0.0f;
    }
}
__global__ void cast(const float* src, float* dst, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) dst[i] = src[i];
}
__global__ void fill(float* dst, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) dst[i] = i % 7;
}
__global__ void multiply(const float* a, const float* b, float* C, int M, int N, int K) {
    const float* A = a + (size_t)blockIdx.y * T * K;
    const float* B = b + (size_t)blockIdx.x * T * K;
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[k * T + threadIdx.y] * B[k * T + threadIdx.x];
    if (row < M && col < N) C[row * N + col] = sum;
}
"""
LAUNCH = "multiply<<<dim3((N + T - 1) / T, (M + T - 1) / T), dim3(T, T)>>>"
PACKED = f"""
void gemm(const float* A, const float* B, float* C, float* scratch, int M, int N, int K) {{
    float* pa = scratch;
    float* pb = scratch + (size_t)(M + T - 1) / T * T * K;
    pack<<<(M + T - 1) / T, 128>>>(A, pa, M, K, K, 1);
    pack<<<(N + T - 1) / T, 128>>>(B, pb, N, K, 1, N);
    {LAUNCH}(pa, pb, C, M, N, K);
}}
"""
MEMBERS = f"""
void gemm(const float* A, const float* B, float* C, Room room, int M, int N, int K) {{
    pack<<<(M + T - 1) / T, 128>>>(A, room.a, M, K, K, 1);
    {LAUNCH}(room.a, B, C, M, N, K);
}}
"""
ALLOCATED = f"""
void gemm(const float* A, const float* B, float* C, int M, int N, int K) {{
    float* room;
    cudaMalloc(&room, (N + T) * K * 4);
    pack<<<(N + T - 1) / T, 128>>>(B, room, N, K, 1, N);
    {LAUNCH}(A, room, C, M, N, K);
}}
"""
IN_A_FUNCTION = f"""
static void prepare(const float* from, float* to, int rows, int K) {{
    pack<<<(rows + T - 1) / T, 128>>>(from, to, rows, K, K, 1);
}}
void gemm(const float* A, const float* B, float* C, float* pa, int M, int N, int K) {{
    prepare(A, pa, M, K);
    {LAUNCH}(pa, B, C, M, N, K);
}}
"""
BY_CALLER = f"""
static void run(const float* pa, const float* pb, float* C, int M, int N, int K) {{
    {LAUNCH}(pa, pb, C, M, N, K);
}}
void gemm(const float* A, const float* B, float* C, float* room, int M, int N, int K) {{
    pack<<<(M + T - 1) / T, 128>>>(A, room, M, K, K, 1);
    run(room, B, C, M, N, K);
}}
"""
ELSEWHERE = f"""
void pack_panels(const float* from, float* to, int rows, int K);
void gemm(const float* A, const float* B, float* C, float* room, int M, int N, int K) {{
    pack_panels(A, room, M, K);
    {LAUNCH}(room, B, C, M, N, K);
}}
"""
PLAIN = f"""
void gemm(const float* A, const float* B, float* C, int M, int N, int K) {{
    {LAUNCH}(A, B, C, M, N, K);
}}
"""
OF_OTHERS = PLAIN.replace(f"    {LAUNCH}", f"    pack<<<(M + T - 1) / T, 128>>>(A, C, M, K, K, 1);\n    {LAUNCH}")
CAST = PLAIN.replace(f"    {LAUNCH}", f"    cast<<<M, K>>>(A, room, M * K);\n    {LAUNCH}").replace(
    "(A, B, C, M", "(room, B, C, M"
)
FILLED = PLAIN.replace(f"    {LAUNCH}", f"    fill<<<M, K>>>((float*)A, M * K);\n    {LAUNCH}")
CAST = CAST.replace("float* C, int M", "float* C, float* room, int M")


def _before(folder: Path, host: str) -> str:
    file = folder / "k.cu"
    file.write_text(KERNELS + host, encoding="utf-8")
    launch = user_kernel(file, UserOptions(entry="multiply")).geometry
    assert isinstance(launch, UserLaunch)
    assert launch.site is not None
    return rearranged_by(launch.site.site, launch.site.site.arguments[:2], is_product)


@pytest.mark.parametrize("host", [PACKED, MEMBERS, ALLOCATED, IN_A_FUNCTION, BY_CALLER])
def test_operands_that_a_kernel_packs(host: str, tmp_path: Path) -> None:
    assert _before(tmp_path, host).startswith("pack at k.cu:")


def test_operands_that_a_function_of_another_file_packs(tmp_path: Path) -> None:
    assert _before(tmp_path, ELSEWHERE) == "pack_panels"


@pytest.mark.parametrize("host", [PLAIN, OF_OTHERS, CAST, FILLED])
def test_operands_whose_layout_is_known(host: str, tmp_path: Path) -> None:
    assert _before(tmp_path, host) == ""


@pytest.mark.parametrize("host", [PACKED, MEMBERS])
def test_wrong_on_plain_matrices_is_no_verdict(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = check(tmp_path, KERNELS + host, capsys, "--trial", "random data")
    assert code == 2, error
    assert "its operands are what pack at k.cu" in error


def test_wrong_after_a_cast_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So is a race, whatever the operands are."""
    wrong = KERNELS.replace("A[k * T + threadIdx.y] * B[k * T + threadIdx.x]", "A[k] * B[k] + 1.0f")
    code, found = check(tmp_path, wrong + CAST, capsys, "--trial", "random data")
    assert (code, found["status"]) == (1, "wrong")
