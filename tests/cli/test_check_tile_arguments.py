"""Kernels that take the side of their tile as a parameter: host code tells its value, and what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

from gemmsmith.kernel.role_names import is_side_of_tile
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

SQUARE = """
__global__ void multiply(const float* x, const float* y, float* z, int N, int edge, size_t first) {
    extern __shared__ char memory[];
    float *left = (float*)memory, *right = (float*)(memory + first);
    int row = blockIdx.y * edge + threadIdx.y, col = blockIdx.x * edge + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (N + edge - 1) / edge; ++t) {
        int i = t * edge + threadIdx.x, j = t * edge + threadIdx.y;
        left[threadIdx.y * edge + threadIdx.x] = row < N && i < N ? x[row * N + i] : 0;
        right[threadIdx.y * edge + threadIdx.x] = col < N && j < N ? y[j * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < edge; ++k) sum += left[threadIdx.y * edge + k] * right[k * edge + threadIdx.x];
        __syncthreads();
    }
    if (row < N && col < N) z[row * N + col] = sum;
}
int main() {
    int edges[] = {8, 16, 32};
    float *x, *y, *z;
    int N = 1 << 9;
    for (int i = 0; i < 3; ++i) {
        int edge = edges[i];
        dim3 threads(edge, edge), blocks((N + edge - 1) / edge, (N + edge - 1) / edge);
        size_t bytes = edge * edge * sizeof(float);
        multiply<<<blocks, threads, 2 * bytes>>>(x, y, z, N, edge, edge * edge * sizeof(float));
    }
}
"""


def test_the_tile_and_the_bytes_of_its_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = check(tmp_path, SQUARE, capsys, "--trial", "random data")
    assert found["status"] == "right"
    assert any("edge 8" in line for line in found["launch"]["found"]), found["launch"]["found"]
    assert any("first 256" in line for line in found["launch"]["found"])
    code, _ = check(tmp_path, SQUARE.replace("right[k * edge + threadIdx.x]", "right[threadIdx.x * edge + k]"), capsys)
    assert code != 0


def test_a_size_that_numbers_outputs_is_no_tile(tmp_path: Path) -> None:
    """``n / cols`` of a thread's own number tells the row; the block may well grow with it."""
    (tmp_path / "k.cu").write_text("""
__global__ void multiply(const float* x, const float* y, float* z, int deep, int p, int q) {
    int n = blockIdx.x * blockDim.x + threadIdx.x, row = n / q, col = n % q;
    float sum = 0;
    for (int k = 0; k < deep; ++k) sum += x[row * deep + k] * y[k * q + col];
    if (n < p * q) z[n] = sum;
}
int main() {
    const int p = 24, q = 32, deep = 16;
    float *x, *y, *z;
    multiply<<<p, q>>>(x, y, z, deep, p, q);
}
""")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    assert not [arg.role for arg in spec.signature.arguments if arg.role.isdecimal()]


@pytest.mark.parametrize(
    ("body", "is_side"),
    [
        ("int row = blockIdx.y * bs + threadIdx.y;", True),
        ("for (int t = 0; t < (K + bs - 1) / bs; ++t)", True),
        ("if (blockIdx.z >= bs) return;", False),
        ("int b = i / (M * N); if (b < bs) A += b * M * K;", False),
    ],
)
def test_bs_is_a_tile_or_a_batch(body: str, is_side: bool) -> None:
    assert is_side_of_tile("bs", body) == is_side


def test_a_tile_that_is_named_bs(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SQUARE.replace("edges", "sides").replace("edge", "bs"))
    roles = {arg.name: arg.role for arg in user_kernel(tmp_path / "k.cu", UserOptions()).signature.arguments}
    assert roles["bs"] == "8"
