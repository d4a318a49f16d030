"""Kernels whose sizes are constants, with rows that are padded by a constant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.fixed_extents import padded_rows
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

PADDED = """
constexpr int M = 250, N = 300, K = 270;
constexpr int K_PAD = (K + 3) / 4 * 4;
constexpr int N_PAD = (N + 15) / 16 * 16;
__global__ void product(const float* a, const float* b, float* c) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[row * K_PAD + k] * b[k * N_PAD + col];
    c[row * N_PAD + col] = sum;
}
"""


def test_they_are_refused(tmp_path: Path) -> None:
    """They were called wrong: the matrices that are made have no padding."""
    (tmp_path / "mine.cu").write_text(PADDED)
    with pytest.raises(SignatureError, match=r"K_PAD = 272 elements apart") as refused:
        user_kernel(tmp_path / "mine.cu", UserOptions())
    assert "-DK=1024" in str(refused.value.hint)


def test_sizes_that_need_no_padding_are_taken(tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(PADDED)
    sizes = tuple((name, "256") for name in "MNK")
    assert dict(user_kernel(tmp_path / "mine.cu", UserOptions(defines=sizes)).signature.fixed)["K"] == 256


@pytest.mark.parametrize("name", ["TILE_PAD", "SMEM_STRIDE", "PADS", "K_BLOCKS"])
def test_other_constants_are_no_padding(name: str) -> None:
    fixed = (("M", 1024), ("N", 1024), ("K", 1024))
    assert not padded_rows(fixed, {name: 132 if "_" in name and name != "K_BLOCKS" else 1028}, f"a[row * {name}]")


OTHER = """
#define OUT_STRIDE 260
constexpr int M = 256, N = 256, K = 256;
__global__ void pad(const float* c, float* image) { image[blockIdx.x * OUT_STRIDE + threadIdx.x] = c[threadIdx.x]; }
__global__ void product(const float* a, const float* b, float* c) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];
    c[row * N + col] = sum;
}
"""


def test_a_pitch_of_another_kernel_is_none_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(OTHER)
    assert dict(user_kernel(tmp_path / "mine.cu", UserOptions(entry="product")).signature.fixed)["K"] == 256


@pytest.mark.parametrize("definition", ["#define AT(r, c) ((r) * OUT_STRIDE + (c))",
                                        "__device__ int AT(int r, int c) { return r * OUT_STRIDE + c; }"])  # fmt: skip
def test_a_pitch_that_a_macro_or_a_function_has(definition: str, tmp_path: Path) -> None:
    source = OTHER.replace("constexpr", f"{definition}\nconstexpr").replace("a[row * K + k]", "a[AT(row, k)]")
    (tmp_path / "mine.cu").write_text(source)
    with pytest.raises(SignatureError, match=r"OUT_STRIDE = 260 elements apart"):
        user_kernel(tmp_path / "mine.cu", UserOptions(entry="product"))
