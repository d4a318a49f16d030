"""gemmsmith check on kernels whose launcher tells the most: template arguments that it makes of its own, the number of
products along z, parts of C; each beside a wrong kernel that must stay so."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import ONE_OUTPUT_A_THREAD, QUICK, check

import gemmsmith.verify.meaning.found_launches as found_launches
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.meaning.launch_search import TileLaunch, search_launches
from gemmsmith.verify.trials.trial import BATCH

TILED = """
template <int BM, int BN> struct TileShape {
    static constexpr int kM = BM, kN = BN, kThreads = BM * BN;
};
namespace mine { namespace one {
template <typename Shape>
__global__ void product(float* out, const float* left, const float* right, int M, int N, int K) {
    const int row = blockIdx.y * Shape::kM + threadIdx.x / Shape::kN;
    const int col = blockIdx.x * Shape::kN + threadIdx.x % Shape::kN;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += left[row * K + k] * right[k * N + col];
    out[row * N + col] = sum;
}
template <int BM, int BN>
void launch(float* out, const float* left, const float* right, int M, int N, int K) {
    using Shape = TileShape<BM, BN>;
    product<Shape><<<dim3((N + BN - 1) / BN, (M + BM - 1) / BM), Shape::kThreads>>>(out, left, right, M, N, K);
}
} namespace two {
template <int BM, int BN> void launch(float* out, const float* left, const float* right, int M, int N, int K) {}
} }
"""
# How host code names the launcher of namespace one: in a call, or in a macro that lists launchers.
CALLERS = {
    "a call": "void run(float* o, const float* l, const float* r, int M, int N, int K) {"
              " mine::two::launch<64, 64>(o, l, r, M, N, K); mine::one::launch<16, 8>(o, l, r, M, N, K); }",
    "a list of launchers": "#define LAUNCHERS(ENTRY) ENTRY(a, (mine::two::launch<64, 64>)) \\\n"
                           "    ENTRY(b, (mine::one::launch<16, 8>))\n",
}  # fmt: skip


@pytest.mark.parametrize("caller", CALLERS)
def test_a_type_that_the_launcher_makes(caller: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, TILED + CALLERS[caller], capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert "Shape=TileShape<16, 8>" in found["launch"]["found"][0]
    assert found["launch"]["block"] == [128, 1, 1]


def test_a_wrong_kernel_of_such_a_launcher(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = TILED.replace("right[k * N + col]", "right[k * K + col]") + CALLERS["a call"]
    assert check(tmp_path, wrong, capsys, *QUICK)[0] == 1


EACH = """
__global__ void each(const float* A, const float* B, float* C, int M, int N, int K) {
    A += blockIdx.z * M * K;
    B += blockIdx.z * K * N;
    C += blockIdx.z * M * N;
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
void solve(const float* A, const float* B, float* C, int BATCH, int M, int N, int K) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16, BATCH);
    each<<<grid, block>>>(A, B, C, M, N, K);
}
"""


def test_products_that_only_the_grid_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--m", "16", "--n", "48", "--k", "8")
    code, found = check(tmp_path, EACH, capsys, *sizes, "--trial", BATCH)
    assert (code, found["status"]) == (0, "right"), found
    for right, wrong in (("A += blockIdx.z * M * K", "A += blockIdx.z * M * N"),
                         ("B += blockIdx.z * K * N", "B += blockIdx.z * M * N"),
                         ("C += blockIdx.z * M * N", "C += blockIdx.z * M * K")):  # fmt: skip
        code, found = check(tmp_path, EACH.replace(right, wrong), capsys, *sizes, "--trial", BATCH)
        assert (code, found["status"]) == (1, "wrong"), (wrong, found)


def test_one_matrix_for_all_products(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The weights of a layer. Where host code allocates as many as products, the kernel has forgotten them."""
    sizes = ("--m", "16", "--n", "48", "--k", "8", "--trial", BATCH)
    for missing, name in (("    B += blockIdx.z * K * N;\n", "B"), ("    A += blockIdx.z * M * K;\n", "A")):
        code, found = check(tmp_path, EACH.replace(missing, ""), capsys, *sizes)
        assert (code, found["status"]) == (0, "right"), found
        assert any(line.startswith(f"{name} one for all products") for line in found["launch"]["found"]), found[
            "launch"
        ]
    allocated = EACH.replace("    B += blockIdx.z * K * N;\n", "").replace(
        "const float* A, const float* B, float* C, int BATCH", "float* A, float* B, float* C, int BATCH").replace(
        "    dim3", "    cudaMalloc(&B, sizeof(float) * BATCH * K * N);\n    dim3")  # fmt: skip
    code, found = check(tmp_path, allocated, capsys, *sizes)
    assert (code, found["status"]) == (1, "wrong"), found


