"""gemmsmith check on signatures, types and layouts as people write them: each gets a true verdict, as it is."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command

ROW_COL = "int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;"
SIZE = "--m 32 --n 64 --k 16"


def product(parameters: str, a: str = "A[row * K + k]", b: str = "B[k * N + col]", c: str = "C[row * N + col]",
            rows: str = "M", columns: str = "N", depth: str = "K", store: str = "{c} = s", total: str = "float",
            before: str = "", extra: str = "", loop: str = "", zero: str = "0") -> str:  # fmt: skip
    """A naive kernel with this signature and these indices."""
    done = store.format(c=c)
    return f"""{before}
__global__ void mine({parameters}) {{
    {extra}
    {ROW_COL}
    if (row >= {rows} || col >= {columns}) return;
    {total} s = {zero};
    {loop}
    for (int k = 0; k < {depth}; ++k) s += {a} * {b};
    {done};
}}
"""


ABC, MNK = "const float* A, const float* B, float* C", "int M, int N, int K"
HALF = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
BLAS = "{c} = alpha * s + beta * {c}"
LD = "int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C, int ldc"


def check(folder: Path, source: str, capsys: pytest.CaptureFixture[str], options: str = SIZE) -> tuple[int, Any]:
    path = folder / "mine.cu"
    path.write_text(source, encoding="utf-8")
    code = run_command(["check", str(path), *shlex.split(options), "--json"])
    said = capsys.readouterr()
    assert said.err == "", said.err
    return code, json.loads(said.out)


# --- names and use

NAMED: dict[str, str] = {
    "letters of a book": product("float* M, float* N, float* P, int Width", "M[row * Width + k]", "N[k * Width + col]",
                                 "P[row * Width + col]", "Width", "Width", "Width"),
    "the samples' wA and wB": product("float *C, float *A, float *B, int wA, int wB", "A[row * wA + k]",
                                      "B[k * wB + col]", "C[row * wB + col]", "(1 << 30)", "wB", "wA").replace(
                                          "if (row >= (1 << 30) || col >= wB) return;", ""),
    "hA, wA, wB": product("const float* a, const float* b, float* c, int hA, int wA, int wB", "a[row * wA + k]",
                          "b[k * wB + col]", "c[row * wB + col]", "hA", "wB", "wA"),
    "rows and columns of each": product(
        "float* d_A, float* d_B, float* d_C, int numARows, int numAColumns, int numBRows, int numBColumns, "
        "int numCRows, int numCColumns", "d_A[row * numAColumns + k]", "d_B[k * numBColumns + col]",
        "d_C[row * numCColumns + col]", "numCRows", "numCColumns", "numBRows"),
    "x, w and y": product("const float* x, const float* w, float* y, int M, int N, int K", "x[row * K + k]",
                          "w[k * N + col]", "y[row * N + col]"),
    "lhs, rhs, out": product("const float* lhs, const float* rhs, float* out, int m, int n, int k_",
                             "lhs[row * k_ + k]", "rhs[k * n + col]", "out[row * n + col]", "m", "n", "k_"),
    "mat1, mat2, and the output first": product(
        "float* res, const float* mat1, const float* mat2, size_t rows, size_t inner, size_t cols",
        "mat1[row * inner + k]", "mat2[k * cols + col]", "res[row * cols + col]", "rows", "cols", "inner"),
    "names that say nothing": product("const float* p, const float* q, float* r, int a, int b, int c",
                                      "p[row * b + k]", "q[k * c + col]", "r[row * c + col]", "a", "c", "b"),
    "m, n and p": product("const float* A, const float* B, float* C, int m, int n, int p", "A[row * n + k]",
                          "B[k * p + col]", "C[row * p + col]", "m", "p", "n"),
    "m the columns": product(f"{ABC}, int m, int n, int k_", "A[row * k_ + k]", "B[k * m + col]", "C[row * m + col]",
                             "n", "m", "k_"),
    "channels": product("float* out, const float* inp, const float* weight, const float* bias, int BT, int C, int OC",
                        "inp[row * C + k]", "weight[col * C + k]", "out[row * OC + col]", "BT", "OC", "C",
                        store="{c} = s + (bias ? bias[col] : 0.0f)"),
    "a separate D": product("const float* A, const float* B, const float* C, float* D, int M, int N, int K, "
                            "float alpha, float beta", c="D[row * N + col]",
                            store="{c} = alpha * s + beta * C[row * N + col]"),
    "scalars of template type": product(
        "size_t m, size_t n, size_t k_, T alpha, T const* A, size_t lda, T const* B, size_t ldb, T beta, T* C, "
        "size_t ldc",
        "A[row * lda + k]", "B[k * ldb + col]", "C[row * ldc + col]", "m", "n", "k_", store=BLAS,
        before="template <typename T>"),
    "const everywhere": product("const float* const __restrict__ A, float const* __restrict__ const B, "
                                "float*__restrict__ C, const int M, const unsigned N, const long long K"),
    "no alpha, but beta": product(f"{ABC}, {MNK}, float beta", store="{c} = s + beta * {c}"),
    "a fixed size": product(ABC, before="#define M 64\n#define N 32\n#define K 16"),
    "a fixed square": product(ABC, "A[row * N + k]", depth="N", rows="N", before="constexpr int N = 32;"),
    "float4 pointers": product(f"const float4* A4, const float4* B4, float4* C4, {MNK}", extra=(
        "const float* A = (const float*)A4; const float* B = (const float*)B4; float* C = (float*)C4;")),
    "void pointers": product(f"const void* a, const void* b, void* c, {MNK}", extra=(
        "const float* A = (const float*)a; const float* B = (const float*)b; float* C = reinterpret_cast<float*>(c);")),
    "C += A·B": product(f"{ABC}, {MNK}", store="{c} += s"),
    "atomicAdd": product(f"{ABC}, {MNK}", store="atomicAdd(&{c}, s)"),
}  # fmt: skip


@pytest.mark.parametrize("style", NAMED)
def test_parameters_are_understood(style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = "" if "fixed" in style else "--m 32 --n 32 --k 32" if "book" in style else SIZE
    code, facts = check(tmp_path, NAMED[style], capsys, given)
    status = "whole_tiles" if "samples" in style else "right"  # they have no guards
    assert (code, facts["ok"], facts["status"]) == (0, True, status), facts


def test_what_was_found_by_trying_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for style, said in {
        "names that say nothing": "found by trying: a is M, b is K, c is N",
        "m the columns": "found by trying: m is N, n is M",
        "C += A·B": "it adds to C: C += A·B, so beta is 1",
        "the samples' wA and wB": "it has no parameter for M: the grid sets it",
        "channels": "this is a row-major kernel with B transposed (NT)",
    }.items():
        _, facts = check(tmp_path, NAMED[style], capsys)
        assert said in facts["found"], style
    _, facts = check(tmp_path, NAMED["names that say nothing"], capsys)
    assert "--signature A,B,C,M,K,N" in facts["next"]


# --- types

ONE_BY_ONE = "\n#pragma unroll 1\n"
TYPED: dict[str, str] = {
    "half to half": product(f"const half* A, const half* B, half* C, {MNK}", "__half2float(A[row * K + k])",
                            "__half2float(B[k * N + col])", store="{c} = __float2half(s)", before=HALF),
    "half accumulators": product(f"const half* A, const half* B, half* C, {MNK}", before=HALF, total="half",
                                 zero="__float2half(0.0f)"),
    "half alpha and beta": product(f"{MNK}, half alpha, const half* A, const half* B, half beta, half* C",
                                   "__half2float(A[row * K + k])", "__half2float(B[k * N + col])", before=HALF, store=(
        "{c} = __float2half(__half2float(alpha) * s + __half2float(beta) * __half2float({c}))")),
    "bf16 to bf16": product(f"const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, {MNK}",
                            "__bfloat162float(A[row * K + k])", "__bfloat162float(B[k * N + col])",
                            store="{c} = __float2bfloat16(s)", before=HALF),
    "int8 to int32": product(f"const int8_t* A, const int8_t* B, int32_t* C, {MNK}", total="int",
                             before="#include <cstdint>", loop=ONE_BY_ONE),
    "int8 to float": product(f"const char* A, const char* B, float* C, {MNK}", total="int", loop=ONE_BY_ONE),
    "uint8 to int32": product(f"const unsigned char* A, const unsigned char* B, int* C, {MNK}", total="int",
                              loop=ONE_BY_ONE),
    "int to int": product("int* a, int* b, int* c, int N", "a[row * N + k]", "b[k * N + col]", "c[row * N + col]", "N",
                          "N", "N", total="int"),
    "unsigned to unsigned, scaled": product(f"{MNK}, int alpha, const unsigned* A, const unsigned* B, int beta, "
                                            "unsigned* C", store=BLAS, total="unsigned"),
}  # fmt: skip


@pytest.mark.parametrize("style", TYPED)
def test_types(style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = check(tmp_path, TYPED[style], capsys, "--m 32 --n 32 --k 32" if style == "int to int" else SIZE)
    assert (code, facts["status"]) == (0, "right"), facts


@pytest.mark.parametrize("style", TYPED)
def test_one_term_too_few_in_every_type(style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = TYPED[style].replace("int k = 0;", "int k = 1;")
    code, facts = check(tmp_path, wrong, capsys, "--m 32 --n 32 --k 32" if style == "int to int" else SIZE)
    assert (code, facts["status"]) == (1, "wrong"), facts


# --- layouts

BY_COLUMN = {"A": "A[row + k * {lda}]", "B": "B[k + col * {ldb}]", "C": "C[row + col * {ldc}]"}
BY_ROW = {"A": "A[row * {lda} + k]", "B": "B[k * {ldb} + col]", "C": "C[row * {ldc} + col]"}
STORED = {"NN": "rrr", "NT": "rcr", "TN": "crr", "TT": "ccr", "col": "ccc", "col-NT": "crc", "col-TN": "rcc",
          "col-TT": "rrc"}  # fmt: skip


def stored(word: str, leading: bool) -> str:
    orders = dict(zip("ABC", STORED[word], strict=True))
    tight = {"A": ("M", "K"), "B": ("K", "N"), "C": ("M", "N")}
    index = {}
    for name, order in orders.items():
        ld = f"ld{name.lower()}" if leading else tight[name][order == "r"]
        index[name] = (BY_ROW if order == "r" else BY_COLUMN)[name].format(lda=ld, ldb=ld, ldc=ld)
    return product(LD if leading else f"{ABC}, {MNK}", index["A"], index["B"], index["C"],
                   store=BLAS if leading else "{c} = s")  # fmt: skip


@pytest.mark.parametrize("leading", [False, True])
@pytest.mark.parametrize("word", STORED)
def test_every_layout_is_recognised(
    word: str, leading: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, facts = check(tmp_path, stored(word, leading), capsys)
    assert (code, facts["status"]) == (0, "column_major" if word.startswith("col") else "right"), facts
    assert ("padded rows" in [trial["label"] for trial in facts["trials"]]) == leading
    shapes = {(t["problem"]["m"], t["problem"]["n"]) for t in facts["trials"] if t["label"] == "random data"}
    assert shapes == {(32, 64)}
    if word == "NN":
        assert facts["found"] == []
    else:
        assert facts["found"][0].startswith("this is a ")
        assert f"--layout {word}" in facts["next"]
    code, facts = check(tmp_path, stored(word, leading), capsys, f"{SIZE} --layout {word}")
    assert (code, facts["ok"]) == (0, True)


def test_a_column_major_kernel_says_so_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.cu").write_text(stored("col", False), encoding="utf-8")
    assert run_command(["check", str(tmp_path / "mine.cu")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mine: this is a column-major kernel"
    assert any(line.startswith("mine is right (column-major): ") and " trials passed" in line for line in lines)
    assert lines[-1].startswith("next: gemmsmith explain ")
    assert lines[-1].endswith("--layout col")


WRONG = {
    "one term missing in a column-major kernel": stored("col", False).replace("k < K", "k < K - 1"),
    "A with B's stride": stored("NN", False).replace("A[row * K + k]", "A[row * N + k]"),
    "C transposed, with the wrong stride": stored("NN", False).replace("C[row * N + col]", "C[col * N + row]"),
    "alpha where beta belongs": stored("col", True).replace("beta * C", "alpha * C"),
    "a leading dimension ignored": stored("NN", True).replace("A[row * lda", "A[row * K"),
    "an extent for a leading dimension, by column": stored("col", True).replace("k * lda]", "k * M]"),
    "half of B": stored("NN", False).replace("B[k * N + col]", "B[k / 2 * N + col]"),
    "the same row for all": stored("NN", False).replace("A[row * K", "A[0 * K"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_kernel_is_not_another_layout(mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert WRONG[mistake] not in (stored("NN", False), stored("NN", True), stored("col", False), stored("col", True))
    code, facts = check(tmp_path, WRONG[mistake], capsys)
    assert (code, facts["status"]) == (1, "wrong"), facts
    assert facts["next"] == ""


def test_another_layout_than_given_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, stored("col", False), capsys, f"{SIZE} --layout NN")[0] == 1
    assert check(tmp_path, stored("NN", False), capsys, f"{SIZE} --layout col-NT")[0] == 1


def test_a_name_that_says_otherwise_is_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In row-major terms, or in those of BLAS, where nt is A by columns and B by rows: TN of row-major matrices."""
    plain = stored("NN", False).replace("mine", "gemm_nt")
    assert check(tmp_path, plain, capsys)[0] == 1
    assert check(tmp_path, plain, capsys, f"{SIZE} --layout NN")[0] == 0
    assert check(tmp_path, stored("TT", False).replace("mine", "gemm_nt"), capsys)[0] == 1
    for layout in ("NT", "TN"):
        assert check(tmp_path, stored(layout, False).replace("mine", "gemm_nt"), capsys)[0] == 0


