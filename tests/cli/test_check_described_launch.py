"""Launches that comments describe: they are tried where nothing else gives a product, and believed where they fit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from checking import QUICK, check
from linear_time import assert_linear

from gemmsmith.userfile.launches.described_launch import described_launch, written_launch
from gemmsmith.verify.meaning import launch_evidence

NAMES = {"m": "M", "n": "N", "k": "K"}


@pytest.mark.parametrize(
    ("comment", "grid", "block"),
    [
        ("// launch: block (32, 8), grid (ceil(N/32), ceil(M/8))", "ceil(N/32),ceil(M/8)", "32,8"),
        ("/* grid = dim3((n + 15) / 16, m / 16)\n   block = 16 x 16 */", "(N + 15) // 16,M // 16", "16,16"),
        (
            "// block (16, 16), grid (t * (t + 1) / 2) with t = ceil(n / 16)",
            "((N + 16 - 1) // 16) * (((N + 16 - 1) // 16) + 1) // 2",
            "16,16",
        ),
        ("// 128 threads, grid (ceil(n/4), m)", "ceil(N/4),M", "128"),
        ("// grid: ceil(m/32) * ceil(n/32) blocks of 256 threads", "ceil(M/32) * ceil(N/32)", "256"),
        ("// grid: one block per tile, 256 threads", "", "256"),
        ("// consumers: 128 threads, 2 outputs each", "", ""),
        ("// blocks are regrouped, 8 block rows at a time", "", ""),
        ("// block (32, 8) here, block (16, 16) there", "", ""),
        ('const char* s = "// block (32, 8)";', "", ""),
    ],
)
def test_what_a_comment_says(comment: str, grid: str, block: str) -> None:
    found = described_launch(f"{comment}\n__global__ void k();", 1, 3, NAMES)
    assert (found.grid, found.block) == (grid, block) if found else not (grid or block)


def test_parameters_that_are_named_as_others_are_called() -> None:
    """A column-major kernel's M is the N of its transpose: each name is read once."""
    found = described_launch("// grid (ceil(M/8), ceil(N/32))", 1, 1, {"M": "N", "N": "M"})
    assert found is not None
    assert found.grid == "ceil(N/8),ceil(M/32)"


def test_comments_of_another_kernel() -> None:
    assert described_launch("// block (8, 8)\n\n// no launch\n", 2, 3, NAMES) is None


@pytest.mark.parametrize(
    ("comment", "grid", "block"),
    [
        ("// mine<<<dim3((n + 31) / 32, (m + 7) / 8), dim3(32, 8)>>>(A, B, C, m, n, k);",
         "(N + 31) // 32,(M + 7) // 8", "32,8"),
        ("// mine<float, 8><<<dim3((cols + 31) / 32, rows), 256, 0, stream>>>(a, b, c, rows, cols, 64)",
         "(N + 31) // 32,M", "256"),
        ("/* mine<<<dim3((n + 31) / 32,\n        (m + 7) / 8), 64>>>(...) */", "(N + 31) // 32,(M + 7) // 8", "64"),
        ("// <<<(m * n + 255) / 256, 256>>>", "(M * N + 255) // 256", "256"),
        ("// t = cdiv(n, 32): mine<<<dim3(t, m / 8), 256>>>(...)", "((N + 32 - 1) // 32),M // 8", "256"),
        ("// other<<<m, 256>>>(A, B, C, m, n, k);", "", ""),
        ("// mine<<<m, 256>>>(A, B, C, m, n, k)\n// mine<<<m, 512>>>(A, B, C, m, n, k)", "", ""),
        ("// shifts: x <<< 3", "", ""),
    ],
)  # fmt: skip
def test_what_a_comment_writes_as_code(comment: str, grid: str, block: str) -> None:
    parameters = {name: name for name in "ABC"} | NAMES
    found = written_launch(f"__global__ void mine();\n{comment}", "mine", range(1, 4), parameters)
    assert (" ".join(found.grid.split()) if found else "", found.block if found else "") == (
        " ".join(grid.split()),
        block,
    )


def test_a_launch_without_a_name_belongs_to_the_kernel_beside_it() -> None:
    assert written_launch("// <<<m, 256>>>\n\n\n__global__ void mine();", "mine", range(3, 5), NAMES) is None


@pytest.mark.parametrize("part", ["/*", '\\"', "// a\n", "grid(", "<<<", "// a<<<\n", "// a<"])
def test_one_pass_over_any_text(part: str) -> None:
    def seconds(times: int) -> float:
        text = ("// " if part in ("grid(", "<<<") else "") + part * (50_000 * times)
        start = time.process_time()
        assert described_launch(text, 1, 10**6, NAMES) is None
        assert written_launch(text, "a", range(10**6), NAMES) is None
        return time.process_time() - start

    assert_linear(seconds)


