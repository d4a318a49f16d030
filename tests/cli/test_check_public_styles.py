"""gemmsmith check on what files of public repositories leave open: sizes that are fixed and too large, padded
allocations, structs, arrays of pointers, templates that nothing launches, dispatch macros. A twin that is made wrong
fails in each style."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checking import check

from gemmsmith.cli.main import run_command

ROW = "int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;"
LOOP = "float s = 0; for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];"
GRID = "dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)"


# --- sizes that the file fixes

FIXED = """
#define TILE 16
#define M_BLOCKS 256
#define N_BLOCKS 256
const int k_blocks = 256;
#define M_GLOBAL (TILE * M_BLOCKS)
#define N_GLOBAL (TILE * N_BLOCKS)
#define K_GLOBAL (TILE * k_blocks)
#define WIDE 0
#if WIDE
#define THREADS 64
#else
#define THREADS 16
#endif
__global__ void fixed(const float* A, const float* B, float* C) {
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float s = 0;
    for (int k = 0; k < K_GLOBAL; ++k) s += A[row * STRIDE + k] * B[k * N_GLOBAL + col];
    C[row * N_GLOBAL + col] = s;
}
int main() {
    float *a, *b, *c;
    fixed<<<dim3(N_GLOBAL / TILE / TIMES, M_GLOBAL / TILE / TIMES), dim3(THREADS, TILE)>>>(a, b, c);
}
"""


def fixed(stride: str = "K_GLOBAL") -> str:
    # A few blocks that each compute much would take minutes; with TIMES 1 three blocks are sampled.
    return (
        FIXED.replace("STRIDE", stride)
        .replace("TIMES", "1")
        .replace(
            "float s = 0;",
            "for (; row < M_GLOBAL; row += gridDim.y * TILE) for (int j = col; j < N_GLOBAL; j += "
            "gridDim.x * TILE) { float s = 0;",
        )
        .replace("* N_GLOBAL + col]", "* N_GLOBAL + j]")
        .replace("= s;\n", "= s; }\n")
        .replace("dim3(N_GLOBAL / TILE / 1, M_GLOBAL / TILE / 1)", "dim3(2, 2 + 0 * M_GLOBAL)")
    )


def test_sizes_that_take_too_long_are_made_smaller_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, fixed(), capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert "M_BLOCKS=16, N_BLOCKS=8, k_blocks=12 (in the file: 256, 256, 256)" in found["found"][0]
    assert found["trials"][0]["problem"]["k"] == 192
    assert found["launch"]["block"] == [16, 16, 1]  # the branch of #if that is taken
    code, found = check(tmp_path, fixed(stride="N_GLOBAL + 1"), capsys, "-D", "M_BLOCKS=2", "-D", "N_BLOCKS=4", "-D",
                        "k_blocks=3")  # fmt: skip
    assert (code, found["status"]) == (1, "wrong")
    code, found = check(tmp_path, fixed(stride="N_GLOBAL"), capsys)  # the file has N = K
    assert (code, found["status"]) == (0, "right")
    assert "M_BLOCKS=16, N_BLOCKS=16, k_blocks=16" in found["found"][0]


def test_the_users_value_wins_over_the_files_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = ("-D", "M_BLOCKS=2", "-D", "N_BLOCKS=4", "-D", "k_blocks=3")
    code, found = check(tmp_path, fixed(), capsys, *values)
    assert (code, found["status"]) == (0, "right"), found
    assert {trial["problem"]["k"] for trial in found["trials"]} == {48}


# --- restrictions and what is ignored

HOST = "void run(int M, int N, int K, float* a, float* b, float* c) {{ k<<<{grid}>>>({args}); }}\n"


def test_a_stride_that_is_another_extent_is_wrong_and_the_case_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"""__global__ void k(int M, int N, int K, const float* A, const float* B, float* C) {{ {ROW}
        if (row >= M || col >= N) return; {LOOP.replace("B[k * N", "B[k * K")} C[row * N + col] = s; }}
        {HOST.format(grid=GRID, args="M, N, K, a, b, c")}"""
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (1, "wrong")
    assert "it is right only when N = K (read as a row-major kernel)" in found["verdict"]


LEADING = "int M, int N, int K, const float* A, int lda, const float* B, int ldb, float* C, int ldc"


def leading(a: str, c: str) -> str:
    loop = LOOP.replace("row * K", f"row * {a}")
    return f"""__global__ void k({LEADING}) {{ {ROW} if (row >= M || col >= N) return; {loop} C[row * {c} + col] = s; }}
        {HOST.format(grid=GRID, args="M, N, K, a, K, b, N, c, N")}"""


def test_ignoring_every_leading_dimension_is_an_interface_ignoring_one_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, leading("K", "N"), capsys)
    assert (code, found["status"]) == (0, "right")
    assert "it ignores lda, ldb, ldc: rows must be contiguous" in found["found"]
    code, found = check(tmp_path, leading("lda", "ldc"), capsys)
    assert (code, found["status"]) == (1, "wrong")  # ldb is forgotten


def test_a_kernel_that_ignores_beta_is_read_in_its_layout_and_fails_for_beta(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = LOOP.replace("B[k * N + col]", "B[col * K + k]")
    source = f"""__global__ void k(const float* A, const float* B, float* C, int M, int N, int K, float alpha,
        float beta) {{ {ROW} if (row >= M || col >= N) return; {loop} C[row * N + col] = alpha * s; }}
        {HOST.format(grid=GRID, args="a, b, c, M, N, K, 1.f, 0.f")}"""
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (1, "wrong")
    assert "this is a row-major kernel with B transposed (NT)" in found["found"]
    assert [trial["label"] for trial in found["trials"] if not trial["ok"]] == ["alpha and beta"]


def test_integers_alpha_and_beta_where_beta_is_divided_by_alpha(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"""__global__ void k(const unsigned char* A, const unsigned char* B, const int* C, int* D, int M, int N,
        int K, int alpha, int beta) {{ {ROW} if (row >= M || col >= N) return; {LOOP.replace("float", "int")}
        D[row * N + col] = alpha * (s + beta / alpha * C[row * N + col]); }}
        {HOST.format(grid=GRID, args="a, b, c, c, M, N, K, 1, 1")}"""
    code, found = check(tmp_path, source, capsys)
    assert (code, [t["label"] for t in found["trials"] if not t["ok"]][-1]) == (1, "alpha and beta")


# --- memory beyond the matrices, and shared memory that is never written

PADDED = """
const int M = 40, N = 24, K = 56, T = 16;
const int MP = M + T - M % T, NP = N + T - N % T, KP = K + T - K % T;
__global__ void k(const float* A, const float* B, float* C) {
    __shared__ float as[T][T], bs[T][T];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float s = 0;
    for (int k0 = 0; k0 < KP; k0 += T) {
        as[threadIdx.y][threadIdx.x] = A[row * K + k0 + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = B[(k0 + threadIdx.y) * N + col];
        __syncthreads();
        for (int k = 0; k < T; ++k) s += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = s;
}
int main() {
    float *a, *b, *c;
    size_t bytes = ROOM * sizeof(float);
    cudaMalloc(&a, bytes);
    cudaMalloc((void**)&b, KP * NP * sizeof(float));
    cudaMalloc(&c, M * N * sizeof(float));
    k<<<dim3(NP / T, MP / T), dim3(T, T)>>>(a, b, c);
}
"""


def test_operands_that_host_code_pads_are_padded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, PADDED.replace("ROOM", "MP * KP"), capsys)
    assert (code, found["status"]) == (0, "whole_tiles"), found
    assert "padded with zeros" in found["verdict"]
    assert "bytes more for A and" in found["found"][0]
    assert check(tmp_path, PADDED.replace("ROOM", "MP * KP"), capsys, "--strict")[0] == 1
    code, found = check(tmp_path, PADDED.replace("ROOM", "M * K"), capsys)  # not padded: what it reads is not its own
    assert (code, found["status"]) == (1, "wrong")
    assert "out-of-bounds" in str(found["trials"])


UNWRITTEN = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float as[16][17], bs[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float s = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        if (row < M) as[threadIdx.y][threadIdx.x] = k0 + threadIdx.x < K ? A[row * K + k0 + threadIdx.x] : 0.f;
        if (col < N) bs[threadIdx.y][threadIdx.x] = k0 + threadIdx.y < K ? B[(k0 + threadIdx.y) * N + col] : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) s += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = s;
}
""" + HOST.format(grid=GRID, args="a, b, c, M, N, K")


def test_unwritten_shared_memory_counts_where_an_output_depends_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, UNWRITTEN, capsys)
    assert (code, found["status"]) == (0, "right")
    used = re.sub(r"k0 \+ threadIdx\.([xy]) < K \? (.*?) : 0\.f;", r"\2;", UNWRITTEN).replace(
        "if (row < M) as", "if (row < M && k0 + threadIdx.x < K) as").replace(
        "if (col < N) bs", "if (col < N && k0 + threadIdx.y < K) bs")  # fmt: skip
    assert used != UNWRITTEN
    code, found = check(tmp_path, used, capsys)
    assert (code, found["status"]) == (1, "wrong")  # K is guarded, and its tail is left from the tile before


# --- parameters

STRUCT = """
typedef struct { int width; int height; STRIDE float* elements; } Matrix;
__device__ void set(Matrix A, int row, int col, float value) { A.elements[row * A.LD + col] = value; }
__global__ void k(const Matrix A, const Matrix B, Matrix C) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= C.height || col >= C.width) return;
    float s = 0;
    for (int k = 0; k < A.width; ++k) s += A.elements[row * A.LD + k] * B.elements[k * B.LD + col];
    set(C, row, col, s);
}
void run(const Matrix A, const Matrix B, Matrix C) {
    Matrix d_A, d_B, d_C;
    dim3 block(16, 16), grid((B.width + 15) / 16, (A.height + 15) / 16);
    k<<<grid, block>>>(d_A, d_B, d_C);
}
"""


@pytest.mark.parametrize("stride", [False, True])
def test_matrices_as_structs(stride: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = STRUCT.replace("STRIDE", "int stride;" if stride else "").replace("LD", "stride" if stride else "width")
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert ("padded rows" in [trial["label"] for trial in found["trials"]]) == stride
    code, found = check(tmp_path, source.replace("k < A.width", "k < B.width"), capsys)
    assert code == 1


BATCHED = """
__global__ void k(int m, int n, int k, const float* const* Aarray, int lda, const float* const* Barray, int ldb,
                  float** Carray, int ldc, int batchCount) {
    const float *A = Aarray[blockIdx.z], *B = Barray[blockIdx.z];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    float s = 0;
    for (int i = 0; i < k; ++i) s += A[row + i * lda] * B[i + col * ldb];
    Carray[blockIdx.z][row + col * ldc] = s;
}
void run(int m, int n, int k, float** A, float** B, float** C, int count) {
    k<<<dim3((n + 15) / 16, (m + 15) / 16, count), dim3(16, 16)>>>(m, n, k, A, m, B, k, C, m, count);
}
"""


def test_arrays_of_pointers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, BATCHED, capsys)
    assert (code, found["status"]) == (0, "column_major"), found
    assert "a batch of three" in [trial["label"] for trial in found["trials"]]
    code, found = check(tmp_path, BATCHED.replace("*B = Barray[blockIdx.z]", "*B = Barray[0]"), capsys)
    assert (code, [trial["label"] for trial in found["trials"] if not trial["ok"]]) == (1, ["a batch of three"])
    assert run_command(["profile", str(tmp_path / "k.cu")]) == 2
    assert "takes arrays of pointers" in capsys.readouterr().err


ROWS_OF_BLOCKS = """
__global__ void k(const float* const* As, const float* const* Bs, float* const* Cs, int m, int n, int k, int batch) {
    const float *A = As[blockIdx.z], *B = Bs[blockIdx.z];
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= m || col >= n) return;
    float s = 0;
    for (int i = 0; i < k; ++i) s += A[row * k + i] * B[i * n + col];
    Cs[blockIdx.z][row * n + col] = s;
}
void run(int m, int n, int k, float** A, float** B, float** C, int batch) {
    k<<<dim3((n + 31) / 32, (m + 7) / 8, batch), dim3(32, 8)>>>(A, B, C, m, n, k, batch);
}
"""


def test_arrays_of_pointers_have_no_sparse_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, ROWS_OF_BLOCKS.replace("void k(", "void g(").replace("    k<<<", "    g<<<"), capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (0, "right"), found


STEPS = """
__global__ void k(const float* A, const float* B, float* C, int m, int n, int k, unsigned a_bytes, int b_step) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || col >= n) return;
    const float *a = (const float*)((const char*)A + (size_t)row * a_bytes), *b = B + col;
    float s = 0;
    for (int i = 0; i < k; ++i, b += b_step / 2) s += a[i] * *b;
    C[row * n + col] = s;
}
void run(const float* A, const float* B, float* C, int m, int n, int k) {
    const int step = n * 2;
    k<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(A, B, C, m, n, k, k * sizeof(float), step);
}
"""


def test_arguments_that_host_code_computes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, STEPS, capsys)
    assert (code, found["status"]) == (0, "right"), found
    alone = STEPS[: STEPS.index("void run")]
    given = ("--signature", "A,B,C,M,N,K,4*K,2*N", "--grid", "ceil(N/16),ceil(M/16)", "--block", "16,16")
    code, found = check(tmp_path, alone, capsys, *given)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, alone, capsys, "--signature", "A,B,C,M,N,K,4*Q,2*N", *given[2:])
    assert code == 2
    assert "unknown role '4*Q'" in found


def test_a_launch_out_of_time_is_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"""__global__ void k(int M, int N, int K, const float* A, const float* B, float* C) {{ {ROW}
        if (row >= M || col >= N) return; {LOOP} while (s == s) s += 0; C[row * N + col] = s; }}
        {HOST.format(grid=GRID, args="M, N, K, a, b, c")}"""
    code, said = check(tmp_path, source, capsys, "--timeout", "1")
    assert code == 2
    assert "did not end in the time it was given" in str(said)