def test_host_code_that_says_otherwise_is_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = """
void run(float* a, float* b, float* c, int m, int n, int k) {
    mine<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(m, n, k, 1.0f, a, k, b, n, 0.0f, c, n);
}
"""
    assert check(tmp_path, stored("NN", True) + host, capsys)[0] == 0
    code, _ = check(tmp_path, stored("col", True) + host, capsys)
    assert code == 1


# --- batches

BATCHED = product("const float* A, const float* B, float* C, int M, int N, int K, long long strideA, "
                  "long long strideB, long long strideC, int batch_count", extra=(
                      "A += blockIdx.z * strideA; B += blockIdx.z * strideB; C += blockIdx.z * strideC;"))  # fmt: skip
LOOPED = """
__global__ void mine(const float* A, const float* B, float* C, int batch, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    for (int i = 0; i < batch; ++i) {
        float s = 0;
        for (int k = 0; k < K; ++k) s += A[(i * M + row) * K + k] * B[(i * K + k) * N + col];
        C[(i * M + row) * N + col] = s;
    }
}
"""


@pytest.mark.parametrize("source", [BATCHED, LOOPED])
def test_batches(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = check(tmp_path, source, capsys)
    assert (code, facts["status"]) == (0, "right"), facts
    assert "a batch of three" in [trial["label"] for trial in facts["trials"]]
    wrong = source.replace("blockIdx.z * strideB", "0 * strideB").replace("(i * K + k)", "(i / 2 * K + k)")
    code, facts = check(tmp_path, wrong, capsys)
    assert (code, facts["trials"][-1]["label"]) == (1, "a batch of three")


# --- launches that no file shows

SEARCHED = """
#define Ms 16
#define Ns 32
__global__ void mine(int M, int N, int K, const float* A, const float* B, float* C) {
    int row0 = blockIdx.x * Ms, col0 = blockIdx.y * Ns;
    for (int i = 0; i < 8; ++i) {
        int t = threadIdx.x + 64 * i, row = row0 + t / Ns, col = col0 + t % Ns;
        float s = 0;
        for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
        C[row * N + col] = s;
    }
}
"""
BY_COLUMNS = SEARCHED.replace("A[row * K + k] * B[k * N + col]", "A[row + k * M] * B[k + col * K]").replace(
    "C[row * N + col]", "C[row + col * M]")  # fmt: skip
ACROSS = SEARCHED.replace("blockIdx.x * Ms", "blockIdx.y * Ms").replace("blockIdx.y * Ns", "blockIdx.x * Ns")
LINEAR = SEARCHED.replace("blockIdx.x * Ms", "blockIdx.x / (N / Ns) * Ms").replace(
    "blockIdx.y * Ns", "blockIdx.x % (N / Ns) * Ns")  # fmt: skip


@pytest.mark.parametrize(
    ("source", "launch"),
    [
        (SEARCHED, "--grid 'ceil(M/16),ceil(N/32)' --block 64"),
        (BY_COLUMNS, "--grid 'ceil(M/16),ceil(N/32)' --block 64"),
        (ACROSS, "--grid 'ceil(N/32),ceil(M/16)' --block 64"), (LINEAR, "--grid 'ceil(M/16)*ceil(N/32)' --block 64"),
    ],
)  # fmt: skip
def test_a_launch_is_found_by_running_single_blocks(
    source: str, launch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, facts = check(tmp_path, source, capsys, "")
    assert (code, facts["status"]) == (0, "whole_tiles"), facts
    assert facts["launch"]["source"] == "found by trying"
    assert f"its launch was found by trying: {launch}" in facts["found"]
    assert launch in facts["next"]
    code, facts = check(tmp_path, source, capsys, f"--m 64 --n 32 --k 16 {launch}")
    assert (code, facts["launch"]["source"]) == (0, "given")


def test_a_launch_that_is_not_found_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = SEARCHED.replace("s += A", "s += 2 * A")
    (tmp_path / "mine.cu").write_text(wrong, encoding="utf-8")
    assert run_command(["check", str(tmp_path / "mine.cu")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "no host code launches it" in said
    assert "--grid" in said
    given = ["--grid", "ceil(M/16),ceil(N/32)", "--block", "64"]
    assert run_command(["check", str(tmp_path / "mine.cu"), *given]) == 1


# --- refusals


def test_a_wrong_kernel_whose_names_say_nothing_is_read_by_its_indices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.cu"
    open_roles = product("const float* p, const float* q, float* r, int a, int b, int c", "p[row * b + k]",
                         "q[k * c + col]", "r[row * c + col]", "a", "c", "b")  # fmt: skip
    file.write_text(open_roles.replace("k < b", "k < b - 1"), encoding="utf-8")
    assert run_command(["check", str(file), *shlex.split(SIZE)]) == 1
    assert "a is M, b is K, c is N" in " ".join(capsys.readouterr().out.split())
    file.write_text(open_roles.replace("p[row * b + k]", "p[row * b + k] * 0.5f"), encoding="utf-8")
    assert run_command(["check", str(file), *shlex.split(SIZE)]) == 2  # half of a product may be meant
    assert run_command(["check", str(file), *shlex.split(SIZE), "--signature", "A,B,C,M,K,N"]) == 1


def test_other_commands_find_open_roles_by_trying(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.cu").write_text(NAMED["names that say nothing"], encoding="utf-8")
    assert run_command(["run", str(tmp_path / "mine.cu"), *shlex.split(SIZE)]) == 0
    assert "found by trying: a is M, b is K, c is N" in " ".join(capsys.readouterr().err.split())
    given = ["--signature", "A,B,C,M,K,N", "--device", "sim"]
    assert run_command(["run", str(tmp_path / "mine.cu"), *shlex.split(SIZE), *given]) == 0
