"""gemmsmith check FILE.py with kernels in strings: a right one and one without a barrier."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.check_folder import kernels_in
from gemmsmith.cli.main import run_command

SOURCE = """
import cupy
import does_not_exist
kernel = cupy.RawKernel(r'''
extern "C" __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[8][8], Bs[8][8];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 8) {
        As[y][x] = row < M && k + x < K ? A[row * K + k + x] : 0.0f;
        Bs[y][x] = col < N && k + y < K ? B[(k + y) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 8; ++i) sum += As[y][i] * Bs[i][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
''', 'mm')
def run(a, b, c):
    m, k = a.shape
    n = b.shape[1]
    kernel(((n + 7) // 8, (m + 7) // 8), (8, 8), (a, b, c, m, n, k))
"""


def checked(source: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, object]]:
    (folder / "mine.py").write_text(source, encoding="utf-8")
    code = run_command(["check", str(folder / "mine.py"), "--json", "--cures", "0", *more])
    return code, json.loads(capsys.readouterr().out)


def test_a_right_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = checked(SOURCE, tmp_path, capsys, "--trial", "M, N and K all different")
    assert (code, found["status"]) == (0, "right"), found
    assert "mine.py:22" in json.dumps(found["launch"]), found["launch"]


def test_a_race_is_shown_at_its_line_of_the_python_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = SOURCE.replace("__syncthreads();\n        for", "\n        for")
    code, found = checked(source, tmp_path, capsys, "--trial", "random data")
    assert (code, found["status"]) == (1, "racy"), found
    line = source.split("\n").index("        for (int i = 0; i < 8; ++i) sum += As[y][i] * Bs[i][x];") + 1
    assert f"mine.py:{line}" in json.dumps(found["trials"])


def test_a_folder_shows_the_kernels_of_its_python_files(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "tools.py").write_text("WORD = '__global__'\n", encoding="utf-8")
    assert [(each.file.name, each.entry, each.line) for each in kernels_in(tmp_path)] == [("mine.py", "mm", 5)]
