"""gemmsmith check judges what host code launches, and nothing that it never does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from checking import check

from gemmsmith.kernel.role_names import numbers_a_product
from gemmsmith.verify.oracles.clamped import clamp_of
from gemmsmith.verify.oracles.compare import Comparison

ROUNDED_DOWN = """
#define S 64
__global__ void tile(const float* A, const float* B, float* C, int n) {
    __shared__ float left[S][8], right[8][S];
    int row = blockIdx.y * S, col = blockIdx.x * S, t = threadIdx.x;
    float sums[8] = {};
    for (int k = 0; k < n; k += 8) {
        left[t / 8][t % 8] = A[(row + t / 8) * n + k + t % 8];
        right[t / S][t % S] = B[(k + t / S) * n + col + t % S];
        __syncthreads();
        for (int i = 0; i < 8; ++i)
            for (int l = 0; l < 8; ++l) sums[i] += left[t / S * 8 + i][l] * right[l][t % S];
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i) {
        int r = row + t / S * 8 + i, c = col + t % S;
        if (r < n && c < n) C[r * n + c] = sums[i];
    }
}
void run(const float* A, const float* B, float* C, int n) { tile<<<dim3(n / S, n / S), 512>>>(A, B, C, n); }
"""


def test_no_blocks_are_launched_where_the_grid_is_rounded_down_to_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its store is guarded, but no launch of host code has a block at an edge; rounded up, there would be one."""
    small = ("--m", "63", "--n", "63", "--k", "63")
    code, found = check(tmp_path, ROUNDED_DOWN, capsys, *small)
    assert (code, found) == (2, "for 63x63x63 its host code launches no blocks; give a larger shape, or --grid")
    rounded_up = ROUNDED_DOWN.replace("n / S, n / S", "(n + S - 1) / S, (n + S - 1) / S")
    code, found = check(tmp_path, rounded_up, capsys, *small)
    assert (code, found["status"]) == (1, "wrong"), found


CLAMPED = """
#include <cuda_fp16.h>
__global__ void clamped(const half* A, const half* B, half* C, int m, int n, int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0;
    for (int l = 0; l < k; ++l) sum += __half2float(A[row * k + l]) * __half2float(B[l * n + col]);
    C[row * n + col] = __float2half(fminf(fmaxf(sum, -65504.0f), 65504.0f));
}
void run(half* A, half* B, half* C, int m, int n, int k) {
    dim3 block(16, 16), grid((n + 15) / 16, (m + 15) / 16);
    clamped<<<grid, block>>>(A, B, C, m, n, k);
}
"""


def test_results_that_are_clamped_to_finite_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That infinities become the largest number is a limit, and is said; a smaller clamp may be a function that is
    meant, and is not judged."""
    code, found = check(tmp_path, CLAMPED, capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert any("clamps its results to ±65504" in line for line in found["warnings"]), found["warnings"]
    code, found = check(tmp_path, CLAMPED.replace("65504.0f", "60.0f"), capsys)
    assert code == 2
    assert "not linear" in found


def test_fp32_results_that_are_clamped_hide_infinities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sums do not come near fp32's largest number, so nobody needs the clamp, and NaN is lost to it."""
    fp32 = CLAMPED.replace("__half2float", "").replace("__float2half", "").replace("half", "float")
    code, found = check(tmp_path, fp32.replace("65504.0f", "3.4028235e38f"), capsys)
    assert (code, found["status"]) == (1, "wrong"), found
    assert "Inf" in found["verdict"]


@pytest.mark.parametrize(
    ("got", "limit"),
    [
        ([1, 60000, -60000], 0.0),
        ([1, 65504, -65504], 65504.0),
        ([1, 65504, 60000], 0.0),
        ([1, -65504, 65504], 0.0),
        ([7, 65504, -65504], 0.0),
    ],
)
def test_which_results_are_clamped(got: list[float], limit: float) -> None:
    """One number near the type's largest, for infinities and NaN alone."""
    expected, found = np.array([1, np.inf, np.nan], np.float16), np.array(got, np.float16)
    wrong = found != expected
    assert clamp_of(Comparison(np.zeros(3), wrong, found, expected, 1.0)) == limit


