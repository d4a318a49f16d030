"""Variables of host code that the preprocessor declares once for each version of a kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.userfile.text.conditional_branches import branches
from gemmsmith.userfile.text.preprocessor import directives

KERNELS = "".join(
    f"__global__ void k{i}(const float* A, const float* B, float* C, int M, int N, int K) {{"
    " C[blockIdx.y * N + blockIdx.x] = A[0] * B[0] * K; }\n"
    for i in (1, 2, 3)
)
CHAINS = """
void run(const float* a, const float* b, float* c, int M, int N, int K) {
#if VERSION == 1
    dim3 block(32, 32);
#elif VERSION == 2
    dim3 block(16, 16);
#else
    dim3 block(8, 8);
#endif
    dim3 grid((N + block.x - 1) / block.x, (M + block.y - 1) / block.y);
#if VERSION == 1
    k1<<<grid, block>>>(a, b, c, M, N, K);
#elif VERSION == 2
    k2<<<grid, block>>>(a, b, c, M, N, K);
#else
    k3<<<grid, block>>>(a, b, c, M, N, K);
#endif
}
"""
NAMES = """
void run(const float* a, const float* b, float* c, int M, int N, int K) {
#ifdef LARGE
    int side = 32;
#endif
#ifndef LARGE
    int side = 8;
#endif
#if defined(LARGE)
    k1<<<dim3(N / side, M / side), dim3(side, side)>>>(a, b, c, M, N, K);
#elif !defined(OTHER)
    k3<<<dim3(N / side, M / side), dim3(side, side)>>>(a, b, c, M, N, K);
#endif
}
"""


@pytest.mark.parametrize(("host", "kernel", "side"), [
    (CHAINS, "k1", 32), (CHAINS, "k2", 16), (CHAINS, "k3", 8), (NAMES, "k1", 32), (NAMES, "k3", 8),
])  # fmt: skip
def test_a_launch_has_the_block_of_its_own_branch(host: str, kernel: str, side: int, tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text(KERNELS + host)
    spec = user_kernel(file, UserOptions(entry=kernel))
    geometry = spec.geometry(Problem(64, 128, 32), spec.config())
    assert (geometry.block, geometry.grid) == ((side, side, 1), (128 // side, 64 // side, 1))


@pytest.mark.parametrize(("text", "apart"), [
    ("#if A\nx\n#else\ny\n#endif", True),
    ("#if A\nx\n#endif\n#if !A\ny\n#endif", True),
    ("#if (A == 1)\nx\n#endif\n#if A==2\ny\n#endif", True),
    ("#if A == 1\nx\n#endif\n#if A == 1\ny\n#endif", False),
    ("#if A == 1\nx\n#endif\n#if B == 2\ny\n#endif", False),
    ("#if A\nx\n#endif\n#if B\ny\n#endif", False),
    ("#ifdef A\nx\n#endif\n#if !defined A\ny\n#endif", True),
    ("#if A\n#if B\nx\n#endif\n#elif C\ny\n#endif", True),
    ("#if A > 1\nx\n#endif\ny", False),
    ("x\n#endif\ny", False),
    ("#if A == 0\nx\n" + "".join(f"#elif A == {i}\n" for i in range(1, 100)) + "y\n#endif", False),  # not told apart
    ("#if A\nx\n#else\n" + 10 * "#if B\n" + "y\n" + 11 * "#endif\n", True),
])  # fmt: skip
def test_which_lines_exclude_each_other(text: str, apart: bool) -> None:
    found = branches((each.line, each.word, each.rest) for each in directives(text))
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line in ("x", "y")]
    assert found.exclude(*lines) is found.exclude(*reversed(lines)) is apart


NAMESAKES = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.x / 16, col = blockIdx.x * 16 + threadIdx.x % 16;
    float sum = 0.0f;
    for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[i * N + col];
    C[row * N + col] = sum;
}
void run(const float* a, const float* b, float* c, int M, int N, int K) {
#if defined(OLD)
    dim3 block(32, 32);
    dim3 grid(N / 32, M / 32);
    k<<<grid, block>>>(a, b, c, M, N, K);
#else
    dim3 block(256);
    dim3 grid(N / 16, M / 16);
    k<<<grid, block>>>(a, b, c, M, N, K);
#endif
}
"""


def test_the_version_that_gives_a_product_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.cu"
    file.write_text(NAMESAKES)
    assert run_command(["check", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "whole_tiles"
    assert found["launch"]["block"] == [256, 1, 1]
