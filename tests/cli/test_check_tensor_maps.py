"""gemmsmith check on files whose host code encodes the tensor maps of TMA: right, wrong, racing, and refused maps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command

# Tiles of 32x32 that TMA copies; C = A·Bᵀ of fp32, one output for every thread and eighth row.
KERNEL = r"""
#include <cuda.h>
#include <cstdint>
constexpr int BM = 32, BN = 32, BK = 32;
__device__ inline uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ inline void load(void* to, const CUtensorMap* map, int x, int y, uint64_t* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared(to)), "l"(map), "r"(x), "r"(y), "r"(shared(barrier)) : "memory");
}
__global__ void product(PARAMETERS, float* C, int M, int N, int K) {
    __shared__ alignas(128) float a[BM][BK], b[BN][BK];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared(&full)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const int row = threadIdx.x / 32, col = threadIdx.x % 32;
    float sums[BM / 8] = {};
    for (int k = 0, phase = 0; k < K; k += BK, phase ^= 1) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"(shared(&full)), "r"((BM + BN) * BK * 4) : "memory");
            load(a, MAP_A, k, blockIdx.y * BM, &full);
            load(b, MAP_B, k, blockIdx.x * BN, &full);
        }
        int done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(shared(&full)), "r"(phase) : "memory");
        for (int i = 0; i < BM / 8; ++i)
            for (int j = 0; j < BK; ++j) sums[i] += a[row + 8 * i][j] * b[col][j];
        __syncthreads();
    }
    for (int i = 0; i < BM / 8; ++i) {
        const int m = blockIdx.y * BM + row + 8 * i, n = blockIdx.x * BN + col;
        if (m < M && n < N) C[m * N + n] = sums[i];
    }
}
"""
BY_VALUE = {"PARAMETERS": "const __grid_constant__ CUtensorMap ta, const __grid_constant__ CUtensorMap tb",
            "MAP_A": "&ta", "MAP_B": "&tb"}  # fmt: skip
BY_POINTER = {"PARAMETERS": "const CUtensorMap* ta, const CUtensorMap* tb", "MAP_A": "ta", "MAP_B": "tb"}
HOST = """
CUtensorMap describe(float* p, uint64_t rows, uint64_t cols, uint32_t box_rows) {
    CUtensorMap map;
    uint64_t size[2] = {cols, rows}, pitch = cols * sizeof(float);
    uint32_t box[2] = {BK, box_rows}, step[2] = {1, 1};
    cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, p, size, &pitch, box, step,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                           CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return map;
}
void run(float* A, float* B, float* C, int M, int N, int K) {
    CUtensorMap first = describe(A, M, K, BM), second = describe(B, N, K, BN);
    product<<<dim3((N + BN - 1) / BN, (M + BM - 1) / BM), 256>>>(MAPS, C, M, N, K);
}
"""
COPIED = """
    CUtensorMap *ta, *tb;
    cudaMalloc(&ta, sizeof(first)); cudaMalloc(&tb, sizeof(second));
    cudaMemcpy(ta, &first, sizeof(first), cudaMemcpyHostToDevice);
    cudaMemcpy(tb, &second, sizeof(second), cudaMemcpyHostToDevice);
    product<<<"""


def source(by_value: bool = True, old: str = "", new: str = "") -> str:
    code = KERNEL
    for word, text in (BY_VALUE if by_value else BY_POINTER).items():
        code = code.replace(word, text)
    host = HOST.replace("MAPS", "first, second" if by_value else "ta, tb")
    host = host if by_value else host.replace("    product<<<", COPIED)
    assert not old or old in code + host
    return (code + host).replace(old, new) if old else code + host


def check(folder: Path, text: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    (folder / "k.cu").write_text(text, encoding="utf-8")
    code = run_command(["check", str(folder / "k.cu"), "--json", "--cures", "0", *more])
    return code, json.loads(capsys.readouterr().out)


def test_a_right_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, source(), capsys)
    assert code == 0, found
    assert found["status"] == "aligned_rows"  # what a tensor map's strides take
    assert "tensor map ta of A: boxes of 32x32 fp32 from k.cu:" in json.dumps(found)
    assert "its 32-bit indices overflow" in json.dumps(found, ensure_ascii=False)  # a 64-bit barrier is no index


def test_maps_by_pointer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, source(by_value=False), capsys, "--trial", "M, N and K all different")
    assert code == 0, found


def test_a_wrong_box(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, source(old="box[2] = {BK, box_rows}", new="box[2] = {BK, 16}"), capsys)
    assert code == 1
    assert "lacks 0 arrivals and 4,096 bytes" in json.dumps(found)


def test_a_missing_wait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, source(old="int done = 0;", new="int done = k > 0;"), capsys)
    assert code == 1
    assert "a wait for the mbarrier's phase" in json.dumps(found)


def test_a_map_that_the_driver_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, source(old="pitch = cols * sizeof(float)", new="pitch = cols * 4 + 4"), capsys)
    assert code == 1
    assert "cuTensorMapEncodeTiled refuses a map: rows or matrices of ta are 260 bytes apart" in json.dumps(found)