def test_results_of_one_sign_are_not_clamped() -> None:
    expected, found = np.array([np.inf, -np.inf], np.float16), np.array([65504, -np.inf], np.float16)
    assert clamp_of(Comparison(np.zeros(2), found != expected, found, expected, 1.0)) == 0.0


ONE_OF_MANY = """
__global__ void product(const float* A, const float* B, float* C, int batch, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    int a = batch * M * K, b = batch * K * N, c = batch * M * N;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[a + row * K + k] * B[b + k * N + col];
    C[c + row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int products, int M, int N, int K) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
    for (int i = 0; i < products; ++i) product<<<grid, block>>>(A, B, C, i, M, N, K);
}
"""


def test_a_number_that_tells_which_product_to_make(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``batch`` is no count where host code passes a counter; that one product alone is judged is said."""
    code, found = check(tmp_path, ONE_OF_MANY, capsys, "--trial", "random data")
    assert (code, found["status"]) == (0, "right"), found
    assert any("tells which product of a batch" in line for line in found["found"]), found["found"]
    called = ONE_OF_MANY.replace("int products, int M", "int s, int M").replace(
        "for (int i = 0; i < products; ++i) product<<<grid, block>>>(A, B, C, i", "product<<<grid, block>>>(A, B, C, s"
    )
    called += "void all(const float* A, const float* B, float* C, int M, int N, int K) {\n"
    called += "    for (int s = 0; s < 4; ++s) run(A, B, C, s, M, N, K);\n}\n"
    code, found = check(tmp_path, called, capsys, "--trial", "random data")
    assert (code, found["status"]) == (0, "right"), found
    assert any("tells which product of a batch" in line for line in found["found"]), found["found"]


@pytest.mark.parametrize(
    ("at_launch", "body", "told"),
    [
        ("i", "A += batch * M * K;", True),
        ("batches", "A += batch * M * K;", False),
        ("b", "A += batch * M * K;", False),  # b may be how many there are
        ("i", "A += batch * M * K; if (z < batch) return;", False),
        ("i", "A += blockIdx.z * M * K; if (row < batch * M) return;", False),
        ("i", "row %= batch; A += batch * M;", False),
        ("n", "A += batch * M * K;", False),  # a letter that no loop counts with
        ("batch_idx", "A += batch * M * K;", True),
        ("n", "int rows = batch * M; if (row >= rows) return;", False),
        ("i", "int a = batch * M * K; if (row >= M) return;", True),
    ],
)
def test_a_count_stays_a_count(at_launch: str, body: str, told: bool) -> None:
    assert numbers_a_product("batch", at_launch, body, frozenset({"i"})) is told


FLAGGED = """
__global__ void scores(const float* A, const float* B, float* C, int M, int N, int K, bool causal) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = causal && col > row ? -1e30f : sum;
}
void attend(const float* Q, const float* K, const float* V, float* S, float* O, int n, int d) {
    dim3 block(16, 16), square((n + 15) / 16, (n + 15) / 16), rows((d + 15) / 16, (n + 15) / 16);
    scores<<<square, block>>>(Q, K, S, n, n, d, true);
    scores<<<rows, block>>>(S, V, O, n, d, n, false);
}
"""


def test_a_launch_that_sets_no_flag_is_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the flag it is no product; a kernel that host code launches with it alone is none."""
    code, found = check(tmp_path, FLAGGED, capsys, "--trial", "random data")
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, FLAGGED.replace("false", "true"), capsys, "--trial", "random data")
    assert code != 0, found


