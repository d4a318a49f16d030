"""Faults of kernels as check tells them: the lines, the names, the elements and the iterations that it states.

Each kernel has one fault, in a style of its own. Costs about a second for each.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command

LAUNCH = """
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    gemm<<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
TILED = """
#define TILE 16
__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float As[TILE][TILE + 1];
    __shared__ float Bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        As[ty][tx] = A[row * K + k0 + tx];
        Bs[ty][tx] = B[(k0 + ty) * N + col];
        __syncthreads();  // loaded
        for (int k = 0; k < TILE; ++k) {
            sum += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();  // read
    }
    C[row * N + col] = sum;
}
""" + LAUNCH  # fmt: skip
HELPER = """#pragma once
// Copies a tile of A, transposed.
template <int BM, int BK>
__device__ void load_a(float (*dst)[BM], const float *src, int ld, int tid) {
    for (int i = tid; i < BM * BK; i += 256)
        dst[i % BK][i / BK] = src[i / BK * ld + i % BK];
}
"""
TEMPLATE = """
#include "helper.cuh"
template <int BM, int BN, int BK>
__global__ void __launch_bounds__(256) gemm(int M, int N, int K, const float *A, const float *B, float *C) {
    __shared__ float As[BK][BM];
    __shared__ float Bs[BK][BN];
    int tid = threadIdx.x;
    float acc[2][2] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BK * BN; i += 256)
            Bs[i / BN][i % BN] = B[(k0 + i / BN) * N + blockIdx.x * BN + i % BN];
        __syncthreads();
        load_a<BM, BK>(As, A + blockIdx.y * BM * K + k0, K, tid);
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j)
                    acc[i][j] += As[k][tid / 16 * 2 + i] * Bs[k][tid % 16 * 2 + j];
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            C[(blockIdx.y * BM + tid / 16 * 2 + i) * N + blockIdx.x * BN + tid % 16 * 2 + j] = acc[i][j];
}
void run(int M, int N, int K, const float *A, const float *B, float *C) {
    gemm<32, 32, 8><<<dim3(N / 32, M / 32), 256>>>(M, N, K, A, B, C);
}
"""
DYNAMIC = """
typedef float real;
__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    extern __shared__ char memory[];
    const int T = 16;
    real *As = reinterpret_cast<real *>(memory);
    real *Bs = As + T * T;
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    float sum = 0.0f;
    int k0 = 0;
    while (k0 < K) {
        As[ty * T + tx] = A[row * K + k0 + tx];
        Bs[ty * T + tx] = B[(k0 + ty) * N + col];
        for (int k = 0; k < T; ++k) sum += As[ty * T + k] * Bs[k * T + tx];
        __syncthreads();
        k0 += T;
    }
    C[row * N + col] = sum;
}
""" + LAUNCH.replace("dim3(16, 16)", "dim3(16, 16), 2048")  # fmt: skip
NAIVE = """
__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; ++k)
            sum += A[row * K + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
""" + LAUNCH.replace("M / 16", "M / 16 + 1")  # fmt: skip


