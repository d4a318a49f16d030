"""gemmsmith check of kernels whose sizes host code keeps in arrays, in fields of structs, or beside a pitch."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import ONE_OUTPUT_A_THREAD, check

from gemmsmith.kernel.other_readings import readings
from gemmsmith.kernel.roles import recognise
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

IN_ARRAYS = (
    ONE_OUTPUT_A_THREAD
    + """
void run(const float* A, const float* B, float* C, const int* left, const int* right) {
    dim3 block(16, 16), grid((COLUMNS + 15) / 16, (left[0] + 15) / 16);
    mine<<<grid, block>>>(A, B, C, left[0], right[1], left[1]);
}
"""
)


@pytest.mark.parametrize(("columns", "blocks"), [("right[1]", 4), ("left[1]", 2)])
def test_a_grid_of_elements_of_arrays_is_read(columns: str, blocks: int, tmp_path: Path) -> None:
    """The second has K's columns: where N is larger nothing is written beyond them."""
    path = tmp_path / "k.cu"
    path.write_text(IN_ARRAYS.replace("COLUMNS", columns), encoding="utf-8")
    spec = user_kernel(path, UserOptions())
    assert spec.geometry(Problem(16, 64, 32), spec.config()).grid == (blocks, 1, 1)


IN_FIELDS = """
#define DEEP 64
#define T 8
struct Mat { int rows, cols, stride; float* at; };
__global__ void mine(Mat a, Mat b, Mat c) {
    __shared__ float left[T][T], right[T][T];
    int y = threadIdx.y, x = threadIdx.x;
    float sum = 0;
    for (int t = 0; t < DEEP / T; ++t) {
        left[y][x] = a.at[(blockIdx.y * T + y) * a.stride + t * T + x];
        right[y][x] = b.at[(t * T + y) * b.stride + blockIdx.x * T + x];
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    c.at[(blockIdx.y * T + y) * c.stride + blockIdx.x * T + x] = sum;
}
int main() {
    Mat a, b, c;
    a.rows = DEEP; a.cols = DEEP; a.stride = DEEP;
    b.rows = DEEP; b.cols = DEEP; b.stride = DEEP;
    c.rows = DEEP; c.cols = DEEP; c.stride = DEEP;
    dim3 block(T, T), grid(DEEP / T, DEEP / T);
    mine<<<grid, block>>>(a, b, c);
}
"""


def test_fields_that_are_set_to_the_constant_of_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is judged at the sizes of its file; the tile's side, which indices multiply with, is no pitch."""
    code, found = check(tmp_path, IN_FIELDS, capsys, "--trial", "integers, bit for bit")
    assert (code, found["status"]) == (0, "right"), found
    assert any("M=64, N=64, K=64" in line for line in found["found"]), found["found"]


PITCHED = """
__global__ void mine(const float* a, const float* b, float* out, int size, int stride) {
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < size; row += gridDim.y * blockDim.y)
        for (int col = blockIdx.x * blockDim.x + threadIdx.x; col < size; col += gridDim.x * blockDim.x) {
            float sum = 0;
            for (int k = 0; k < size; ++k) sum += a[row * stride + k] * b[k * stride + col];
            out[row * stride + col] = sum;
        }
}
"""


def test_a_side_beside_a_pitch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are padded, too: one pitch is that of all three matrices."""
    small = ("--m", "16", "--n", "16", "--k", "16", "--trial", "padded rows")
    code, found = check(tmp_path, PITCHED, capsys, *small)
    assert (code, found["status"]) == (0, "right"), found
    for right, wrong in (("b[k * stride", "b[k * size"), ("out[row * stride", "out[row * size")):
        code, found = check(tmp_path, PITCHED.replace(right, wrong), capsys, *small)
        assert (code, found["status"]) == (1, "wrong"), (wrong, found)


def test_two_sizes_are_a_side_and_a_pitch_by_name_alone() -> None:
    pointers = [("const float*", "A"), ("const float*", "B"), ("float*", "C")]
    for name, told in (("stride", True), ("depth", False)):
        signature = recognise("mine", [*pointers, ("int", "size"), ("int", name)])
        assert any(each.square for each in readings(signature)) == told, name


ONE_SIZE = (
    ONE_OUTPUT_A_THREAD
    + """
int main() {
    float *A, *B, *C;
    int rows = 96, cols = 80, inner = INNER;
    dim3 block(16, 16), grid(cols / 16, inner / 16);
    mine<<<grid, block>>>(A, B, C, rows, cols, inner);
}
"""
)


@pytest.mark.parametrize(("inner", "only"), [("64", ""), ("96", "M = 96")])
def test_a_grid_of_the_inner_size_is_for_no_rows_where_host_code_has_more(
    inner: str, only: str, tmp_path: Path
) -> None:
    """A grid for 96 rows excuses that others are not written; one for 64 of the 96 rows is wrong as launched."""
    path = tmp_path / "k.cu"
    path.write_text(ONE_SIZE.replace("INNER", inner), encoding="utf-8")
    assert getattr(user_kernel(path, UserOptions()).geometry, "one_extent", None) == only
