"""Sizes that are made up for a launch: what host code tells and asks for, tiles, and that two sets differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.launches.made_up_launch import MadeUpLaunch, made_up_launch
from gemmsmith.verify.made_up.sizes import SizeSets

KERNEL = """
__global__ void mine(const float* x, float* y, int M, int K, int R, int ld) {
    __shared__ float s[32][33];
    for (int k = 0; k < K; k += 32) { s[threadIdx.x % 32][0] = x[k]; __syncthreads(); }
    for (int r = 0; r < R; ++r) y[r] = s[r][0] + M + ld;
}
"""
LAUNCH = "void run(const float* x, float* y, int M, int K, int R, int ld) {{ {} mine<<<{}>>>(x, y, {}); }}"
NAMES = ("M", "K", "R", "ld")


def made(folder: Path, source: str) -> MadeUpLaunch:
    (folder / "k.cu").write_text(source, encoding="utf-8")
    return made_up_launch(folder / "k.cu", UserOptions(), lambda *_: False)


def launched(folder: Path, checks: str = "", how: str = "M / 32, 128", passed: str = "M, K, R, ld") -> SizeSets:
    return SizeSets(made(folder, KERNEL + LAUNCH.format(checks, how, passed)), NAMES)


def test_tiles_and_all_else(tmp_path: Path) -> None:
    """Four tiles of K, two of the grid; ranks and pitches are small. The second set differs in each."""
    first, (second, *_) = next(launched(tmp_path).pairs())
    assert first == {"M": 128, "K": 256, "R": 16, "ld": 16}
    assert second == {"M": 64, "K": 320, "R": 2, "ld": 2}


@pytest.mark.parametrize(
    ("checks", "name", "is_met"),
    [
        ("if (R > 8) return;", "R", lambda size: size <= 8),
        ("if (M % 96 || K % 128) return;", "K", lambda size: size % 128 == 0),
        ("assert(ld >= K && R == 4);", "ld", lambda size: size >= 256),
    ],
)
def test_conditions_of_host_code_are_met(checks: str, name: str, is_met, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    first, (second, *_) = next(launched(tmp_path, checks).pairs())
    assert is_met(first[name])
    assert is_met(second[name])


def test_a_condition_that_no_size_meets(tmp_path: Path) -> None:
    assert list(launched(tmp_path, "if (K > 0) return;").pairs()) == []


def test_numbers_that_host_code_passes(tmp_path: Path) -> None:
    """They are kept; where it passes all of them one set is enough."""
    sets = launched(tmp_path, passed="M, 512, 24, ld")
    assert all(sizes["K"] == 512 and sizes["R"] == 24 for sizes, _ in sets.pairs())
    assert not sets.all_told
    assert launched(tmp_path, passed="96, 512, 24, 100").all_told


def test_one_variable_for_two_numbers(tmp_path: Path) -> None:
    first, _ = next(launched(tmp_path, passed="M, K, R, K").pairs())
    assert first["ld"] == first["K"]


def test_a_block_that_a_comment_calls_blocks_is_the_grid(tmp_path: Path) -> None:
    launch = made(tmp_path, KERNEL + "// threads(128), blocks(ceil(M / 32))\n")
    with pytest.raises(UsageError):
        launch.geometry(dict.fromkeys(NAMES, 64))


def test_a_block_that_nothing_tells_is_not_made_up(tmp_path: Path) -> None:
    """A number of threads that a call returns might be anything."""
    sets = launched(tmp_path, "int threads = choose(M);", "M / 32, threads")
    with pytest.raises(UsageError):
        sets.launch.geometry(dict.fromkeys(NAMES, 64))


def test_a_grid_that_nothing_tells_is_a_few_blocks(tmp_path: Path) -> None:
    launch = made(
        tmp_path, KERNEL.replace("+ ld", "+ ld + blockIdx.x") + "// block 128, grid (ceil(longest row / 8))\n"
    )
    assert launch.geometry(dict.fromkeys(NAMES, 64)).grid == (2, 1, 1)