HEADS = EACH.replace("int K) {\n    A", "int K, int H) {\n    A").replace(
    "B += blockIdx.z * K * N", "B += blockIdx.z * N").replace("C += blockIdx.z * M * N", "C += blockIdx.z * N").replace(
    "B[k * N + col]", "B[k * N * H + col]").replace("C[row * N + col]", "C[row * N * H + col]").replace(
    "int BATCH", "int h").replace("BATCH)", "h)").replace("M, N, K);", "M, N, K, h);")  # fmt: skip
HEADS += "int main() { float *q = 0, *v = 0, *o = 0; solve(q, v, o, 3, 64, 64, 64); }\n"


def test_heads_are_no_wrong_product(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their matrices lie side by side: no packed batch."""
    sizes = ("--m", "16", "--n", "48", "--k", "8")
    code, found = check(tmp_path, HEADS, capsys, *sizes)
    assert (code, found["status"]) == (0, "right"), found
    assert "it makes `H` products, whose rows are interleaved in B and C" in str(found), found
    code, found = check(tmp_path, HEADS.replace("B += blockIdx.z * N", "B += blockIdx.z * K"), capsys, *sizes)
    assert (code, found["status"]) == (1, "wrong"), found
    packed = EACH.replace("int K) {\n    A", "int K, int H) {\n    A").replace("int BATCH", "int h").replace(
        "BATCH)", "h)").replace("M, N, K);", "M, N, K, h);") + HEADS[HEADS.index("int main"):]  # fmt: skip
    code, found = check(tmp_path, packed, capsys, *sizes, "--trial", BATCH)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, packed.replace("k < K;", "k < K - 1;"), capsys, *sizes, "--trial", "random data")
    assert (code, found["status"]) == (1, "wrong"), found


PARTS = """
template <int T> __global__ void product(const float* A, const float* B, float* C, int m, int n, int k) {
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += A[row * k + i] * B[i * n + col];
    C[row * n + col] = sum;
}
constexpr int kBand = 7680;
template <int T> void region(const float* A, const float* B, float* C, int m, int n, int k, int columns) {
    product<T><<<dim3(columns / T, m / T), dim3(T, T)>>>(A, B, C, m, n, k);
}
void run(const float* A, const float* B, float* C, int m, int n, int k) {
    if (m == 6400 && n == 7776) {
        region<16>(A, B, C, m, n, k, kBand);
    } else if (m % 24 == 0 && n % 24 == 0) {
        product<24><<<dim3(n / 24, m / 24), dim3(24, 24)>>>(A, B, C, m, n, k);
    }
}
"""


def test_a_launch_for_all_of_c_tells_more_than_one_for_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, PARTS, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert "T=24" in found["launch"]["found"][0]
    assert check(tmp_path, PARTS.replace("B[i * n + col]", "B[i * k + col]"), capsys, *QUICK)[0] == 1


DEEP = """
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][129];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int tile = 0; tile < K / 128; ++tile) {
        for (int i = threadIdx.x; i < 128; i += 16) a[threadIdx.y][i] = A[row * K + tile * 128 + i];
        __syncthreads();
        for (int i = 0; i < 128; ++i) sum += a[threadIdx.y][i] * B[(tile * 128 + i) * N + col];
        __syncthreads();
    }
    C[row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    product<<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


def test_a_base_shape_has_a_whole_k_tile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trial = ("--trial", "integers, bit for bit")
    code, found = check(tmp_path, DEEP, capsys, *trial)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, DEEP.replace("i < 128; ++i) sum", "i < 127; ++i) sum"), capsys, *trial)
    assert (code, found["status"]) == (1, "wrong"), found


