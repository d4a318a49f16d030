"""gemmsmith check on kernels that take matrices as views: mdspan, classes with accessors; and on single threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

SPANS = """
#include <cuda/std/mdspan>
namespace cs = cuda::std;
ALIASES
__global__ void span_gemm(In A, In B, Out C) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= C.extent(0) || col >= C.extent(1)) return;
    float s = 0;
    for (int k = 0; k < A.extent(1); ++k) s += A(row, k) * B(k, col);
    C(row, col) = SUM;
}
void run(In A, In B, Out C) {
    dim3 block(32, 8), grid((C.extent(1) + 31) / 32, (C.extent(0) + 7) / 8);
    span_gemm<<<grid, block>>>(A, B, C);
}
"""
PLAIN = """
using In = cs::mdspan<const float, cs::dextents<int, 2>>;
using Out = cs::mdspan<float, cs::dextents<int, 2>>;
"""
STRIDED = """
template <typename T> using View = cs::mdspan<T, cs::dextents<size_t, 2>, cs::layout_stride>;
using In = View<const float>;
using Out = View<float>;
"""


@pytest.mark.parametrize(("aliases", "trial"), [(PLAIN, "M, N and K all different"), (STRIDED, "padded rows")])
def test_spans(aliases: str, trial: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = SPANS.replace("ALIASES", aliases)
    code, found = check(tmp_path, source.replace("SUM", "s"), capsys, "--trial", trial)
    assert (code, found["status"]) == (0, "right"), found
    assert found["launch"]["source"] == "launch site"


def test_a_span_that_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = SPANS.replace("ALIASES", STRIDED).replace("SUM", "s + B(0, col)")
    code, found = check(tmp_path, source, capsys, "--trial", "integers, bit for bit")
    assert (code, found["status"]) == (1, "wrong"), found


ACCESSORS = """
#include <torch/extension.h>
template <typename scalar_t>
__global__ void product(const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> a,
                        const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> b,
                        torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> c) {
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= c.size(0) || col >= c.size(1)) return;
    scalar_t sum = 0;
    for (int k = 0; k < a.size(1); ++k) sum += a[row][k] * b[k][col];
    c[row][col] = sum;
}
torch::Tensor multiply(torch::Tensor a, torch::Tensor b) {
    auto c = torch::zeros({a.size(0), b.size(1)}, a.options());
    const dim3 block(8, 8), grid((b.size(1) + 7) / 8, (a.size(0) + 7) / 8);
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "multiply", ([&] {
        auto left = a.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>();
        product<scalar_t><<<grid, block>>>(left, b.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
                                           c.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>());
    }));
    return c;
}
"""


@pytest.mark.parametrize(("depth", "status"), [("a.size(1)", "right"), ("a.size(0)", "wrong")])
def test_accessors_of_pytorch(depth: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = ACCESSORS.replace("k < a.size(1)", f"k < {depth}")
    code, found = check(tmp_path, source, capsys, "--trial", "M, N and K all different")
    assert (code, found["status"]) == (int(status == "wrong"), status), found
    assert found["launch"]["source"] == "launch site"


VIEWS = """
template <typename T> class View {
  public:
    __host__ __device__ View(T* data, int rows, int cols, int ld) : data_(data), rows_(rows), cols_(cols), ld_(ld) {}
    __device__ T& operator()(int i, int j) const { return data_[i * ld_ + j]; }
    __host__ __device__ int rows() const { return rows_; }
    __host__ __device__ int cols() const { return cols_; }
  private:
    T* data_;
    int rows_, cols_, ld_;
};
__global__ void view_gemm(View<const float> A, View<const float> B, View<float> C EXTRA) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int k0 = 0; k0 < A.cols(); k0 += STEP)
        for (int k = k0; k < k0 + STEP && k < A.cols(); ++k)
            if (row < C.rows() && col < C.cols()) s += A(row, k) * B(k, col);
    if (row < C.rows() && col < C.cols()) C(row, col) = s;
}
void run(View<const float> A, View<const float> B, View<float> C, Options options) {
    dim3 block(16, 8), grid((C.cols() + 15) / 16, (C.rows() + 7) / 8);
    view_gemm<<<grid, block>>>(A, B, C PASSED);
}
"""


def test_sizes_of_a_class_with_accessors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = VIEWS.replace("EXTRA", "").replace("PASSED", "").replace("STEP", "8")
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["status"], found["launch"]["source"]) == (0, "right", "launch site"), found


def test_a_number_beside_matrices_that_tell_their_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no extent: as one, 64, it would be wrong for a kernel with a tile of eight."""
    source = VIEWS.replace("EXTRA", ", int step").replace("PASSED", ", options.step").replace("STEP", "step")
    source = source.replace("if (row < C.rows() && col < C.cols()) s +=", "if (step == 8 && row < C.rows()) s +=")
    code, said = check(tmp_path, source, capsys, *QUICK)
    assert code == 2, said
    roles = "A,M,K,lda,B,K,N,ldb,C,M,N,ldc"
    assert f"--signature {roles},?" in said
    code, found = check(tmp_path, source, capsys, *QUICK, "--signature", f"{roles},8")
    assert (code, found["status"]) == (0, "right"), found