# Three warps, each with a third of the rows: no block that is usually tried has 96 threads.
WARPS = """
// launch: 96 threads, grid (ceil(N/32), ceil(M/24))
__global__ void three_warps(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float b[16][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, col = blockIdx.x * 32 + lane;
    float sum[8] = {};
    for (int k = 0; k < K; k += 16) {
        for (int i = warp; i < 16; i += 3) b[i][lane] = k + i < K && col < N ? B[(k + i) * N + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16 && k + i < K; ++i)
            for (int j = 0; j < 8; ++j) {
                int row = blockIdx.y * 24 + warp * 8 + j;
                if (row < M) sum[j] += A[row * K + k + i] * b[i][lane];
            }
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j) {
        int row = blockIdx.y * 24 + warp * 8 + j;
        if (row < M && col < N) C[row * N + col] = sum[j];
    }
}
"""
SWAPPED = WARPS.replace("k + i] * b[i][lane]", "k + i] * b[i][lane ^ 1]")


def test_a_right_kernel_with_an_unusual_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, WARPS, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert found["launch"]["block"] == [96, 1, 1]
    assert found["launch"]["source"] == "from a comment"


def test_a_wrong_kernel_is_not_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under no launch does it give a product; its own stores all of C, so that the kernel is to blame."""
    code, found = check(tmp_path, SWAPPED, capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_wrong_kernel_with_slow_blocks_is_not_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no time for all blocks, the first tell how many elements each stores (of doubles 4 s held 5)."""
    monkeypatch.setattr(launch_evidence, "_SECONDS", 0)
    code, found = check(tmp_path, SWAPPED, capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_hazard_is_not_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    barrier, divergent = (
        "__syncthreads();\n        for",
        "if (lane < 16) __syncthreads(); else __syncthreads();\n        for",
    )
    code, found = check(tmp_path, WARPS.replace(barrier, divergent), capsys)
    assert code == 1, found


def test_a_comment_that_does_not_fit_is_not_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = WARPS.replace("ceil(M/24)", "ceil(M/48)").replace(
        "b[i][lane];\n            }", "b[i][lane ^ 1];\n            }"
    )
    code, found = check(tmp_path, stale, capsys, *QUICK)
    assert code == 2, found


def test_a_launch_that_a_gpu_refuses_is_not_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says nothing of the kernel."""
    code, found = check(tmp_path, SWAPPED.replace("96 threads", "2048 threads"), capsys, *QUICK)
    assert code == 2, found


BOUNDED = """
__global__ void __launch_bounds__(256) halves(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][16], b[16][16];
    int t = threadIdx.x, lane = t % 32, l = lane % 16, w = t / 32, ty = t / 16, tx = t % 16;
    int m = blockIdx.y * 16, n = blockIdx.x * 16;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 16) {
        if (lane < 16) {
            for (int r = w; r < 16; r += 8) a[r][l] = m + r < M && k + l < K ? A[(m + r) * K + k + l] : 0.0f;
            BARRIER
        } else {
            for (int r = w; r < 16; r += 8) b[r][l] = k + r < K && n + l < N ? B[(k + r) * N + n + l] : 0.0f;
            BARRIER
        }
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += a[ty][i] * b[i][tx];
        __syncthreads();
    }
    if (m + ty < M && n + tx < N) C[(m + ty) * N + n + tx] = sum;
}
"""


@pytest.mark.parametrize(("barrier", "expected"), [("__syncthreads();", 1), ("", 0)])
def test_a_barrier_that_half_warps_reach_apart(
    barrier: str, expected: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No launch is known, but ``__launch_bounds__`` tell the block: no grid mends what goes wrong within it."""
    code, found = check(tmp_path, BOUNDED.replace("BARRIER", barrier), capsys, *QUICK)
    assert code == expected, found


# A warp for 32 columns and 16 rows, as many of them in a block as it has: no guess from the text gives this grid.
ANY_WARPS = """
__global__ void warps(const float* A, const float* B, float* C, int M, int N, int K) {
    int lane = threadIdx.x & 31, col = (blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)) * 32 + lane;
    if (col >= N) return;
    for (int i = 0; i < 16; ++i) {
        int row = blockIdx.y * 16 + i;
        float sum = 0.0f;
        for (int k = 0; row < M && k < K; ++k) sum += A[row * K + k] * B[k * N + col];
        if (row < M) C[row * N + (i == 11 ? col ^ 1 : col)] = sum;
    }
}
"""


def test_a_wrong_kernel_whose_blocks_tile_c_under_a_launch_that_was_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks store each element once: the launch fits, so that the kernel is to blame."""
    code, found = check(tmp_path, ANY_WARPS, capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found
