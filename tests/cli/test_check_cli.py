"""gemmsmith check on kernels as people write them: usual signatures and launches pass unchanged; mistakes are named."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command

SIZE = ["--m", "32", "--n", "32", "--k", "16"]
SUM = "float sum = 0.0f; for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];"
PLACE_2D = "int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;"
GUARD = "if (row >= M || col >= N) return;"
STORE = "C[row * N + col] = sum;"
BLAS = "C[row * N + col] = beta == 0.0f ? alpha * sum : alpha * sum + beta * C[row * N + col];"
ABC = "const float* A, const float* B, float* C"


def kernel(parameters: str, *body: str, before: str = "", name: str = "mine") -> str:
    return f"{before}\n__global__ void {name}({parameters}) {{\n    " + "\n    ".join(body) + "\n}\n"


TILED = """
#define TILE 16
__global__ void tiled(const float* __restrict__ A, const float* __restrict__ B, float* C, int M, int N, int K) {
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int ty = threadIdx.y, tx = threadIdx.x;
    int row = blockIdx.y * TILE + ty;
    int col = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
        Bs[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
"""
HOST = """
#include <cstdio>
#include <cuda_runtime.h>
int main() {
    float *A, *B, *C;
    cudaMalloc(&A, 4096); cudaMalloc(&B, 4096); cudaMalloc(&C, 4096);
    dim3 block(16, 16), grid(2, 2);
    mine<<<grid, block>>>(A, B, C, 32, 32, 16);
    cudaDeviceSynchronize();
    printf("done\\n");
    return 0;
}
"""
PLAIN = kernel(f"{ABC}, int M, int N, int K", PLACE_2D, GUARD, SUM, STORE)

RIGHT: dict[str, tuple[str, str]] = {
    "M,N,K,alpha,A,B,beta,C": (
        kernel("int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C",
               PLACE_2D, GUARD, SUM, BLAS), ""),
    "A,B,C,M,N,K": (PLAIN, ""),
    "C,A,B,M,N,K": (kernel("float* C, const float* A, const float* B, int M, int N, int K",
                           PLACE_2D, GUARD, SUM, STORE), ""),
    "d_A and sizes": (
        kernel("float *d_A, float *d_B, float *d_C, int m, int n, int k", "int M = m, N = n, K = k;",
               "float *A = d_A, *B = d_B, *C = d_C;", PLACE_2D, GUARD, SUM, STORE), ""),
    "only N": (kernel(f"{ABC}, int N", "int M = N, K = N;", PLACE_2D, GUARD, SUM, STORE), "--k 32"),
    "size_t and unsigned": (kernel(f"{ABC}, size_t M, unsigned int N, unsigned K", PLACE_2D, GUARD, SUM, STORE), ""),
    "leading dimensions": (
        kernel("int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, "
               "float* C, int ldc", PLACE_2D, GUARD, SUM.replace("row * K", "row * lda").replace("k * N", "k * ldb"),
               BLAS.replace("row * N", "row * ldc")), ""),
    "x walks rows": (
        kernel(f"{ABC}, int M, int N, int K", "int row = blockIdx.x * blockDim.x + threadIdx.x;",
               "int col = blockIdx.y * blockDim.y + threadIdx.y;", GUARD, SUM, STORE), "--m 48"),
    "siboehm's x and y": (
        kernel(f"{ABC}, int M, int N, int K", "const uint x = blockIdx.x * blockDim.x + threadIdx.x;",
               "const uint y = blockIdx.y * blockDim.y + threadIdx.y;", "if (x < M && y < N) {",
               SUM.replace("row", "x").replace("col", "y"), STORE.replace("row", "x").replace("col", "y"), "}"),
        "--m 48"),
    "one-dimensional blocks": (
        kernel(f"{ABC}, int M, int N, int K", "int row = blockIdx.y * BS + threadIdx.x / BS;",
               "int col = blockIdx.x * BS + threadIdx.x % BS;", GUARD, SUM, STORE, before="#define BS 16"), ""),
    "a constexpr tile": (
        kernel(f"{ABC}, int M, int N, int K", "int row = blockIdx.y * TILE + threadIdx.y;",
               "int col = blockIdx.x * TILE + threadIdx.x;", GUARD, SUM, STORE,
               before="constexpr int TILE = 8;"), ""),
    "shared tiles": (TILED, ""),
    "host code beside it": (PLAIN + HOST, ""),
    "a template that its host code launches": (
        "template <int TILE>\n" + PLAIN.replace("blockDim.x", "TILE").replace("blockDim.y", "TILE")
        + HOST.replace("mine<<<", "mine<16><<<"), ""),
    "C read at beta 0": (
        kernel("int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C",
               PLACE_2D, GUARD, SUM, BLAS.replace("beta == 0.0f ? alpha * sum : ", "")), ""),
    "host code beside it, guarded": (PLAIN + f"#ifndef __CUDACC_RTC__{HOST}#endif", ""),
    "host headers": ("#include <cstdio>\n#include <cuda_runtime.h>\n#include <cublas_v2.h>\n" + PLAIN, ""),
    "a template": ("template <const int TILE>\n" + PLAIN.replace("blockDim.x", "TILE"), "-DTILE=16 --block 16,16"),
    "a struct that is not read": (PLAIN.replace("int K", "int K, dim3 tiles"), ""),
    "extern C": (PLAIN.replace("__global__", 'extern "C" __global__'), ""),
    "half inputs": (kernel("const __half* A, const __half* B, float* C, int M, int N, int K", PLACE_2D, GUARD,
                           SUM.replace("A[row * K + k]", "__half2float(A[row * K + k])")
                           .replace("B[k * N + col]", "__half2float(B[k * N + col])"), STORE,
                           before="#include <cuda_fp16.h>"), ""),
    "a type of its own": ("typedef float real;\n" + PLAIN.replace("float*", "real*"), ""),
    "several, one chosen": (PLAIN + kernel("float* x", "x[0] = 1;", name="other"), "--entry mine"),
    "a signature declared": (kernel("const float* p, const float* q, float* r, int M, int N, int K",
                                    "const float *A = p, *B = q; float* C = r;", PLACE_2D, GUARD, SUM, STORE),
                             "--signature A,B,C,M,N,K"),
    "declared in a comment": (
        "// gemmsmith: block=8,4 grid=ceil(N/8),ceil(M/4)\n" + PLAIN, ""),
    "grid and block given": (PLAIN, "--block 8,8 --grid ceil(N/8),ceil(M/8)"),
    "dynamic shared memory": (
        kernel(f"{ABC}, int M, int N, int K", "extern __shared__ float buffer[];", PLACE_2D, GUARD, SUM,
               "buffer[threadIdx.y * blockDim.x + threadIdx.x] = sum;",
               "C[row * N + col] = buffer[threadIdx.y * blockDim.x + threadIdx.x];"), "--block 8,8 --smem 4*8*8"),
    "a macro given": (
        kernel(f"{ABC}, int M, int N, int K", "int row = blockIdx.y * W + threadIdx.y;",
               "int col = blockIdx.x * W + threadIdx.x;", GUARD, SUM, STORE),
        "-DW=8 --block W,W --grid ceil(N/W),ceil(M/W)"),
}  # fmt: skip


def check(folder: Path, source: str, options: str = "") -> int:
    path = folder / "mine.cu"
    path.write_text(source, encoding="utf-8")
    return run_command(["check", str(path), *SIZE, *shlex.split(options)])


def check_json(folder: Path, source: str, capsys: pytest.CaptureFixture[str], options: str = "") -> tuple[int, Any]:
    code = check(folder, source, f"{options} --json")
    said = capsys.readouterr()
    assert said.err == ""
    return code, json.loads(said.out)


@pytest.mark.parametrize("style", RIGHT)
def test_a_correct_kernel_passes_unchanged(style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, options = RIGHT[style]
    code, facts = check_json(tmp_path, source, capsys, options)
    assert code == 0, facts
    assert facts["ok"] is True
    assert {"kernel", "entry", "ok", "arch", "registers", "static_smem", "trials", "not_run"} <= facts.keys()
    assert facts["not_run"] == []
    schedules = {trial["schedule"] for trial in facts["trials"]}
    assert {"lockstep", "in_order", "reversed", "random", "starved"} <= schedules


WRONG_RESULT: dict[str, tuple[str, str]] = {
    "a transposed tile": (TILED.replace("Bs[ty][tx] =", "Bs[tx][ty] ="), "wrong"),
    "no barrier after loading": (TILED.replace("        __syncthreads();\n", "", 1), " race on |uninitialised"),
    "no barrier before reloading": (
        TILED.replace("tx];\n        __syncthreads();\n", "tx];\n"), " race on "),
    "one term too few": (PLAIN.replace("k < K", "k < K - 1"), "wrong"),
    "one term too many": (PLAIN.replace("k < K", "k <= K"), "out-of-bounds|wrong"),
    "alpha forgotten": (RIGHT["M,N,K,alpha,A,B,beta,C"][0].replace("alpha * sum", "sum"), "wrong"),
    "beta forgotten": (RIGHT["M,N,K,alpha,A,B,beta,C"][0].replace("+ beta *", "+ 0.0f *"), "wrong"),
    "nothing written": (
        PLAIN.replace(STORE, "if (sum == 12345.0f) " + STORE) + "void run(float* A, float* B, float* C, int M, int N, "
        "int K) { mine<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K); }\n",
        "written|unwritten"),
    "row and column swapped": (PLAIN.replace("C[row * N + col]", "C[col * N + row]"), "wrong|out-of-bounds"),
    "an input overwritten": (PLAIN.replace(STORE, STORE + " ((float*)A)[row * K] = 0;"), "input was changed|wrong"),
}  # fmt: skip


UNGUARDED = {
    "the store": TILED.replace("if (row < M && col < N) C", "C"),
    "the loads": TILED.replace("row < M && k0 + tx < K ? ", "").replace("] : 0.0f;", "];", 1),
}


@pytest.mark.parametrize("what", UNGUARDED)
def test_whole_tiles_only_is_a_warning_and_strictly_a_failure(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert UNGUARDED[what] != TILED
    code, facts = check_json(tmp_path, UNGUARDED[what], capsys)
    assert (code, facts["ok"], facts["status"]) == (0, True, "whole_tiles")
    assert "right for whole tiles only" in facts["warnings"][-1]
    last = facts["trials"][-1]
    assert last["ok"] is False
    assert any("out-of-bounds" in reason or "wrong" in reason for reason in last["reasons"])
    code, facts = check_json(tmp_path, UNGUARDED[what], capsys, "--strict")
    assert (code, facts["ok"], facts["status"]) == (1, False, "whole_tiles")


@pytest.mark.parametrize("mistake", WRONG_RESULT)
def test_a_wrong_kernel_is_caught_and_named(mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, reason = WRONG_RESULT[mistake]
    assert source not in (TILED, PLAIN, RIGHT["M,N,K,alpha,A,B,beta,C"][0])
    code, facts = check_json(tmp_path, source, capsys)
    assert code == 1
    assert facts["ok"] is False
    last = facts["trials"][-1]
    found = [*last["reasons"], *(damage["text"] for damage in last["damage"])]
    text = " ".join([*found, "unwritten"] if last["unwritten"] else found)
    assert any(word in text for word in reason.split("|")), text
    assert shlex.split(last["repeat"])[0] == "gemmsmith"


def test_reading_c_at_beta_0_is_a_warning_and_strictly_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = RIGHT["C read at beta 0"][0]
    assert source != RIGHT["M,N,K,alpha,A,B,beta,C"][0]
    code, facts = check_json(tmp_path, source, capsys)
    assert code == 0
    assert "C must not be read when beta = 0" in facts["warnings"][0]
    code, facts = check_json(tmp_path, source, capsys, "--strict")
    assert code == 1
    assert facts["warnings"] == []
    assert check_json(tmp_path, RIGHT["M,N,K,alpha,A,B,beta,C"][0], capsys, "--strict")[0] == 0


def test_the_text_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, WRONG_RESULT["one term too few"][0]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    assert "WRONG" in said.out
    assert "repeat: gemmsmith" in said.out
    assert max(len(line) for line in said.out.splitlines() if "repeat: " not in line) <= 100


def test_all_kernels_of_a_file_are_checked_unless_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = PLAIN.replace("mine", "other").replace("k = 0", "k = 1")
    assert wrong.count("k = 1") == 1
    launches = HOST.replace("mine<<<", "other<<<grid, block>>>(A, B, C, 32, 32, 16);\n    mine<<<")
    both = PLAIN + wrong + launches
    assert check(tmp_path, both) == 1
    said = capsys.readouterr().out
    assert "2 kernels: 1 right, 1 wrong" in said
    assert check(tmp_path, both, "--entry mine") == 0


REFUSED = {
    "an unknown signature": (kernel("float* p, float* q, int n", "p[0] = q[0];"), "", 2, "takes 2 pointers (p, q)"),
    "a scalar product": (kernel("const float* A, const float* B, int N", ";"), "", 2, "takes 2 pointers (A, B), not"),
    "no kernel": ("int main() { return 0; }\n", "", 2, "no __global__ function"),
    "an empty file": ("", "", 2, "no __global__ function"),
    "an entry that is not there": (PLAIN, "--entry yours", 2, "no __global__ function named 'yours'"),
    "a bad role": (PLAIN, "--signature A,B,C,X,N,K", 2, "unknown role 'X'"),
    "too few roles": (PLAIN, "--signature A,B,C", 2, "has 3 roles, but mine takes 6"),
    "a bad grid": (PLAIN, "--grid N//0", 2, "--grid|grid|zero"),
    "a grid of four": (PLAIN, "--grid 1,1,1,1", 2, "has 4 parts"),
    "a grid that is no number": (PLAIN, "--grid __import__('os')", 2, ""),
    "an unknown directive": ("// gemmsmith: blocks=3\n" + PLAIN, "", 2, "unknown directive 'blocks'"),
    "a preset": (PLAIN, "--preset x", 2, "a file has no presets"),
    "packed inputs": (PLAIN.replace("float* B", "int* B").replace("B[k * N + col]", "(B[k * N + col] + 2 & 15)"), "", 2,
                      "explains its result"),
    "an unknown type": (PLAIN.replace("float*", "wchar_t*"), "", 2, "A points to wchar_t"),
    "a struct": (PLAIN.replace("int K", "int K, ulonglong2 tiles"), "", 2, "tiles is passed as ulonglong2"),
    "a struct with a number that counts": (
        PLAIN.replace("int K", "int K, dim3 tiles").replace("= sum", "= tiles.x > 3 ? 0.5f * sum : sum"), "", 2,
        "what tiles.x means is not clear"),
    "arrays of arrays": (PLAIN.replace("const float* B", "const float*** B"), "", 2, "B points to arrays of pointers"),
    "a loop without end": (PLAIN.replace(STORE, "while (K >= 0) sum *= 0.5f;\n    " + STORE), "--timeout 1", 2,
                           "may never end"),
    "a template over a type that is not there": (
        "template <class Tiles>\n" + PLAIN.replace("++k", "k += Tiles::step"), "", 2, "does not compile"),
    "a syntax error": (PLAIN.replace("sum += A", "sum += + * A"), "", 2, "error"),
    "an unknown function": (PLAIN.replace("sum += A", "sum += nonsuch(1) + A"), "", 2, "nonsuch"),
    "a block too large": (PLAIN, "--block 64,64", 2, "has 4,096 threads; a block has at most 1,024"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refusals_say_why(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, options, expected, message = REFUSED[what]
    assert check(tmp_path, source, options) == expected
    said = capsys.readouterr()
    text = " ".join((said.err + said.out).split())
    assert "Traceback" not in text
    assert not message or any(word in text for word in message.split("|")), text
    if expected == 2:
        assert said.out == ""
        assert said.err.startswith("error: ")
        if "does not compile" not in said.err:  # the compiler's own lines are shown
            assert len(said.err.splitlines()) <= 4, "a message and a hint, wrapped"


def test_a_syntax_error_is_shown_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, PLAIN.replace("float sum = 0.0f;", "float sum = ;")) == 2
    assert "mine.cu" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["missing.cu", "folder.cu", "binary.cu"])
def test_files_that_cannot_be_read(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder.cu").mkdir()
    (tmp_path / "binary.cu").write_bytes(b"\xff\xfe\x00__global__")
    assert run_command(["check", str(tmp_path / path)]) == 2
    said = capsys.readouterr().err
    assert path in said
    assert len(said.splitlines()) <= 4, "a message and a hint, wrapped"
