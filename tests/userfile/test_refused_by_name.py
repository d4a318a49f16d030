"""What is refused before anything is compiled: packed weights; and launches for one number of columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.errors import SignatureError
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.verify.meaning.product_evidence import _MODULAR

PACKED = """
__global__ void unpacked(const float* x, const TYPE* w, float* y, int M, int N, int K) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += x[row * K + k] * TERM;
    y[row * N + col] = sum;
}
"""


@pytest.mark.parametrize(
    ("kind", "term"),
    [("int", "((w[k / 8 * N + col] >> (k % 8 * 4)) & 0xF)"), ("unsigned char", "((w[k / 2] >> (k % 2 * 4)) & 15)")],
)
def test_weights_of_four_bits(kind: str, term: str, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(PACKED.replace("TYPE", kind).replace("TERM", term), encoding="utf-8")
    with pytest.raises(SignatureError, match="unpacks numbers of 4 bits from w"):
        user_kernel(tmp_path / "k.cu", UserOptions())


def test_a_lane_of_sixteen_is_no_weight(tmp_path: Path) -> None:
    source = PACKED.replace("TYPE", "float").replace("TERM", "w[k * N + ((threadIdx.x >> 1) & 15) + col]")
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    assert user_kernel(tmp_path / "k.cu", UserOptions()).signature.has("K")


def test_integers_alone_are_not_packed(tmp_path: Path) -> None:
    """Lanes are counted by sixteen in kernels for mma, whose result may be float."""
    source = PACKED.replace("const float* x", "const TYPE* x").replace("TYPE", "signed char")
    source = source.replace("TERM", "w[k * N + ((threadIdx.x >> 1) & 15) + col]")
    (tmp_path / "k.cu").write_text(source.replace("float* y", "int* y"), encoding="utf-8")
    assert user_kernel(tmp_path / "k.cu", UserOptions()).signature.has("K")


@pytest.mark.parametrize(
    ("text", "modular"),
    [
        ("s = (s + (long long)A[i * K + k] * B[k * N + j]) % p;", True),
        ("s += A[i * K + k] * B[k * N + j] % MOD;", True),
        ("s += (A[i] * B[j]) % 7;", True),
        ("stage = (stage + 1) % 3; s += a[i] * b[j];", False),
        ("const int4* from = (int4*)(&tile[row][0]) + (lane % 16);", False),
        ("s += a[i % 4] * b[j % 4];", False),
        ("at = (at + n * 2) % size;", False),
    ],
)
def test_which_sums_are_remainders(text: str, modular: bool) -> None:
    assert bool(_MODULAR.search(text)) is modular


@pytest.mark.parametrize("place", ["threadIdx.x & 15", "lane & 0xF", "(lane >> 1) & 15"])
def test_a_place_in_a_tile_beside_scales(place: str, tmp_path: Path) -> None:
    """An int8 product with a scale for each column has real numbers, too."""
    source = PACKED.replace("const float* x", "const TYPE* x, const float* scale").replace("TYPE", "signed char")
    source = source.replace("float sum", f"int lane = threadIdx.x, at = {place}, half = lane >> 4; float sum")
    source = source.replace("TERM", "w[k * N + col]").replace("= sum;", "= sum * scale[col + 0 * (at + half)];")
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    assert user_kernel(tmp_path / "k.cu", UserOptions()).signature.has("K")


ONE_WIDTH = """
#define WIDTH 128
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int K) {
    product<<<dim3(8, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, WIDTH, K);
}
"""


def test_a_grid_for_one_width(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(ONE_WIDTH, encoding="utf-8")
    assert user_kernel(tmp_path / "k.cu", UserOptions()).geometry.one_extent == "N = 128"  # type: ignore[attr-defined]
    any_width = ONE_WIDTH.replace("dim3(8,", "dim3((WIDTH + 15) / 16,").replace("#define WIDTH 128\n", "").replace(
        "int M, int K) {\n    product", "int M, int WIDTH, int K) {\n    product")  # fmt: skip
    (tmp_path / "k.cu").write_text(any_width, encoding="utf-8")
    assert user_kernel(tmp_path / "k.cu", UserOptions()).geometry.one_extent == ""  # type: ignore[attr-defined]


def test_a_loop_over_columns_needs_no_grid_for_them(tmp_path: Path) -> None:
    source = ONE_WIDTH.replace(
        "if (row >= M || col >= N) return;", "if (row >= M) return; for (; col < N; col += 128) {"
    )
    (tmp_path / "k.cu").write_text(source.replace("= sum;", "= sum; }"), encoding="utf-8")
    assert user_kernel(tmp_path / "k.cu", UserOptions()).geometry.one_extent == ""  # type: ignore[attr-defined]


ROW_POINTERS = """
__global__ void product(float** A, float** B, float** C, int M, int N, int K) {
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    if (i >= M || j >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[i][k] * B[k][j];
    C[i][j] = sum;
}
"""


def test_pointers_to_rows(tmp_path: Path) -> None:
    """Those to the matrices of a batch are made, and are not refused."""
    file = tmp_path / "k.cu"
    file.write_text(ROW_POINTERS)
    with pytest.raises(SignatureError, match="A and B and C hold a pointer to each row"):
        user_kernel(file, UserOptions())
    batched = ROW_POINTERS.replace("A[i][k]", "A[blockIdx.z][i * K + k]").replace(
        "B[k][j]", "B[blockIdx.z][k * N + j]").replace("C[i][j]", "C[blockIdx.z][i * N + j]")  # fmt: skip
    file.write_text(batched)
    assert user_kernel(file, UserOptions()).batched


RESIDUALS = """
__global__ void batched(const float* const* As, const float* const* Bs, const float* const* Rs, float* const* Cs,
                        int M, int N, int K, int lda, int ldb, int ldr, int ldc) {
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y, z = blockIdx.z;
    if (i >= M || j >= N) return;
    const float *A = As[z], *B = Bs[z];
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[i * lda + k] * B[k * ldb + j];
    int at = i * ldr + j;
    ADDED
    Cs[z][i * ldc + j] = sum;
}
void run(const float* const* As, const float* const* Bs, const float* const* Rs, float* const* Cs, int M, int N, int K,
         int lda, int ldb, int ldr, int ldc, int batch) {
    dim3 grid((N + 15) / 16, (M + 15) / 16, batch);
    batched<<<grid, dim3(16, 16)>>>(As, Bs, Rs, Cs, M, N, K, lda, ldb, ldr, ldc);
}
"""


@pytest.mark.parametrize(("added", "role"), [
    ("if (Rs != nullptr) sum += Rs[z][at];", "0"),
    ("sum += Rs ? Rs[z][at] : 0.f;", "0"),
    ("sum += Rs[z][at];", ""),  # it is needed, and no bias
])  # fmt: skip
def test_a_further_array_of_pointers(added: str, role: str, tmp_path: Path) -> None:
    """It is left out where the kernel allows that. Else it has no role, so that it is tried, or the kernel refused."""
    file = tmp_path / "k.cu"
    file.write_text(RESIDUALS.replace("ADDED", added))
    spec = user_kernel(file, UserOptions())
    assert {arg.name: arg.role for arg in spec.signature.arguments}["Rs"] == role
    assert any("Rs = nullptr" in note.value for note in spec.geometry.notes) is (role == "0")  # type: ignore[attr-defined]
