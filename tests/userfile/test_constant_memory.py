"""Sizes in constant memory that host code sets: they become parameters in a copy of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.errors import GemmsmithError
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.host.meant_shapes import means_rectangles

SOURCE = """
struct Extents { int rows, cols, inner; };
DECLARED
__global__ void product(const float* A, const float* B, float* C) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;
    if (i >= ROWS || j >= COLS) return;
    float sum = 0.f;
    for (int k = 0; k < INNER; ++k) sum += A[i * INNER + k] * B[k * COLS + j];
    C[i * COLS + j] = sum;
}
MORE
void run(const float* A, const float* B, float* C, int rows, int cols, int inner) {
    HOST
    product<<<dim3((cols + 7) / 8, (rows + 7) / 8), dim3(8, 8)>>>(A, B, C);
}
"""
STRUCT = {
    "DECLARED": "__constant__ Extents ext;", "ROWS": "ext.rows", "COLS": "ext.cols", "INNER": "ext.inner",
    "HOST": "Extents e = {rows, cols, inner}; cudaMemcpyToSymbol(ext, &e, sizeof(e));",
}  # fmt: skip
NUMBERS = {
    "DECLARED": "__constant__ int dM, dN, dK;", "ROWS": "dM", "COLS": "dN", "INNER": "dK",
    "HOST": "cudaMemcpyToSymbol(dM, &rows, 4); cudaMemcpyToSymbol(dN, &cols, 4); cudaMemcpyToSymbol(dK, &inner, 4);",
}  # fmt: skip

ARRAY = {
    "DECLARED": "__constant__ int dims[3];", "ROWS": "dims[0]", "COLS": "dims[1]", "INNER": "dims[2]",
    "HOST": "int h[3] = {rows, cols, inner}; cudaMemcpyToSymbol(dims, h, sizeof(h));",
}  # fmt: skip


def written(folder: Path, parts: dict[str, str], more: str = "") -> Path:
    text = SOURCE.replace("MORE", more)
    for name, value in parts.items():
        text = text.replace(name, value)
    path = folder / "mine.cu"
    path.write_text(text)
    return path


@pytest.mark.parametrize("parts", [STRUCT, NUMBERS])
def test_they_are_extents(parts: dict[str, str], tmp_path: Path) -> None:
    spec = user_kernel(written(tmp_path, parts), UserOptions())
    assert {arg.role for arg in spec.signature.arguments} == {"A", "B", "C", "M", "N", "K"}
    assert spec.geometry(spec.problem(16, 24, 8), spec.config()).grid == (3, 2, 1)
    assert means_rectangles(spec)


def test_what_a_device_function_reads_stays_where_it_is(tmp_path: Path) -> None:
    more = "__device__ int inside(int i) { return i < ext.rows; }"
    with pytest.raises(GemmsmithError, match="takes no M, N or K"):
        user_kernel(written(tmp_path, STRUCT, more), UserOptions())


def test_elements_of_an_array_are_parameters(tmp_path: Path) -> None:
    spec = user_kernel(written(tmp_path, ARRAY), UserOptions())
    assert [arg.name for arg in spec.signature.arguments] == ["A", "B", "C", "dims_0", "dims_1", "dims_2"]
    assert [arg.role for arg in spec.signature.arguments[3:]] == ["M", "N", "K"]
    assert "const int dims[3] = {dims_0, dims_1, dims_2};" in spec.edited[0][1]


def test_integers_in_one_of_cudas_vectors(tmp_path: Path) -> None:
    text = SOURCE.replace("float* C)", "float* C, int3 s)").replace("ROWS", "s.x").replace("COLS", "s.y").replace(
        "INNER", "s.z").replace("(A, B, C);", "(A, B, C, make_int3(rows, cols, inner));")  # fmt: skip
    file = tmp_path / "mine.cu"
    file.write_text(text.replace("DECLARED", "").replace("MORE", "").replace("HOST", ""))
    spec = user_kernel(file, UserOptions())
    assert [arg.name for arg in spec.signature.arguments] == ["A", "B", "C", "s.x", "s.y", "s.z"]
    assert [arg.at_launch for arg in spec.signature.arguments[3:]] == ["rows", "cols", "inner"]