ONE_THREAD = """
__global__ void gemm(const float* A, const float* B, float* C, SIZES) {
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            float s = 0;
            for (int k = 0; k < K; ++k) s += A[i * K + k] * B[k * N + j];
            C[i * N + j] = SUM;
        }
}
"""


@pytest.mark.parametrize("sizes", ["int M, int N, int K", "int size"])
@pytest.mark.parametrize(("total", "status"), [("s", "right"), ("s + (i == 3)", "wrong")])
def test_a_single_thread(
    sizes: str, total: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    source = ONE_THREAD.replace("SIZES", sizes).replace("SUM", total)
    if "size" in sizes:
        source = "#define M size\n#define N size\n#define K size\n" + source
    code, found = check(tmp_path, source, capsys, "--trial", "integers, bit for bit")
    assert (code, found["status"]) == (int(status != "right"), status), found
    assert found["launch"]["block"] == [1, 1, 1]


STRUCTS = """
struct Args { const float* A; const float* B; float* C; int M, N, K, lda, ldb, ldc; float alpha, beta; };
struct Sizes { int m, n, k; };
struct Tile { unsigned m, n, k; };
__device__ float dot(const float* a, const float* b, int K, int ldb) {
    float s = 0;
    for (int k = 0; k < K; ++k) s += a[k] * b[k * ldb];
    return s;
}
KERNEL
"""
ALL_ARGUMENTS = """
__global__ void gemm(const __grid_constant__ Args p) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= p.M || col >= p.N) return;
    float* c = p.C + row * p.ldc + col;
    *c = p.alpha * dot(p.A + row * p.lda, p.B + col, p.K, p.ldb) + (p.beta == 0 ? 0 : p.beta * *c);
}
void run(Args p) { gemm<<<dim3((p.N + 31) / 32, (p.M + 7) / 8), dim3(32, 8)>>>(p); }
"""
ALL_SIZES = """
__global__ void gemm(const float* A, const float* B, float* C, Sizes d) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row < d.m && col < d.n) C[row * d.n + col] = dot(A + row * d.k, B + col, d.k, d.n);
}
void run(const float* A, const float* B, float* C, Sizes d) {
    gemm<<<dim3((d.n + 31) / 32, (d.m + 7) / 8), dim3(32, 8)>>>(A, B, C, d);
}
"""


@pytest.mark.parametrize(("kernel", "trial"), [(ALL_ARGUMENTS, "alpha and beta"), (ALL_SIZES, QUICK[1])])
def test_structs_of_arguments(kernel: str, trial: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, STRUCTS.replace("KERNEL", kernel), capsys, "--trial", trial)
    assert (code, found["status"], found["launch"]["source"]) == (0, "right", "launch site"), found


def test_a_struct_of_a_tile_is_found_by_trying_or_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = ALL_SIZES.replace("Sizes d)", "int M, int N, int K, Tile t)").replace("Sizes d", "Tile t")
    kernel = kernel.replace("(A, B, C, d)", "(A, B, C, M, N, K, tile_of(M))").replace(
        "row < d.m", "t.m == 8 && row < d.m"
    )
    for name in "mnk":
        kernel = kernel.replace(f"d.{name}", name.upper())
    code, found = check(tmp_path, STRUCTS.replace("KERNEL", kernel), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert "found by trying: t.m is 8" in str(found["found"])
    code, found = check(
        tmp_path, STRUCTS.replace("KERNEL", kernel), capsys, *QUICK, "--signature", "A,B,C,M,N,K,8,32,1"
    )
    assert (code, found["status"]) == (0, "right"), found


def test_a_pointer_to_a_matrix_in_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The struct is passed by value, and the report says so; a kernel that changes its members is refused."""
    source = """
struct Mat { int rows, cols; float* data; };
__global__ void gemm(const Mat* A, const Mat* B, Mat* C) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= C->rows || col >= C->cols) return;
    float s = 0;
    for (int k = 0; k < A->cols; ++k) s += A->data[row * A->cols + k] * B->data[k * B->cols + col];
    C->data[row * C->cols + col] = s;
}
"""
    grid = ("--grid", "ceil(N/32),ceil(M/8)", "--block", "32,8")
    code, found = check(tmp_path, source, capsys, *QUICK, *grid)
    assert (code, found["status"]) == (0, "right"), found
    assert "what A, B, C point to passed by value" in found["launch"]["found"][0]
    code, found = check(
        tmp_path, source.replace("row * C->cols + col", "row * C->cols + col + 1"), capsys, *QUICK, *grid
    )
    assert (code, found["status"]) == (1, "wrong"), found
    changes = source.replace("float s = 0;", "float s = 0; C->rows += 0;")
    code, said = check(tmp_path, changes, capsys, *QUICK, *grid)
    assert code == 2, said
    assert "A points to a Mat in memory" in said
    assert "`Mat A`" in said