IN_PARTS = """
__global__ void square(const float* A, const float* B, float* C, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += A[row * n + k] * B[k * n + col];
    C[row * n + col] = sum;
}
void in_streams(const float* A, const float* B, float* C, int n) {
    int part = n / 4;
    for (int i = 0; i < 4; ++i)
        square<<<dim3((n + 15) / 16, (part + 15) / 16), dim3(16, 16)>>>(A + i * part * n, B, C + i * part * n, n);
}
WHOLE
"""
WHOLE = """void whole(const float* A, const float* B, float* C, int n) {
    square<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(A, B, C, n);
}"""


@pytest.mark.parametrize(("also", "grid"), [(WHOLE, [4, 4, 1]), ("", [4, 1, 1])])
def test_a_launch_for_the_whole_product_is_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], also: str, grid: list[int]
) -> None:
    _, found = check(tmp_path, IN_PARTS.replace("WHOLE", also), capsys, "--trial", "random data")
    assert found["launch"]["grid"] == grid, found["launch"]


CONSTANTS = """
#define M 128
#define N 512  // of the sum
#define K 384
__global__ void fixed(const float* a, const float* b, float* c) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (col >= K || row >= M) return;
    float sum = 0;
    for (int i = 0; i < N; ++i) sum += a[row * N + i] * b[i * K + col];
    c[row * K + col] = sum;
}
void run(const float* a, const float* b, float* c) {
    fixed<<<dim3((K + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(a, b, c);
}
"""


@pytest.mark.parametrize(
    ("changed", "status", "why"),
    [
        ("", "right", ""),
        ("(K + 15) / 16", "wrong", "never written: columns >= 192"),  # half of them, which no block that is run shows
        ("a[row * N + i]", "wrong", ""),
    ],
)
def test_sizes_that_are_constants_of_any_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: str, status: str, why: str
) -> None:
    """The indices and the loop tell which is which; and a grid that does not cover C is seen in some of its blocks."""
    other = {"": "", "(K + 15) / 16": "K / 32", "a[row * N + i]": "a[row * N + i / 2]"}[changed]
    _, found = check(tmp_path, CONSTANTS.replace(changed, other) if changed else CONSTANTS, capsys)
    assert found["status"] == status, found
    assert {"M": 128, "N": 384, "K": 512}.items() <= {
        role: found["trials"][0]["problem"][role.lower()] for role in "MNK"
    }.items()
    assert why in str(found["trials"][0]), found["trials"][0]


def test_a_function_of_the_file_that_has_the_name_of_a_known_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two numbers ceil is the file's own."""
    own = "int ceil(int a, int b) { return (a + b - 1) / b; }\n"
    source = own + IN_PARTS.replace("WHOLE", WHOLE.replace("(n + 15) / 16", "ceil(n, 16)"))
    _, found = check(tmp_path, source, capsys, "--trial", "random data", "--m", "33", "--n", "33", "--k", "33")
    assert (found["launch"]["grid"], found["launch"]["source"]) == ([3, 3, 1], "launch site"), found["launch"]


GRAM = """
__global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= K) return;
    float sum = 0;
    for (int i = 0; i < N; ++i) sum += a[row * N + i] * b[i * K + col];
    c[row * K + col] = sum;
}
void gram(const float* transposed, const float* x, float* square, int samples, int features) {
    dim3 block(16, 16), grid((features + 15) / 16, (features + 15) / 16);
    product<<<grid, block>>>(transposed, x, square, features, samples, features);
}
"""


def test_a_launch_that_is_known_for_squares_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Host code has one number for rows and columns: where they differ, its grid is not known, and one is guessed."""
    code, found = check(tmp_path, GRAM, capsys, "--trial", "M, N and K all different")
    assert (code, found["status"]) == (0, "right"), found
    wrong = GRAM.replace("a[row * N + i]", "a[row * K + i]")
    code, found = check(tmp_path, wrong, capsys, "--trial", "M, N and K all different")
    assert code == 1, found
