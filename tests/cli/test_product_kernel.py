"""Commands that do not judge a kernel find its roles and its launch as ``gemmsmith check`` does."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_output import Say

# 256 threads make 64x64 of C; numbers stand in the code, and no launch in the file.
TILES = """
__global__ void tiles({sizes}, const float* A, const float* B, float* C) {{
    __shared__ float As[16][64], Bs[16][64];
    int t = threadIdx.x, tx = t % 16, ty = t / 16, row0 = blockIdx.x * 64, col0 = blockIdx.y * 64;
    float acc[4][4] = {{}};
    for (int k0 = 0; k0 < {k}; k0 += 16) {{
        for (int i = t; i < 1024; i += {step}) {{
            int r = i / 16, c = i % 16, p = i / 64, q = i % 64;
            As[c][r] = row0 + r < {m} && k0 + c < {k} ? A[(row0 + r) * {k} + k0 + c] : 0.f;
            Bs[p][q] = k0 + p < {k} && col0 + q < {n} ? B[(k0 + p) * {n} + col0 + q] : 0.f;
        }}
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] += As[k][ty * 4 + i] * Bs[k][tx * 4 + j];
        {barrier}
    }}
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            if (row0 + ty * 4 + i < {m} && col0 + tx * 4 + j < {n})
                C[(row0 + ty * 4 + i) * {n} + col0 + tx * 4 + j] = acc[i][j];
}}
"""
KNOWN = {"sizes": "int M, int N, int K", "m": "M", "n": "N", "k": "K"}
UNCLEAR = {"sizes": "int h, int w, int d", "m": "h", "n": "w", "k": "d"}


def source(folder: Path, names: dict[str, str] = KNOWN, step: int = 256, barrier: str = "__syncthreads();") -> str:
    file = folder / "tiles.cu"
    file.write_text(TILES.format(**names, step=step, barrier=barrier))
    return str(file)


@pytest.mark.parametrize("step", [256, 128])
@pytest.mark.parametrize("names", [KNOWN, UNCLEAR])
def test_occupancy_counts_the_blocks_of_the_launch_that_was_found(
    say: Say, tmp_path: Path, names: dict[str, str], step: int
) -> None:
    """Of a step that is not the number of threads too: half of the block loads everything then, twice."""
    said = say("occupancy", source(tmp_path, names, step), "--m", "4096", "--n", "2048", "--k", "64", "--gpu", "H200")
    assert "2,048 blocks" in said.out


def test_run_and_check_have_the_same_launch(say: Say, tmp_path: Path) -> None:
    file = source(tmp_path, UNCLEAR)
    launches = [say(*words, "--json").json["launch"] for words in
                (("check", file, "--cures", "0"), ("run", file, "--m", "64", "--n", "64", "--k", "64"))]  # fmt: skip
    assert launches[0] == launches[1]
    assert (launches[0]["block"], launches[0]["source"]) == ([256, 1, 1], "found by trying")


def test_a_race_under_a_launch_that_was_found_is_the_kernels_own(say: Say, tmp_path: Path) -> None:
    said = say("check", source(tmp_path, barrier=""), "--cures", "0", "--json")
    assert (said.code, said.json["status"]) == (1, "racy")


def test_explain_takes_what_was_found(say: Say, tmp_path: Path) -> None:
    said = say("explain", source(tmp_path, UNCLEAR), "--m", "256", "--n", "256", "--k", "64", "--json")
    assert said.json["checked"]["state"] == "right"
