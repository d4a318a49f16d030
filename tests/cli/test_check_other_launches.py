"""gemmsmith check on launches and kernels that are not what they seem: values from lists and from callers, launches
that round down or confuse M and N, kernels for a part of C, products with a vector, instructions of newer GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

QUICK = ("--trial", "M, N and K all different", "--cures", "0")


SIMPLE = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_a_launch_for_any_size_that_rounds_down_is_wrong_beside_guards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, SIMPLE.replace("(N + 15) / 16, (M + 15) / 16", "N / 16, M / 16"), capsys)
    assert (code, found["status"]) == (1, "wrong")
    code, found = check(tmp_path, SIMPLE.replace("col >= N", "col > N"), capsys, "--cures", "0")
    assert (code, found["status"]) == (1, "wrong")  # there its guard is at fault


LISTED = """
struct Tiles { int rows, columns; };
template <int R, int C_> __global__ void k(const float* A, const float* B, float* C, int M, int N, int K, int width) {
    int row = blockIdx.y * R + threadIdx.x / width, col = blockIdx.x * C_ + threadIdx.x % width;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
template <int R, int C_>
void launch(const float*, const float*, float*, int M, int N, int K, dim3 grid, int width, cudaStream_t stream = 0);
template <int R, int C_>
void launch(const float* A, const float* B, float* C, int M, int N, int K, dim3 grid, int width, cudaStream_t stream) {
    k<R, C_><<<grid, R * C_, 0, stream>>>(A, B, C, M, N, K, width);
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr Tiles tiles = LIST;
    constexpr int width = 32;
    dim3 grid((N + tiles.columns - 1) / tiles.columns, (M + tiles.rows - 1) / tiles.rows);
    launch<tiles.rows, tiles.columns>(A, B, C, M, N, K, grid, width);
}
"""


@pytest.mark.parametrize("given", ["{8, 32}", "{.rows = 8, .columns = 32}", "Tiles{8, 32}"])
def test_template_values_in_a_list_and_arguments_of_callers(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last parameter of ``launch`` has its default in a prototype; ``width`` is no extent beside N."""
    code, found = check(tmp_path, LISTED.replace("LIST", given), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert (found["entry"], found["launch"]["block"]) == ("k<8, 32>", [256, 1, 1])


CROSSED = """
__global__ void k(const float* A, const float* B, float* C, int N, int M, int K) {
    int row = blockIdx.y * 32 + threadIdx.x / 16, col = blockIdx.x * 16 + threadIdx.x % 16;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3(N / 16, M / 32), 512>>>(A, B, C, M, N, K);
}
"""


def test_a_launch_that_passes_m_for_n_tells_the_tile_by_squares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, CROSSED, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found


PART = """
__global__ void edge(const float* A, const float* B, float* C, int M, int N, int K, int first) {
    int row = blockIdx.y * 16 + threadIdx.y, col = (first + blockIdx.x) * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    edge<<<dim3(1, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, N / 16);
}
"""


def test_a_kernel_for_a_part_of_c_is_no_wrong_product(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = check(tmp_path, PART, capsys, "--cures", "0")
    assert code == 2
    assert "with the first that its launch passes it may compute only a part of C" in said


VECTOR = """
__global__ void NAME(const float* A, const float* x, float* y, int M, int N) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M) return;
    float s = 0;
    for (int j = 0; j < N; ++j) s += A[row * N + j] * x[j];
    y[row] = s;
}
"""


@pytest.mark.parametrize("name", ["gemv", "product"])
def test_a_product_with_a_vector_is_told_how_to_launch(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = check(tmp_path, VECTOR.replace("NAME", name), capsys)
    assert code == 2
    assert f"{name} multiplies a matrix and a vector (A and x)" in said
    args = said.partition("--args '")[2].partition("'")[0]
    (tmp_path / "right.py").write_text("def right(A, x, **_): return {'y': A @ x}\n", encoding="utf-8")
    words = ("--args", args, "--grid", "1", "--block", "256", "--expect", f"{tmp_path}/right.py:right")
    assert check(tmp_path, VECTOR.replace("NAME", name), capsys, *words)[0] == 0


OPEN = """
__global__ void forward(float* out, const float* inp, const float* weight, int C, int OC) {
    int row = blockIdx.x * 96 + threadIdx.x * 6, oc = blockIdx.y * 96 + threadIdx.y * 6;
    float s[6][6] = {};
    for (int c = 0; c < C; ++c)
        for (int i = 0; i < 6; ++i)
            for (int j = 0; j < 6; ++j) s[i][j] += inp[(row + i) * C + c] * weight[(oc + j) * C + c];
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 6; ++j) out[(row + i) * OC + oc + j] = s[i][j];
}
void run(float* out, const float* inp, const float* weight, int B, int T, int C, int OC) {
    forward<<<dim3(B * T / 96, OC / 96), dim3(16, 16)>>>(out, inp, weight, C, OC);
}
"""


def test_roles_that_are_tried_get_the_shapes_of_their_launch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, OPEN, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert "found by trying: C is K, OC is N" in found["found"]


def test_code_for_newer_gpus_only_is_compiled_for_an_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = """float s = 0;
#if __CUDA_ARCH__ >= 900
    if (K < 0) asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(s) : "l"(A));
#endif"""
    code, found = check(tmp_path, SIMPLE.replace("float s = 0;", newer), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right")
    assert any("it is compiled for sm_80, since the simulator does not know" in line for line in found["found"])
    code, said = check(tmp_path, SIMPLE.replace("float s = 0;", newer.replace("900", "800")), capsys, *QUICK)
    assert code == 2
    assert "multimem.ld_reduce" in said
