"""gemmsmith check on kernels whose pipeline needs several k-tiles: the least K is told, a smaller one not judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.check_rounds import rounds_of
from gemmsmith.cli.main import run_command

# A block of 64 threads for 8x8 outputs; STAGES k-tiles of 32 are loaded before the loop, whatever K is.
PIPELINE = """
#define STAGES 3
__global__ void staged(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[STAGES][8][32], b[STAGES][32][8];
    int x = threadIdx.x % 8, y = threadIdx.x / 8, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    for (int s = 0; s < STAGES; ++s)
        for (int i = 0; i < 32; i += 8) {
            a[s][y][i + x] = A[row * K + s * 32 + i + x];
            b[s][i + y][x] = B[(s * 32 + i + y) * N + col];
        }
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 32) {
        int s = k0 / 32 % STAGES;
        __syncthreads();
        for (int k = 0; k < 32; ++k) sum += a[s][y][k] * b[s][k][x];
        __syncthreads();
        int next = k0 + STAGES * 32;
        if (next < K)
            for (int i = 0; i < 32; i += 8) {
                a[s][y][i + x] = A[row * K + next + i + x];
                b[s][i + y][x] = B[(next + i + y) * N + col];
            }
    }
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    staged<<<dim3(N / 8, M / 8), 64>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("ptx", "rounds"), [
    ("bar.sync 0;", 3), ("cp.async.wait_group 0;", 4), ("cp.async.wait_group 2;\ncp.async.wait_group 0;", 6),
    ("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;", 6), ("barrier.cta.arrive %r1, 160;", 6),
    ("bar.arrive 1, 64;", 6),
])  # fmt: skip
def test_every_stage_of_a_pipeline_is_used_again(ptx: str, rounds: int) -> None:
    assert rounds_of(ptx) == rounds


@pytest.mark.parametrize(("stages", "least"), [(1, 0), (3, 96)])
def test_the_least_k_of_a_pipeline(
    stages: int, least: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    file = tmp_path / "k.cu"
    file.write_text(PIPELINE.replace("#define STAGES 3", f"#define STAGES {stages}"), encoding="utf-8")
    code = run_command(["check", str(file), "--json", "--cures", "0"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["status"]) == (0, "whole_tiles"), found
    assert (found["multiples"]["k"], found["multiples"].get("from_k", 0)) == (32, least)
    assert ("32 in K from 96" in found["verdict"]) == (stages == 3)


# A block of 64 threads for 8x8 outputs; two k-tiles are loaded before the loop, and two are multiplied after it.
WRAPPED = """
__global__ void wrapped(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[3][8][8], b[3][8][8];
    int x = threadIdx.x % 8, y = threadIdx.x / 8, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x, tiles = K / 8;
    auto load = [&](int tile) {
        int k0 = tile % tiles * 8;
        a[tile % 3][y][x] = A[row * K + k0 + x];
        b[tile % 3][y][x] = B[(k0 + y) * N + col];
    };
    load(0);
    load(1);
    float sum = 0;
    auto multiply = [&](int tile) {
        __syncthreads();
        for (int k = 0; k < 8; ++k) sum += a[tile % 3][y][k] * b[tile % 3][k][x];
    };
    for (int tile = 0; tile + 2 < tiles; ++tile) {
        multiply(tile);
        load(tile + 2);
    }
    multiply(tiles > 1 ? tiles - 2 : 0);
    multiply(tiles > 1 ? tiles - 1 : 1);
    C[row * N + col] = RESULT;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    wrapped<<<dim3(N / 8, M / 8), 64>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize(("result", "status"), [("sum", "whole_tiles"), ("tiles > 1 ? sum : 0.3f * sum", "wrong")],
                         ids=["twice", "no multiple"])  # fmt: skip
def test_a_k_tile_that_is_loaded_for_two_stages_was_not_meant_to_be_alone(
    result: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.cu"
    file.write_text(WRAPPED.replace("RESULT", result), encoding="utf-8")
    run_command(["check", str(file), "--json", "--cures", "0"])
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == status, found["verdict"]
    if status == "whole_tiles":
        assert found["multiples"]["from_k"] == 16
