"""gemmsmith check on further styles of host code and kernels: pitches in bytes, launchers in tables, extents called m,
n and p, rows of whole vectors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checking import QUICK, check

from gemmsmith.cli.main import run_command

PITCHED = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K, PITCHES) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    BODY
}
void run(const float* A, const float* B, float* C, int M, int N, int K, size_t pa, size_t pb, size_t pc) {
    k<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, pa, pb, pc);
}
"""
DIVIDED = """
    int lda = pitchA / sizeof(float), ldb = pitchB / sizeof(float), ldc = pitchC / sizeof(float);
    for (int k = 0; k < K; ++k) s += A[row * lda + k] * B[k * ldb + col];
    C[row * ldc + col] = s;
"""
CAST = """
    for (int k = 0; k < K; ++k)
        s += ((const float*)((const char*)A + row * pitchA))[k] * ((const float*)((const char*)B + k * pitchB))[col];
    ((float*)((char*)C + row * pitchC))[col] = s;
"""


@pytest.mark.parametrize("body", [DIVIDED, CAST])
def test_pitches_in_bytes(body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = PITCHED.replace("PITCHES", "size_t pitchA, size_t pitchB, size_t pitchC").replace("BODY", body)
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found


def test_pitches_in_elements(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "for (int k = 0; k < K; ++k) s += A[row * pitchA + k] * B[k * pitchB + col]; C[row * pitchC + col] = s;"
    source = PITCHED.replace("PITCHES", "int pitchA, int pitchB, int pitchC").replace("BODY", body)
    code, found = check(tmp_path, source, capsys, "--trial", "padded rows")
    assert (code, found["status"]) == (0, "right"), found


TABLE = """
template <int R, int C_> struct Tiles { static constexpr int rows = R; static constexpr int columns = C_; };
template <int R, int C_> __global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * R + threadIdx.x / C_, col = blockIdx.x * C_ + threadIdx.x % C_;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
template <typename T> void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int rows = T::rows, columns = T::columns;
    k<rows, columns><<<dim3((N + columns - 1) / columns, (M + rows - 1) / rows), rows * columns>>>(A, B, C, M, N, K);
}
using Launcher = void (*)(const float*, const float*, float*, int, int, int);
REFERENCE
"""


@pytest.mark.parametrize("reference", [
    "struct Entry { const char* name; Launcher f; };\nconst Entry entries[] = {{\"wide\", launch<Tiles<8, 32>>}};",
    "void measure(Launcher f);\nint main() { measure(launch<Tiles<8, 32>>); }",
])  # fmt: skip
def test_launchers_that_are_named_and_not_called(
    reference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, TABLE.replace("REFERENCE", reference), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert (found["entry"], found["launch"]["block"]) == ("k<8, 32>", [256, 1, 1])


@pytest.mark.parametrize(("names", "meaning"), [("m, n, p", "A,B,C,M,K,N"), ("m, p, n", "A,B,C,M,N,K")])
def test_extents_called_m_n_and_p(names: str, meaning: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The launch passes variables of the same names, which say no more."""
    rows, second, third = names.split(", ")
    depth, columns = (second, third) if meaning.endswith("K,N") else (third, second)
    source = f"""
__global__ void k(const float* A, const float* B, float* C, int {rows}, int {second}, int {third}) {{
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= {rows} || j >= {columns}) return;
    float s = 0;
    for (int t = 0; t < {depth}; ++t) s += A[i * {depth} + t] * B[t * {columns} + j];
    C[i * {columns} + j] = s;
}}
void run(const float* A, const float* B, float* C, int m, int n, int p) {{
    k<<<dim3(({columns} + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(A, B, C, {names});
}}
"""
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert meaning in " ".join(found["options"] if "options" in found else [json.dumps(found)])


VECTORS = """
__global__ void k_nt(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    const float4 *a = reinterpret_cast<const float4*>(A), *b = reinterpret_cast<const float4*>(B);
    float s = 0;
    for (int k = 0; k < K; k += 8)
        for (int v = 0; v < 2; ++v) {
            float4 x = a[row * (K / 4) + k / 4 + v], y = b[col * (K / 4) + k / 4 + v];
            s += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
        }
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k_nt<<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_rows_of_whole_vectors_need_a_multiple_and_are_not_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At K = 63 a row begins at a multiple of 60: nothing faults, and no such K was meant."""
    code, found = check(tmp_path, VECTORS, capsys)
    assert (code, found["status"]) == (0, "whole_tiles"), found


RELU = """
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s > 0 ? s : 0;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_relu_is_found_by_trying_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its NaN become 0, which is no fault of a relu."""
    code, found = check(tmp_path, RELU, capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert found["found"] == ["it computes relu(A·B)"]


@pytest.mark.parametrize("broken", [("k < K", "k < K - 1"), ("s > 0 ? s : 0", "s > 0 ? s : 1")])
def test_a_wrong_relu_is_wrong(broken: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, RELU.replace(*broken), capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_relu_of_bias(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = RELU.replace("float* C,", "const float* bias, float* C,").replace("(A, B, C,", "(A, B, bias, C,")
    code, found = check(tmp_path, source.replace("float s = 0", "float s = bias[col]"), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert "relu(A·B + bias)" in " ".join(found["found"])


BY_SHAPE = """
template <int X, int Y> __global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float b[16][X];
    int row = blockIdx.y * Y + threadIdx.y, col = blockIdx.x * X + threadIdx.x;
    float s = 0;
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int k = threadIdx.y; k < 16; k += Y) b[k][threadIdx.x] = B[(k0 + k) * N + col];
        __syncthreads();
        for (int k = 0; k < 16; ++k) s += A[row * K + k0 + k] * b[k][threadIdx.x];
        __syncthreads();
    }
    C[row * N + col] = s;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    int x, y;
    if (N >= 2 * M) { x = 32; y = 8; }
    else { x = 16; y = 16; }
    dim3 block(x, y), grid(N / x, M / y);
    if (N >= 2 * M) k<32, 8><<<grid, block>>>(A, B, C, M, N, K);
    else k<16, 16><<<grid, block>>>(A, B, C, M, N, K);
}
"""


def test_versions_for_other_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wide products are launched with other template values, and with the block that belongs to these."""
    code, found = check(tmp_path, BY_SHAPE, capsys)
    assert (code, found["status"]) == (0, "whole_tiles"), found
    assert (found["entry"], found["launch"]["block"]) == ("k<16, 16>", [16, 16, 1])
    code, found = check(tmp_path, BY_SHAPE, capsys, "--m", "32", "--n", "128", "--k", "32")
    assert code == 2
    assert "launches another version" in found


def test_operators_of_the_file_that_includes_a_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "operators.cuh").write_text(
        "inline __device__ float4 operator*(float a, float4 b) "
        "{ return make_float4(a * b.x, a * b.y, a * b.z, a * b.w); }\n"
        "inline __device__ void operator+=(float4& a, float4 b) { a.x += b.x; a.y += b.y; a.z += b.z; a.w += b.w; }\n",
        encoding="utf-8")  # fmt: skip
    (tmp_path / "k.cuh").write_text("""
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 64 + threadIdx.x * 4;
    float4 s = make_float4(0, 0, 0, 0);
    for (int k = 0; k < K; ++k) s += A[row * K + k] * *(const float4*)(B + k * N + col);
    *(float4*)(C + row * N + col) = s;
}
""", encoding="utf-8")  # fmt: skip
    (tmp_path / "main.cu").write_text("""
#include "operators.cuh"
#include "k.cuh"
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    k<<<dim3(N / 64, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
""", encoding="utf-8")  # fmt: skip
    code = run_command(["check", str(tmp_path / "k.cuh"), "--json", "--cures", "0", *QUICK])
    assert code == 0, capsys.readouterr().out


def test_a_matrix_vector_product_with_a_leading_dimension_is_judged_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = """
__global__ void sgemv(int m, int n, float alpha, const float* A, int lda, const float* x, float beta, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m) return;
    float s = 0;
    for (int j = 0; j < n; ++j) s += A[i + j * lda] * x[j];
    y[i] = alpha * s + beta * y[i];
}
void run(int m, int n, const float* A, const float* x, float* y) {
    sgemv<<<(m + 127) / 128, 128>>>(m, n, 1.f, A, m, x, 0.f, y);
}
"""
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert "alpha·Aᵀ·x + beta·y" in found["verdict"]


def test_a_grid_that_is_at_least_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = RELU.replace("s > 0 ? s : 0", "s").replace("    k<<<dim3((N + 15) / 16, (M + 15) / 16)", """
    int x = (N + 15) / 16, y = (M + 15) / 16;
    x = max(x, 1);
    y = std::max(1, y);
    k<<<dim3(x, y)""")  # fmt: skip
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["launch"]["source"]) == (0, "launch site"), found
