"""What explain and compare say of users' kernels: checked first; conflicts at the calling line, in the user's names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.explain.access_pattern import AccessPattern, Declaration, declarations
from gemmsmith.explain.pattern_words import conflict_words, paddings, remedy

KERNEL = """#include "tile.cuh"
#define T 32
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float left[T][T];
  __shared__ float right[T][T];
  int y = threadIdx.y, x = threadIdx.x;
  int row = blockIdx.y * T + x, column = blockIdx.x * T + y;
  float sum = 0.f;
  for (int start = 0; start < K; start += T) {
    int r = blockIdx.y * T + y, c = blockIdx.x * T + x;
    left[y][x] = r < M && start + x < K ? A[r * K + start + x] : 0.f;
    right[y][x] = start + y < K && c < N ? B[(start + y) * N + c] : 0.f;
    __syncthreads();
    #pragma unroll 1
    for (int k = 0; k < T; ++k)
      sum += READ * right[k][y];
    __syncthreads();
  }
  if (row < M && column < N) C[row * N + column] = sum;
}
"""
HEADER = """// One value of a tile.
template <class Tile>
__device__ __forceinline__ float value(const Tile& tile, int row, int k) {
  return tile[row][k];
}
"""
LAUNCH = ["--block", "32,32", "--grid", "ceil(N/32),ceil(M/32)", "--m", "64", "--n", "64", "--k", "64"]


def written(folder: Path, name: str, *changes: tuple[str, str]) -> str:
    text = KERNEL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "tile.cuh").write_text(HEADER)
    (folder / name).write_text(text)
    return str(folder / name)


def explained(path: str, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """As JSON and as text."""
    assert run_command(["explain", path, *LAUNCH, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert run_command(["explain", path, *LAUNCH, "--details"]) == 0
    return found, " ".join(capsys.readouterr().out.split())


def test_a_conflict_in_a_helper_is_blamed_on_the_line_that_calls_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "kernel.cu", ("READ", "value(left, x, k)"))
    found, text = explained(path, capsys)
    assert found["checked"]["state"] == "right"
    (finding,) = [each for each in found["findings"] if each["kind"] == "bank conflicts"]
    assert finding["where"] == "kernel.cu:16, in tile.cuh:4"
    assert finding["pattern"]["source"] == "sum += value(left, x, k) * right[k][y];"
    assert finding["pattern"]["array"] == "left"
    assert "kernel.cu:16 | sum += value(left, x, k) * right[k][y];" in text
    assert "tile.cuh:4 | return tile[row][k];" in text
    assert "32 threads of a warp read 32 words of left, 128 bytes apart (one column): all 32 are in bank" in text
    assert "Declare float left[T][T + 1] in place of left[T][T] (kernel.cu:4)" in text
    assert re.search(r"Tried in a copy: bank conflicts fall from \d+% to 0% of wavefronts; the result is right", text)


ROWS_BY_X = """#define T 32
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
  int row = blockIdx.x * T + threadIdx.x, column = blockIdx.y * T + threadIdx.y;
  if (row >= M || column >= N) return;
  float sum = 0.f;
  for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + column];
  C[row * N + column] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
  product<<<dim3((M + T - 1) / T, (N + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);
}
"""


def test_uncoalesced_loads_get_a_patch_that_was_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.cu"
    path.write_text(ROWS_BY_X)
    assert run_command(["explain", str(path), "--m", "64", "--n", "96", "--k", "160"]) == 0
    said = capsys.readouterr().out
    short = said.split("Predicted on")[0]
    assert "Bound:  " in short
    assert "Line:   rows.cu:6 | for (int k" in short
    assert "Change: Swap x and y" in short
    assert "bytes of A each" in said
    for line in ("+  int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;",
                 "+  product<<<dim3((N + T - 1) / T, (M + T - 1) / T), dim3(T, T)>>>(A, B, C, M, N, K);"):  # fmt: skip
        assert line in said
    assert re.search(
        r"a request touches \d\.\d sectors in place of 1\d\.\d, and the result is right", " ".join(said.split())
    )
    assert path.read_text() == ROWS_BY_X


def test_no_patch_that_was_not_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a block that is no square, x and y cannot be swapped without more changes."""
    path = tmp_path / "rows.cu"
    path.write_text(ROWS_BY_X.replace("blockIdx.y * T + threadIdx.y", "blockIdx.y * 8 + threadIdx.y").replace(
        "(N + T - 1) / T), dim3(T, T)", "(N + 7) / 8), dim3(T, 8)"))  # fmt: skip
    assert run_command(["explain", str(path), "--m", "64", "--n", "96", "--k", "160"]) == 0
    said = capsys.readouterr().out
    assert "uncoalesced global loads" in said
    assert "Swap x and y" not in said


def test_the_remedy_that_is_told_cures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "kernel.cu", ("READ", "left[x][k]"), ("left[T][T]", "left[T][T + 1]"))
    found, _ = explained(path, capsys)
    assert "bank conflicts" not in [each["kind"] for each in found["findings"]]


def test_a_remedy_that_would_break_the_kernel_is_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flat = ("READ", "(&left[0][0])[x * T + k]")
    found, _ = explained(written(tmp_path, "kernel.cu", flat), capsys)
    (finding,) = [each for each in found["findings"] if each["kind"] == "bank conflicts"]
    assert "uninitialised shared read" in finding["tried"]