def line_of(source: str, text: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def faults(folder: Path, source: str, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """The last trial of a check, which must fail."""
    path = folder / "mine.cu"
    path.write_text(source, encoding="utf-8")
    (folder / "helper.cuh").write_text(HELPER, encoding="utf-8")
    assert run_command(["check", str(path), "--m", "64", "--n", "64", "--k", "64", "--json", *options]) == 1
    trial: dict[str, Any] = json.loads(capsys.readouterr().out)["trials"][-1]
    return trial


def marks(fault: dict[str, Any], folder: Path) -> list[tuple[str, int, str]]:
    """Each mark: file, line, and the source text under its carets."""
    found = []
    for mark in fault["marks"]:
        line = Path(mark["file"]).read_text(encoding="utf-8").split("\n")[mark["line"] - 1]
        start = mark["column"] - 1
        found.append((Path(mark["file"]).relative_to(folder).as_posix(), mark["line"],
                      line[start : start + mark["length"]]))  # fmt: skip
    return found


def test_a_missing_barrier_names_both_expressions_and_iterations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = TILED.replace("        __syncthreads();  // read\n", "")
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    read, write = line_of(source, "sum +="), line_of(source, "Bs[ty][tx] =")
    assert fault["rule"] == "race"
    assert fault["title"] == "thread (0,2) reads Bs[0][0], and thread (0,0) overwrites it without waiting for that"
    assert marks(fault, tmp_path) == [("mine.cu", read, "Bs[k][tx]"), ("mine.cu", write, "Bs[ty][tx]")]
    first, second = (mark["text"] for mark in fault["marks"])
    assert first == "1. thread (0,2) reads Bs[0][0] here, in iteration k0 = 0"
    assert second == "2. thread (0,0) writes Bs[0][0] here without waiting, in iteration k0 = 16"
    loop = line_of(source, "for (int k0")
    assert fault["notes"][0] == f"k0 = 0 is the 1st iteration of the loop at line {loop}, k0 = 16 the 2nd"
    assert f"between line {read} and line {write} of the next iteration there must be a" in fault["notes"][1]
    # Bs comes after As, which has 16 rows of 17 floats.
    assert fault["notes"][2].startswith("Bs[0][0] is byte 0x440 of shared memory; in block (0,0)")
    assert fault["notes"][3].startswith("1 more pair of accesses races like this: line ")
    assert "(As[0][0])" in fault["notes"][3]


def test_the_iteration_is_the_one_in_which_it_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The barrier is left out in the third iteration only."""
    source = TILED.replace("__syncthreads();  // read", "if (k0 != 32) __syncthreads();  // read")
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    assert [mark["text"].rpartition(", ")[2] for mark in fault["marks"]] == [
        "in iteration k0 = 32", "in iteration k0 = 48"]  # fmt: skip
    assert "k0 = 32 is the 3rd iteration of the loop" in fault["notes"][0]


@pytest.mark.parametrize(("unroll", "said"), [(2, True), (3, False)])
def test_an_unrolled_loop_is_counted_or_left_out(
    unroll: int, said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest of a loop unrolled three times is a loop of its own, and nothing is said."""
    source = TILED.replace("    for (int k0", f"#pragma unroll {unroll}\n    for (int k0")
    source = source.replace("__syncthreads();  // read", "if (k0 != 32) __syncthreads();  // read")
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    texts = [mark["text"] for mark in fault["marks"]]
    assert texts[0].endswith("in iteration k0 = 32") == said
    assert texts[1].endswith("in iteration k0 = 48") == said
    assert any("iteration" in text for text in texts) == said


def test_a_helper_in_a_header_is_shown_with_the_line_that_calls_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fault,) = faults(tmp_path, TEMPLATE, capsys)["faults"]
    places = marks(fault, tmp_path)
    assert places[0] == ("helper.cuh", line_of(HELPER, "dst[i % BK]"), "dst[i % BK][i / BK]")
    assert places[1][:2] == ("mine.cu", line_of(TEMPLATE, "load_a<BM, BK>(As"))
    assert places[2] == ("mine.cu", line_of(TEMPLATE, "acc[i][j] +="), "As[k][tid / 16 * 2 + i]")
    element = re.search(r"writes (As\[\d\]\[\d+\])", fault["title"])
    assert element is not None
    assert f"reads {element[1]} here" in fault["marks"][2]["text"]
    assert fault["marks"][1]["text"].endswith("calls it here")
    assert any("in iteration k0 = 0 (the 1st) of the loop at line " in note for note in fault["notes"])
    index = [int(i) for i in re.findall(r"\d+", element[1])]
    assert any(f"is byte {(index[0] * 32 + index[1]) * 4:#x} of shared memory" in note for note in fault["notes"])


def test_pointers_into_dynamic_shared_memory_have_their_own_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fault,) = faults(tmp_path, DYNAMIC, capsys)["faults"]
    assert fault["title"] == "thread (0,0) writes Bs[0], and thread (0,2) reads it without waiting for that"
    assert [text for _, _, text in marks(fault, tmp_path)] == ["Bs[ty * T + tx]", "Bs[k * T + tx]"]
    # In a while loop the variable is not known to be the one that counts.
    assert "both happen in the 1st iteration of the loop" in fault["notes"][0]
    assert any("Bs[0] is memory[1024], byte 0x400 of shared memory" in note for note in fault["notes"])


def test_a_row_too_many_is_named_by_row_and_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = NAIVE.replace("row < M", "row <= M")
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    assert fault["rule"] == "out-of-bounds"
    assert fault["title"] == "thread (0,0) of block (0,4) reads A[64][0], one row past its 64 rows (lda 64)"
    assert marks(fault, tmp_path) == [("mine.cu", line_of(source, "sum +="), "A[row * K + k]")]
    assert "15 more threads of this block do the same" in fault["notes"]
    assert fault["alike"] == 15


