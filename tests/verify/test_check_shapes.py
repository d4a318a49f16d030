"""The shapes that check chooses, and the judgement of some blocks alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.trials.check_shapes import check_shapes, sampled_blocks, tile_of_grid

BODY = """
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
"""
FREE = "__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {" + BODY
FIXED = (
    "#define M 1024\n#define N 512\n#define K 32\n__global__ void mine(const float* A, const float* B, float* C) {"
    + BODY
)
NONE = Config(())


@pytest.mark.parametrize("tile", [(16, 16), (32, 64), (128, 128), (96, 48), (256, 128), (8, 8)])
def test_the_tile_is_read_from_the_grid(tile: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(FREE, encoding="utf-8")
    for grid in (
        f"ceil(N/{tile[1]}),ceil(M/{tile[0]})",
        f"N/{tile[1]},M/{tile[0]}",
        f"ceil(N/{tile[1]})*ceil(M/{tile[0]})",
    ):
        spec = user_kernel(tmp_path / "mine.cu", UserOptions(grid=grid, block="16,16"))
        assert tile_of_grid(spec, NONE) == tile
        shapes = check_shapes(spec, NONE)
        assert all(extent % t == 0 for extent, t in zip(shapes.base, tile, strict=False))
        assert all(extent % t == 0 for extent, t in zip(shapes.distinct, tile, strict=False))
        assert len(set(shapes.distinct)) == 3


def test_blocks_of_a_large_fixed_size(tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(FIXED, encoding="utf-8")
    spec = user_kernel(tmp_path / "mine.cu", UserOptions(block="32,32", grid="N/32,M/32"))
    assert check_shapes(spec, NONE).base == (1024, 512, 32)
    assert sampled_blocks(spec, NONE, (1024, 512, 32)) == (0, 257, 511)
    assert sampled_blocks(spec, NONE, (128, 128, 32)) is None
    with pytest.raises(UnsupportedError, match="too long"):
        sampled_blocks(spec, NONE, (1024, 512, 10**6))


def test_only_what_some_blocks_write_is_judged(tmp_path: Path) -> None:
    problem = None
    for change, right in (("", True), ("k < K - 1", False), ("if (row < 0) ", False)):
        source = FIXED.replace("1024", "128").replace("512", "64")
        source = (
            source.replace("k < K", change) if "k <" in change else source.replace("    C[row", f"    {change}C[row")
        )
        (tmp_path / "mine.cu").write_text(source, encoding="utf-8")
        spec = user_kernel(tmp_path / "mine.cu", UserOptions(block="32,32", grid="N/32,M/32"))
        problem = spec.problem(128, 64, 32)
        verdict = verify_launch(SimDevice(), spec, NONE, problem, compile_fn=compile_for, blocks=(0, 7))
        assert verdict.ok == right, (change, verdict)