@pytest.mark.parametrize(
    ("change", "state", "says"),
    [
        (("    __syncthreads();\n", ""), "racy", "RACES"),
        (("C[row * N + column] = sum", "C[row * N + column] = sum + 1.f"), "wrong", "is WRONG"),
        (("k < T", "k < T - 1"), "wrong", "is WRONG"),
    ],
)
def test_a_wrong_or_racy_kernel_is_not_praised(
    change: tuple[str, str], state: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = written(tmp_path, "good.cu", ("READ", "left[x][k]"))
    bad = written(tmp_path, "bad.cu", ("READ", "left[x][k]"), change)
    found, text = explained(bad, capsys)
    assert found["checked"]["state"] == state
    assert text.index(f"bad.cu {says}") < text.index("Bound by")
    assert "times as fast" not in text
    sides = [word for side in "xy" for word in (f"--{side}-launch", "block=32,32;grid=ceil(N/32),ceil(M/32)")]
    for words in ([good, bad], [bad, good]):
        assert run_command(["compare", *words, *sides, *LAUNCH[4:]]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert says in text
        assert "faster is not said" in text
        assert "times as fast" not in text
        assert "speedup" not in text


FIXED = """#define N 256
__global__ void product(const float* A, const float* B, float* C) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.f;
  for (int k = 0; k < N; ++k) sum += A[row * N + k] * B[k * N + col];
  C[row * N + col] = sum;
}
void run(float* a, float* b, float* c) { product<<<dim3(N / 16, N / 16), dim3(16, 16)>>>(a, b, c); }
"""


def test_a_size_that_the_source_sets_is_the_one_that_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fixed.cu").write_text(FIXED)
    path = str(tmp_path / "fixed.cu")
    assert run_command(["explain", path]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "fixed.cu, 256x256x256 fp32 on H200" in text
    assert run_command(["explain", path, "--json"]) == 0
    assert run_command(["compare", path, "naive"]) == 2
    said = capsys.readouterr().err
    assert "compiled for 256x256x256 alone" in said
    assert "--m 256 --n 256 --k 256" in said
    assert run_command(["compare", path, "naive", "--m", "256", "--n", "256", "--k", "256"]) == 0


def test_a_rung_is_compared_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["compare", "naive", "coalesced", "--m", "64", "--n", "64", "--k", "64"]) == 0
    assert "times as fast" in " ".join(capsys.readouterr().out.split())


# --- words -----------------------------------------------------------------------------------------------------------


def pattern(lanes: list[int], width: int = 4, **more: Any) -> AccessPattern:
    base = {"space": "shared", "writes": False, "width": width, "array": "As", "file": "k.cu", "line": 3, "text": "",
            "called_at": "", "called_text": "", "excess": 1, "executed": 1, "lanes": tuple(lanes)}  # fmt: skip
    return AccessPattern(**(base | more))


TILE = Declaration("float", "As", ("BK", "BM"), "k.cu", 1, row_bytes=128)


@pytest.mark.parametrize(
    ("lanes", "width", "says", "pad"),
    [
        ([128 * i for i in range(32)], 4, "32 words of As, 128 bytes apart (one column): all 32 are in bank 0", 1),
        ([256 * i for i in range(32)], 4, "32 words of As, 256 bytes apart: all 32 are in bank 0", 1),
        ([64 * i for i in range(32)], 4, "64 bytes apart: 16 of them (of threads 0, 2, 4, 6, …) are in bank", 0),
        ([8 * i for i in range(32)], 4, "8 bytes apart: 2 of them (of threads 0, 16) are in bank 0", 0),
        ([128 * (i // 4) + 4 * (i % 4) for i in range(32)], 4, "32 words of As: 8 of them (of threads 0, 4, 8", 0),
        ([512 * i for i in range(32)], 16, "8 threads of a warp read 8 pieces of 16 bytes of As, 512 bytes apart", 4),
        ([128 * (i // 16) for i in range(32)], 4, "2 words of As, 128 bytes apart (one column): both are in bank", 1),
    ],
)  # fmt: skip
def test_patterns_in_words(lanes: list[int], width: int, says: str, pad: int) -> None:
    found = pattern(lanes, width, declaration=TILE)
    assert says in conflict_words(found)
    assert next(iter(paddings(found)), 0) == pad
    assert ("As[BK][BM + " in remedy(found)) == bool(pad)


def test_rows_read_by_vectors_may_be_longer_by_a_vector_or_by_a_word() -> None:
    found = pattern([512 * i for i in range(32)], 16, declaration=TILE)
    assert paddings(found) == (4, 1)
    assert "float As[BK][BM + 1]" in remedy(found, 1)


def test_a_half_of_two_bytes_is_padded_by_a_word() -> None:
    found = pattern([128 * i for i in range(32)], 4, declaration=Declaration("half", "As", ("64", "64"), "k.cu", 1))
    assert "half As[64][64 + 2]" in remedy(found)


def test_without_a_declaration_the_remedy_names_the_array() -> None:
    assert "rows of As longer by 4 bytes" in remedy(pattern([128 * i for i in range(32)]))
    assert "swizzle" in remedy(pattern([8 * i for i in range(32)], writes=True))


def test_declarations_of_a_file() -> None:
    lines = ["__shared__ float As[BM][BK], Bs[BK][BN];  // tiles", "extern __shared__ char raw[];",
             "__shared__ __align__(16) half tile[2][32][40];", "float other[3];"]  # fmt: skip
    found = list(declarations("k.cu", lines))
    assert [(d.type, d.name, d.extents, d.line) for d in found] == [
        ("float", "As", ("BM", "BK"), 1), ("float", "Bs", ("BK", "BN"), 1), ("char", "raw", ("",), 2),
        ("half", "tile", ("2", "32", "40"), 3),
    ]  # fmt: skip
