"""Kinds of mistakes that kernels written by others showed `check` to miss, and of correct code that it accused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

_LAUNCH = """
void run({taken}) {{ {before}k<<<{grid}, {block}>>>({passed}); }}
"""
_TILES = "dim3((N + 15) / 16, (M + 15) / 16)"


def product(body: str, parameters: str = "const float* A, const float* B, float* C, int M, int N, int K",
            grid: str = _TILES, block: str = "dim3(16, 16)", top: str = "", before: str = "") -> str:  # fmt: skip
    """A file with one kernel and its launch."""
    passed = ", ".join(each.split()[-1].lstrip("*") for each in parameters.split(","))
    host = _LAUNCH.format(taken=parameters, before=before, grid=grid, block=block, passed=passed)
    return f"{top}\n__global__ void k({parameters}) {{\n{body}\n}}\n{host}"


_PLACE = """    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
"""
_SUM = "    float acc = 0.f;\n    for (int k = 0; k < K; ++k) acc += A[row * {a} + k] * B[k * {b} + col];\n"
_PLAIN = _PLACE + _SUM.format(a="K", b="N")
_SCALED = "int M, int N, int K, float alpha, const float* A, {lda}const float* B, {ldb}float beta, float* C{ldc}"
_NO_LD = _SCALED.format(lda="", ldb="", ldc="")
_LD = _SCALED.format(lda="int lda, ", ldb="int ldb, ", ldc=", int ldc")
_BATCH = ("int M, int N, int K, const float* A, long long strideA, const float* B, long long strideB, float* C, "
          "long long strideC, int batch")  # fmt: skip
_INT8 = "const signed char* A, const signed char* B, int* C, int M, int N, int K"

WRONG = {
    "alpha twice where beta is 0": product(
        _PLAIN + "    acc *= alpha;\n    float* c = C + row * N + col;\n"
        "    *c = beta == 0.f ? alpha * acc : acc + beta * *c;", _NO_LD),
    "zeros of A skipped, and with them NaN of B": product(
        _PLACE + "    float acc = 0.f;\n    for (int k = 0; k < K; ++k) { float a = A[row * K + k];\n"
        "        if (a != 0.f) acc += a * B[k * N + col]; }\n    C[row * N + col] = acc;"),
    "beta reads C by the wrong leading dimension": product(
        _PLACE + _SUM.format(a="lda", b="ldb") + "    float r = alpha * acc;\n"
        "    if (beta != 0.f) r += beta * C[row * N + col];\n    C[row * ldc + col] = r;", _LD),
    "another leading dimension where N > M": product(
        _PLACE + "    int ld = N > M ? N : ldb;\n" + _SUM.format(a="lda", b="ld")
        + "    C[row * ldc + col] = alpha * acc + (beta == 0.f ? 0.f : beta * C[row * ldc + col]);", _LD),
    "sums of int8 clamped at 2^20": product(
        _PLACE + "    int acc = 0;\n    for (int k = 0; k < K; ++k) {\n"
        "        acc += A[row * K + k] * B[k * N + col];\n"
        "        acc = max(min(acc, 1 << 20), -(1 << 20)); }\n    C[row * N + col] = acc;", _INT8),
    "the stride of A for B": product(
        "    A += blockIdx.z * strideA; B += blockIdx.z * strideA; C += blockIdx.z * strideC;\n" + _PLAIN
        + "    C[row * N + col] = acc;", _BATCH, grid=_TILES[:-1] + ", batch)"),
    "a column in 16 bits, one row for each block": product(
        "    unsigned short col = blockIdx.x * 256 + threadIdx.x;\n    int row = blockIdx.y;\n"
        "    if (col >= N) return;\n"
        + _SUM.format(a="K", b="(long)N") + "    C[(long)row * N + col] = acc;",
        grid="dim3((N + 255) / 256, M)", block="256"),
    "threads that return before the barriers": product(
        """    __shared__ float As[16][16], Bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    if (row >= M || col >= N) return;
    float acc = 0.f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        As[ty][tx] = k0 + tx < K ? A[row * K + k0 + tx] : 0.f;
        Bs[ty][tx] = k0 + ty < K ? B[(k0 + ty) * N + col] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    C[row * N + col] = acc;"""),
}  # fmt: skip

_SPLIT = """    __shared__ bool last;
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    int tile = blockIdx.y * gridDim.x + blockIdx.x;
    bool inside = row < M && col < N;
    float acc = 0.f;
    if (inside) {
        for (int k = blockIdx.z; k < K; k += 2) acc += A[row * K + k] * B[k * N + col];
        partial[(blockIdx.z * M + row) * N + col] = acc;
    }
    FENCE
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0) {
        last = atomicAdd(&counter[tile], 1) == 1;
        if (last) counter[tile] = 0;
    }
    __syncthreads();
    if (last && inside) {
        __threadfence();
        C[row * N + col] = partial[row * N + col] + partial[(M + row) * N + col];
    }"""
_SPLIT_TOP = "__device__ unsigned counter[4096];\n__device__ float partial[2 * 512 * 512];"
_SPLIT_GRID = _TILES[:-1] + ", 2)"

INNOCENT = {
    "a counter that its last user sets back": product(
        _SPLIT.replace("FENCE", "__threadfence();"), grid=_SPLIT_GRID, top=_SPLIT_TOP),
    "blocks that fetch tiles": product(
        """    __shared__ int tile;
    int across = (N + 15) / 16, tiles = across * ((M + 15) / 16);
    while (true) {
        __syncthreads();
        if (threadIdx.x + threadIdx.y == 0) tile = atomicAdd(&next, 1);
        __syncthreads();
        if (tile >= tiles) break;
        int row = tile / across * 16 + threadIdx.y, col = tile % across * 16 + threadIdx.x;
        if (row < M && col < N) {
            float acc = 0.f;
            for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
            C[row * N + col] = acc;
        }
    }""", top="__device__ int next;", grid="4"),
    "a cooperative launch": product(
        """    auto grid = cooperative_groups::this_grid();
    int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    for (int i = first; i < K * N; i += step) turned[i % N * K + i / N] = B[i];
    grid.sync();
    for (int i = first; i < M * N; i += step) {
        float acc = 0.f;
        for (int k = 0; k < K; ++k) acc += A[i / N * K + k] * turned[i % N * K + k];
        C[i] = acc;
    }""", top="#include <cooperative_groups.h>\n__device__ float turned[1 << 20];", grid="8", block="128"),
    "a pipeline of the block": product(
        """    __shared__ float As[2][256], Bs[2][256];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, me = ty * 16 + tx;
    float acc = 0.f;
    for (int t = 0, asked = 0; t < K / 16; ++t) {
        for (; asked < K / 16 && asked < t + 2; ++asked) {
            pipe.producer_acquire();
            cuda::memcpy_async(&As[asked & 1][me], A + row * K + asked * 16 + tx, cuda::aligned_size_t<4>(4), pipe);
            cuda::memcpy_async(&Bs[asked & 1][me], B + (asked * 16 + ty) * N + col, cuda::aligned_size_t<4>(4), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        for (int k = 0; k < 16; ++k) acc += As[t & 1][ty * 16 + k] * Bs[t & 1][k * 16 + tx];
        pipe.consumer_release();
    }
    C[row * N + col] = acc;""", top="#include <cooperative_groups.h>\n#include <cuda/pipeline>",
        grid="dim3(N / 16, M / 16)"),
}  # fmt: skip


# The trial that accused it; none: one of those that fit the kernel.
ACCUSED_BY = {
    "a counter that its last user sets back": "random data",
    "blocks that fetch tiles": "",
    "a cooperative launch": "random data",
    "a pipeline of the block": "warps reversed",
}


def checked(
    folder: Path, source: str, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, dict[str, object]]:
    path = folder / "mine.cu"
    path.write_text(source, encoding="utf-8")
    code = run_command(["check", str(path), "--json", "--cures", "0", *options])
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return code, found


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_product_fails(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = checked(tmp_path, WRONG[name], capsys)
    assert (code, found["status"]) == (1, "wrong")


@pytest.mark.parametrize("name", INNOCENT)
def test_correct_code_is_not_accused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = ACCUSED_BY[name]
    code, found = checked(tmp_path, INNOCENT[name], capsys, *(("--trial", only) if only else ()))
    assert code == 0, found


def test_a_race_names_the_variable_of_the_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = product(_SPLIT.replace("FENCE", ""), grid=_SPLIT_GRID, top=_SPLIT_TOP)
    code, found = checked(tmp_path, source, capsys, "--trial", "random data")
    text = json.dumps(found)
    assert (code, found["status"]) == (1, "racy")
    assert "partial[" in text
    assert "C[4160]" not in text


def test_an_overrun_of_a_thread_own_array_has_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = _PLACE + ("    float window[4] = {0.f, 0.f, 0.f, 0.f};\n    for (int k = 0; k < K; ++k)\n"
                     "        window[(k & 3) - (k == 5 ? 2 : 0)] += A[row * K + k] * B[k * N + col];\n"
                     "    C[row * N + col] = window[0] + window[1] + window[2] + window[3];")  # fmt: skip
    code, found = checked(tmp_path, product(body), capsys, "--trial", "integers, bit for bit")
    text = json.dumps(found)
    assert code == 1
    assert "window[-1], but the first element of window is window[0]" in text
    assert "0xffffff" not in text.split('"ptx"')[0]
