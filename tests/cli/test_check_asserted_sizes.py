"""gemmsmith check on a persistent kernel with one grid for every size, whose asserts refuse small sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command

SOURCE = """
#include <cassert>
#define TILE 16
// A group of tiles is TALL by WIDE tiles.
template <int BLOCKS, int TALL, int WIDE>
__global__ void grouped(const float* A, const float* B, float* C, int M, int N, int K) {
    const int rows = M / TILE, columns = N / TILE;
    assert(rows % TALL == 0 && columns % WIDE == 0);
    for (int tile = blockIdx.x; tile < rows * columns; tile += BLOCKS) {
        const int group = tile / (TALL * WIDE), inside = tile % (TALL * WIDE);
        const int row = group / (columns / WIDE) * TALL + inside / WIDE;
        const int column = group % (columns / WIDE) * WIDE + inside % WIDE;
        const int r = row * TILE + threadIdx.x / TILE, c = column * TILE + threadIdx.x % TILE;
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[r * K + k] * B[k * N + c];
        C[r * N + c] = sum;
    }
}
void run(float* A, float* B, float* C, int M, int N, int K) {
    constexpr int BLOCKS = 32;
    grouped<BLOCKS, 16, 8><<<BLOCKS, TILE * TILE>>>(A, B, C, M, N, K);
}
"""


def check(folder: Path, source: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    (folder / "k.cu").write_text(source, encoding="utf-8")
    code = run_command(["check", str(folder / "k.cu"), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_sizes_that_the_asserts_allow_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SOURCE, capsys)
    assert (code, found.get("status")) == (0, "whole_tiles"), found
    assert "multiples of 256 in M, 128 in N" in json.dumps(found)


def test_a_wrong_kernel_is_found_at_these_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = SOURCE.replace("inside % WIDE;", "(inside + 1) % WIDE;", 1).replace("k < K; ++k)", "k < K - 1; ++k)")
    code, found = check(tmp_path, wrong, capsys)
    assert code != 0
    assert found.get("status") != "right", found


def test_asserts_that_no_size_meets_are_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SOURCE.replace("rows % TALL == 0", "rows % TALL == 1"), capsys)
    assert code == 2
    assert "its assert `rows % TALL == 1 && columns % WIDE == 0` refuses 64x64x64" in found["error"]["message"]


def test_an_assert_on_a_threads_index_is_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SOURCE.replace("float sum = 0;", "assert(r < M - 1);\n        float sum = 0;")
    code, found = check(tmp_path, text.replace("rows % TALL == 0 && columns % WIDE == 0", "K > 0"), capsys)
    assert (code, found.get("status")) == (1, "wrong"), found