def test_a_launch_found_by_trying_keeps_what_the_sources_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a kernel computes 64-bit indices is asked of its own code, not of other kernels of its file."""
    found: list[TileLaunch] = []

    def watched(*given: object) -> object:
        for launch in search_launches(*given):  # type: ignore[arg-type]
            found.append(launch)
            yield launch

    monkeypatch.setattr(found_launches, "search_launches", watched)
    rows = "    for (int r = row; r < row + 2 && r < M && col < N; ++r) {\n    float"
    two_rows = ONE_OUTPUT_A_THREAD.replace("* 16 + threadIdx.y", "* 32 + 2 * threadIdx.y")
    two_rows = two_rows.replace("    if (row >= M || col >= N) return;\n    float", rows).replace("A[row", "A[r")
    two_rows = two_rows.replace("C[row * N + col] = sum;", "C[r * N + col] = sum; }")
    code, _ = check(tmp_path, two_rows, capsys, *QUICK)
    assert code == 0
    assert found
    own = user_kernel(tmp_path / "k.cu", UserOptions()).geometry.facts  # type: ignore[attr-defined]
    assert all(launch.facts is not None and launch.facts.reached == own.reached for launch in found)


def test_a_grid_for_as_many_columns_as_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = """
void solve(const float* scores, const float* V, float* out, int M, int d) {
    dim3 threads(16, 16), blocks((M + 15) / 16, (M + 15) / 16);
    mine<<<blocks, threads>>>(scores, V, out, M, d, M);
}
"""
    code, found = check(tmp_path, ONE_OUTPUT_A_THREAD + host, capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found
    assert "it is right only when N ≤ M" in found["verdict"]
    stride = ONE_OUTPUT_A_THREAD.replace("B[k * N + col]", "B[k * K + col]").replace("A[row * K", "A[row * M")
    code, found = check(tmp_path, stride + host, capsys, *QUICK)
    assert code == 1
    assert "N ≤ M" not in found["verdict"]


FIELDS = """
struct Mat { float* data; size_t w, h, n; };
__global__ void product(Mat* A, Mat* B, Mat* C) {
    size_t row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= C->h || col >= C->w) return;
    float sum = 0.0f;
    for (size_t k = 0; k < A->w; ++k) sum += A->data[row * A->w + k] * B->data[k * B->w + col];
    C->data[row * C->w + col] = sum;
}
"""


def test_a_field_that_is_never_read_needs_no_meaning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = ("--grid", "ceil(N/16),ceil(M/16)", "--block", "16,16")
    code, found = check(tmp_path, FIELDS, capsys, *QUICK, *launch)
    assert (code, found["status"]) == (0, "right"), found
    assert check(tmp_path, FIELDS.replace("k * B->w", "k * A->w"), capsys, *QUICK, *launch)[0] == 1


def test_doubled_letters_are_extents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doubled = ONE_OUTPUT_A_THREAD
    for name in "MNK":
        doubled = doubled.replace(f"int {name}", f"int {name * 2}").replace(f">= {name}", f">= {name * 2}")
        doubled = doubled.replace(f"* {name} ", f"* {name * 2} ").replace(f"k < {name};", f"k < {name * 2};")
    assert "NN" in doubled
    code, found = check(tmp_path, doubled, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found


BYTES = """
__global__ void product(float* X, float* Y, float* Z, int r, int s, int t, unsigned int first, unsigned int second) {
    extern __shared__ char tiles[];
    float *x = (float*)tiles, *y = (float*)(tiles + first);
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x, w = blockDim.x;
    float sum = 0.0f;
    for (int k = 0; k < s; k += w) {
        x[threadIdx.y * w + threadIdx.x] = row < r && k + threadIdx.x < s ? X[row * s + k + threadIdx.x] : 0.0f;
        y[threadIdx.y * w + threadIdx.x] = col < t && k + threadIdx.y < s ? Y[(k + threadIdx.y) * t + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < w; ++i) sum += x[threadIdx.y * w + i] * y[i * w + threadIdx.x];
        __syncthreads();
    }
    if (row < r && col < t) Z[row * t + col] = sum;
}
void run(unsigned n1, unsigned n2, unsigned n3, float* a, float* b, float* c) {
    int side = 16;
    size_t bytes = side * side * 2 * sizeof(float);
    dim3 block(side, side), grid(ceil((float)n3 / block.x), ceil((float)n1 / block.y));
    product<<<grid, block, bytes>>>(a, b, c, n1, n2, n3, bytes / 2, bytes / 2);
}
"""


def test_numbers_beside_three_extents_of_unknown_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, BYTES, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    assert "found by trying: r is M, s is K, t is N" in found["found"]
    code, _ = check(tmp_path, BYTES.replace("Y[(k + threadIdx.y) * t", "Y[(k + threadIdx.y) * s"), capsys, *QUICK)
    assert code != 0


def test_a_grid_for_as_many_columns_as_rows_of_sizes_with_other_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """n rows, k columns, sums of m: by these names the kernel would write outside C, which it does not."""
    renamed = {"int M, int N, int K": "int n, int k, int m", "row >= M": "row >= n", "col >= N": "col >= k",
               "k < K": "i < m", "int k = 0": "int i = 0", "++k": "++i", "row * K + k": "row * m + i",
               "B[k * N": "B[i * k", "C[row * N": "C[row * k"}  # fmt: skip
    source = ONE_OUTPUT_A_THREAD
    for old, new in renamed.items():
        assert old in source, old
        source = source.replace(old, new)
    host = """
void solve(const float* A, const float* B, float* C, int n, int k, int m) {
    mine<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(A, B, C, n, k, m);
}
"""
    code, found = check(tmp_path, source + host, capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found
    assert "it is right only when N ≤ M" in found["verdict"]
    assert "out-of-bounds" not in str(found["trials"])