def test_an_array_of_the_module_has_its_own_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It lies far from A, B and C: none of them is named for it."""
    source = TILED.replace("__global__", "__device__ float sums[4000];\n__global__", 1) + LAUNCH
    source = source.replace(
        "    C[row * N + col] = sum;", "    sums[row * N + col] = sum;\n    C[row * N + col] = sums[row * N + col];"
    )
    fault = faults(tmp_path, source, capsys)["faults"][0]
    assert fault["rule"] == "out-of-bounds"
    assert "writes sums[4032], 33 past its end" in fault["title"]
    assert [text for _, _, text in marks(fault, tmp_path)] == ["sums[row * N + col]"]


def test_a_store_past_the_end_marks_the_left_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = NAIVE.replace("C[row * N + col] = sum", "C[row * N + col + 3 * M] = sum")
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    assert "writes C[64][0], one row past its 64 rows (ldc 64)" in fault["title"]
    assert [text for _, _, text in marks(fault, tmp_path)] == ["C[row * N + col + 3 * M]"]


def test_a_shared_array_is_overrun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = TILED.replace("As[ty][k]", "As[ty + 1][k]").replace("TILE + 1]", "TILE]")
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    assert fault["title"] == ("thread (0,15) of block (0,0) reads As[16][0], but the last element of As[16][16] is "
                              "As[15][15]")  # fmt: skip
    assert [text for _, _, text in marks(fault, tmp_path)] == ["As[ty + 1][k]"]
    assert "a GPU does not stop there: the access reaches Bs[0][0]" in fault["notes"]


def test_what_nobody_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = TILED.replace("        Bs[ty][tx] =", "        if (tx != 5) Bs[ty][tx] =")
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    assert fault["rule"] == "uninitialised-read"
    assert re.search(r"reads Bs\[\d+\]\[5\], which no thread has written before", fault["title"])
    assert [text for _, _, text in marks(fault, tmp_path)] == ["Bs[k][tx]"]


def test_a_misaligned_vector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = (
        NAIVE.replace("M / 16 + 1", "M / 16")
        .replace("k < K; ++k", "k < K; k += 4")
        .replace(
            "sum += A[row * K + k] * B[k * N + col]",
            "{ float4 a = *(const float4 *)&A[row * K + k + 1]; sum += a.x * B[k * N + col] + a.y + a.z + a.w; }",
        )
    )
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    assert fault["rule"] == "misaligned"
    assert "reads 16 bytes at A[0][1], but 16 bytes at once must begin at a multiple of 16 bytes" in fault["title"]
    assert fault["title"].endswith("every 4th element")


def test_divergent_barriers_are_both_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = TILED.replace(
        "__syncthreads();  // loaded", "if (tx < 8) {\n__syncthreads(); sum += 0 * tx;\n} else {\n__syncthreads();\n}"
    )
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    assert fault["rule"] == "divergent-barrier"
    assert [mark["text"] for mark in fault["marks"]] == [
        "128 threads wait here, thread (0,0) among them", "128 threads wait here, thread (8,0) among them"]  # fmt: skip
    assert len({mark["line"] for mark in fault["marks"]}) == 2


def test_a_copy_through_a_header_of_cuda_marks_the_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "#include <cuda_pipeline.h>\n" + TILED.replace(
        "Bs[ty][tx] = B[(k0 + ty) * N + col]", "__pipeline_memcpy_async(&Bs[ty][tx], &B[(k0 + ty) * N + col], 4)"
    ).replace("__syncthreads();  // read", "__pipeline_wait_prior(0); __syncthreads();")
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    assert "copies into Bs[0][0] in the background, and thread" in fault["title"]
    assert [text for _, _, text in marks(fault, tmp_path)] == ["Bs[ty][tx]", "Bs[k][tx]"]


def test_blocks_that_race_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = NAIVE.replace("k = 0; k < K", "k = blockIdx.z * K / 2; k < (blockIdx.z + 1) * K / 2").replace(
        "] = sum;", "] += sum;").replace("M / 16 + 1", "M / 16, 2")  # fmt: skip
    (fault,) = faults(tmp_path, source, capsys)["faults"]
    assert fault["title"].startswith("thread (0,0) of block (0,0,0) reads C[0][0], and thread (0,0) of block (0,0,1)")
    assert [text for _, _, text in marks(fault, tmp_path)] == ["C[row * N + col]"] * 2


def test_the_missing_k_tile_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trial = faults(tmp_path, TILED.replace("k0 < K", "k0 < K - TILE"), capsys)
    assert trial["faults"] == []
    assert "the wrong outputs equal the sum without the terms of k >= 48 (k goes from 0 to 63)" in trial["reasons"]


def test_no_message_begins_with_the_name_of_a_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source in (TILED.replace("        __syncthreads();  // read\n", ""), NAIVE.replace("row < M", "row <= M")):
        trial = faults(tmp_path, source, capsys)
        assert not any(re.match(r"\w+Error:", reason) for reason in trial["reasons"])
        assert not any("%r" in reason for reason in trial["reasons"])


@pytest.mark.parametrize("name", ["gemm", "tiles"])
def test_arrays_that_overlap_are_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the kernel's name does not say that it is a product: its results are squares of A, which is none."""
    mended = DYNAMIC.replace("        for (int k = 0", "        __syncthreads();\n        for (int k = 0", 1)
    source = mended.replace("As + T * T", "As + (blockDim.x - 1) * T").replace("gemm", name)
    (fault, *_) = faults(tmp_path, source, capsys, "--cures", "0")["faults"]
    assert "both write As[240]" in fault["title"]
    assert [text for _, _, text in marks(fault, tmp_path)] == ["As[ty * T + tx]", "Bs[ty * T + tx]"]
    assert any("As and Bs overlap in shared memory" in note for note in fault["notes"])
