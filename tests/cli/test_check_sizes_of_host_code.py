"""gemmsmith check of kernels whose sizes host code keeps in arrays, in fields of structs, or beside a pitch."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import ONE_OUTPUT_A_THREAD, check

from gemmsmith.kernel.other_readings import readings
from gemmsmith.kernel.roles import recognise

IN_ARRAYS = ONE_OUTPUT_A_THREAD + """
void run(const float* A, const float* B, float* C, const int* left, const int* right) {
    dim3 block(16, 16), grid((COLUMNS + 15) / 16, (left[0] + 15) / 16);
    mine<<<grid, block>>>(A, B, C, left[0], right[1], left[1]);
}
"""


def test_a_grid_of_elements_of_arrays_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its columns are K's: beyond them nothing is written."""
    narrow = ("--m", "16", "--n", "64", "--k", "16", "--trial", "integers, bit for bit")
    code, found = check(tmp_path, IN_ARRAYS.replace("COLUMNS", "right[1]"), capsys, *narrow)
    assert (code, found["launch"]["grid"]) == (0, [4, 1, 1]), found
    code, found = check(tmp_path, IN_ARRAYS.replace("COLUMNS", "left[1]"), capsys, *narrow)
    assert (code, found["status"], found["launch"]["grid"]) == (1, "wrong", [1, 1, 1]), found


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
    assert any("judged at M=64, N=64, K=64 alone" in line for line in found["found"]), found["found"]


PITCHED = """
__global__ void mine(const float* a, const float* b, float* out, int size, int stride) {
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < size; row += gridDim.y * blockDim.y)
        for (int col = blockIdx.x * blockDim.x + threadIdx.x; col < size; col += gridDim.x * blockDim.x) {
            float sum = 0;
            for (int k = 0; k < LAST; ++k) sum += a[row * stride + k] * b[k * stride + col];
            out[row * stride + col] = sum;
        }
}
"""


@pytest.mark.parametrize(("last", "status"), [("size", "right"), ("size - 1", "wrong")])
def test_a_side_beside_a_pitch(last: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = check(tmp_path, PITCHED.replace("LAST", last), capsys, "--trial", "random data")
    assert found["status"] == status, found


def test_two_sizes_are_a_side_and_a_pitch_by_name_alone() -> None:
    pointers = [("const float*", "A"), ("const float*", "B"), ("float*", "C")]
    for name, told in (("stride", True), ("depth", False)):
        signature = recognise("mine", [*pointers, ("int", "size"), ("int", name)])
        assert any(each.square for each in readings(signature)) == told, name


ONE_SIZE = ONE_OUTPUT_A_THREAD + """
int main() {
    float *A, *B, *C;
    int rows = 96, cols = 80, inner = INNER;
    dim3 block(16, 16), grid(cols / 16, inner / 16);
    mine<<<grid, block>>>(A, B, C, rows, cols, inner);
}
"""


def test_a_grid_of_the_inner_size_is_wrong_where_host_code_has_more_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, ONE_SIZE.replace("INNER", "64"), capsys)
    assert (code, found["status"]) == (1, "wrong"), found
    code, found = check(tmp_path, ONE_SIZE.replace("INNER", "96"), capsys)
    assert code == 2
    assert "launches it for M = 96 alone" in found
