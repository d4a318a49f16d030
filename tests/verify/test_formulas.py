"""Products that a formula describes: what it is found to be, and which mistakes it tells."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gemmsmith.errors import SignatureError
from gemmsmith.userfile.kernels.formula_kernel import formula_kernel
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.verify.formula.documented import documented
from gemmsmith.verify.formula.instances import check_formula
from gemmsmith.verify.formula.judge import FormulaCheck

KERNEL = """
__global__ void NAME(PARAMETERS) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= ROWS || col >= COLUMNS) return;
    float sum = 0.0f, other = 0.0f;
    for (int k = 0; k < DEPTH; ++k) { TERMS }
    RESULT
}
void run(PARAMETERS) { NAME<<<dim3((COLUMNS + 15) / 16, (ROWS + 15) / 16), dim3(16, 16)>>>(PASSED); }
"""
AB = "const float* A, const float* B, "
SIZES = "int M, int N, int K"
PLAIN = "sum += A[row * K + k] * B[k * N + col];"


def source(name: str, parameters: str, terms: str, result: str, sides: tuple[str, str, str] = ("M", "N", "K")) -> str:
    passed = ", ".join(part.split()[-1].lstrip("*") for part in parameters.split(","))
    text = KERNEL.replace("PARAMETERS", parameters).replace("PASSED", passed).replace("NAME", name)
    for word, size in zip(("ROWS", "COLUMNS", "DEPTH"), sides, strict=True):
        text = text.replace(word, size)
    return text.replace("TERMS", terms).replace("RESULT", result)


def judged(folder: Path, text: str) -> FormulaCheck:
    (folder / "k.cu").write_text(text, encoding="utf-8")
    kernel = formula_kernel(folder / "k.cu", UserOptions())
    if kernel is None:
        raise SignatureError("refused", "")
    return check_formula(kernel, math.inf, None, SignatureError("refused", ""))


RESIDUAL = f"{AB}const float* R, float* D, {SIZES}, int lda, int ldb, int ldr, int ldd, float beta"
LEADING = "sum += A[row * lda + k] * B[k * ldb + col];"
GATE = f"const float* X, const float* Wg, const float* Wu, float* H, {SIZES}"
GATED = "sum += X[row * K + k] * Wg[k * N + col]; other += X[row * K + k] * Wu[k * N + col];"
SYMM = "int m, int n, float alpha, const float* A, int lda, const float* B, int ldb, float* C, int ldc"
MIRRORED = "sum += (k <= row ? A[row * lda + k] : A[k * lda + row]) * B[k * ldb + col];"
TRMM = "int n, int cols, const float* L, int ldl, const float* B, int ldb, float* out, int ldo"
SYRK = "const float* G, int ldg, float* C, int ldc, int N, int K, float alpha, float beta"
GRAM = "sum += G[row * ldg + k] * G[col * ldg + k];"
LOWER = "if (col <= row) C[row * ldc + col] = alpha * sum + beta * C[row * ldc + col];"
CLAMP = f"{AB}const float* bias, float* C, {SIZES}, float lo, float hi"
CASES = {
    "a residual with rows of its own": (
        source("proj", RESIDUAL, LEADING, "D[row * ldd + col] = sum + beta * R[row * ldr + col];"),
        "A·B + beta·R",
    ),
    "a gate": (
        source("swiglu", GATE, GATED, "H[row * N + col] = sum / (1.0f + expf(-sum)) * other;"),
        "silu(X·Wg) * X·Wu",
    ),
    "a slope": (
        source("act", f"{AB}float* C, {SIZES}, float slope", PLAIN, "C[row * N + col] = sum > 0 ? sum : slope * sum;"),
        "leaky_relu(A·B, slope)",
    ),
    "a soft cap": (
        source("capped", f"{AB}float* C, {SIZES}, float cap", PLAIN, "C[row * N + col] = cap * tanhf(sum / cap);"),
        "softcap(A·B, cap)",
    ),
    "hardswish": (
        source("layer", f"{AB}float* C, {SIZES}", PLAIN,
               "C[row * N + col] = sum * fminf(fmaxf(sum + 3.0f, 0.0f), 6.0f) / 6.0f;"),
        "hardswish(A·B)",
    ),
    "two bounds": (
        source("clamped", CLAMP, PLAIN, "C[row * N + col] = fminf(fmaxf(sum + bias[col], lo), hi);"),
        "clamp(A·B + bias, lo, hi)",
    ),
    "a symmetric matrix": (
        source("ssymm_lower", SYMM, MIRRORED, "C[row * ldc + col] = alpha * sum;", ("m", "n", "m")),
        "alpha·the symmetric A (lower half)·B",
    ),
    "a triangular matrix": (
        source("strmm_lower", TRMM, "if (k <= row) sum += L[row * ldl + k] * B[k * ldb + col];",
               "out[row * ldo + col] = sum;", ("n", "cols", "n")),
        "the triangular L (lower half)·B",
    ),
    "one triangle of the result": (
        source("syrk_lower", SYRK, GRAM, LOWER, ("N", "N", "K")),
        "alpha·G·Gᵀ + beta·C in the lower half of C",
    ),
    "one pitch for both operands": (
        source("igemm", f"const signed char* A, const signed char* Bt, int* C, {SIZES}, int ldk",
               "sum += A[row * ldk + k] * Bt[col * ldk + k];", "C[row * N + col] = sum;"),
        "A·Btᵀ",
    ),
    "a factor of the bias, too": (
        source("linear", f"{AB}const float* bias, float* C, {SIZES}, float alpha", PLAIN,
               "C[row * N + col] = tanhf(alpha * (sum + bias[col]));"),
        "tanh(alpha·(A·B + bias))",
    ),
    "a factor of the result": (
        source("linear", f"{AB}const float* bias, float* C, {SIZES}, float alpha", PLAIN,
               "C[row * N + col] = alpha * fmaxf(sum + bias[col], 0.0f);"),
        "alpha·relu(A·B + bias)",
    ),
    "a vector": (
        source("gemv_relu", "const float* W, const float* x, float* y, int M, int K",
               "sum += W[row * K + k] * x[k];", "y[row] = fmaxf(sum, 0.0f);", ("M", "1", "K")),
        "relu(W·x)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_right(name: str, tmp_path: Path) -> None:
    text, formula = CASES[name]
    found = judged(tmp_path, text)
    assert (found.status, found.formula) == ("right", formula), found.trials


MISTAKES = {
    "the residual has the rows of the result": ("a residual with rows of its own", "R[row * ldr", "R[row * ldd"),
    "the residual is added where it is not asked for": ("a residual with rows of its own", "beta * R", "R"),
    "the gate loses the last column": ("a gate", "H[row", "if (col + 1 < N || N % 2 == 0) H[row"),
    "large sums are no numbers": ("a gate", "sum / (1.0f + expf(-sum))", "sum * expf(sum) / (1.0f + expf(sum))"),
    "the bias is added to columns of a tile": ("two bounds", "bias[col]", "bias[threadIdx.x]"),
    "the other half is read": ("a symmetric matrix", "k <= row", "k / 16 <= row / 16"),
    "the other half counts": ("a triangular matrix", "k <= row", "k / 16 <= row / 16"),
    "the pitch of a row is its length": ("one pitch for both operands", "A[row * ldk", "A[row * K"),
    "half of a rest of eight is lost": ("a vector", "sum += W", "if (k < (K & ~7) + (K & 3)) sum += W"),
    "rows beyond a block are lost": ("a vector", "sum += W", "if (k < 128) sum += W"),
    "half of beta": ("a residual with rows of its own", "beta * R", "(int)beta * R"),
    "beta is no less than zero": ("a residual with rows of its own", "beta * R", "fmaxf(beta, 0.0f) * R"),
    "a NaN is left out": (
        "a residual with rows of its own",
        "sum += A",
        "if (A[row * lda + k] == A[row * lda + k]) sum += A",
    ),
    "the first of one row is lost": ("one pitch for both operands", "sum += A", "if (K > 1) sum += A"),
    "a second k-tile alone is lost": ("one pitch for both operands", "sum += A", "if (K / 16 != 2 || k < 16) sum += A"),
    "a long row ends": ("one pitch for both operands", "sum += A", "if (k < 1000) sum += A"),
    "one row is none": ("one pitch for both operands", "C[row", "if (M > 1) C[row"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_or_refused(name: str, tmp_path: Path) -> None:
    """No mistake passes as right; most are wrong, and what explains no launch gets no verdict."""
    case, old, new = MISTAKES[name]
    text = CASES[case][0]
    assert old in text
    try:
        found = judged(tmp_path, text.replace(old, new))
    except SignatureError:
        assert name in ("the residual is added where it is not asked for", "the bias is added to columns of a tile",
                        "the other half counts", "the pitch of a row is its length")  # fmt: skip
        return
    assert found.status == "wrong", (found.formula, found.trials)


ROW_OF_A_BLOCK = """
__global__ void gemv(const float* A, const float* x, float* y, int cols) {
    __shared__ float part[128];
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 128) sum += A[(size_t)blockIdx.x * cols + c] * x[c];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half >>= 1) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
void run(const float* A, const float* x, float* y, int rows, int cols) { gemv<<<rows, 128>>>(A, x, y, cols); }
"""


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("", "", "right"),
        ("c < cols; c", "c < min(cols, 1024); c", "wrong"),
        ("part[threadIdx.x] = sum;\n    __syncthreads();", "part[threadIdx.x] = sum;", "racy"),
    ],
)
def test_blocks_alone_count_the_rows(old: str, new: str, status: str, tmp_path: Path) -> None:
    found = judged(tmp_path, ROW_OF_A_BLOCK.replace(old, new) if old else ROW_OF_A_BLOCK)
    assert (found.status, found.formula) == (status, "A·x")


def test_an_odd_number_of_products_of_at_most_32_rows(tmp_path: Path) -> None:
    """Host code rules larger matrices out; the launch has no block for the last of three."""
    text = """
__global__ void bmm(const float* A, const float* B, float* C, int n, int batch) {
    int b = blockIdx.x * 2 + threadIdx.y;
    if (b >= batch) return;
    for (int i = threadIdx.x; i < n * n; i += 128) {
        float sum = 0.0f;
        for (int k = 0; k < n; ++k) sum += A[b * n * n + i / n * n + k] * B[b * n * n + k * n + i % n];
        C[b * n * n + i] = sum;
    }
}
int run(const float* A, const float* B, float* C, int n, int batch) {
    if (n > 32) return 1;
    bmm<<<BLOCKS, dim3(128, 2)>>>(A, B, C, n, batch);
    return 0;
}
"""
    assert judged(tmp_path, text.replace("BLOCKS", "(batch + 1) / 2")).status == "right"
    assert judged(tmp_path, text.replace("BLOCKS", "batch > 1 ? batch / 2 : 1")).status == "wrong"


CAPPED = """
__global__ void gemv(const float* A, const float* x, float* y, int M, int K) {
    int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;
    for (; row < M; row += STEP) {
        float sum = 0.0f;
        for (int k = lane; k < K; k += 32) sum += A[(size_t)row * K + k] * x[k];
        for (int o = 16; o > 0; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);
        if (lane == 0) y[row] = sum;
    }
}
void run(const float* A, const float* x, float* y, int M, int K) {
    gemv<<<min((M + 3) / 4, 256), 128>>>(A, x, y, M, K);
}
"""


@pytest.mark.parametrize(("step", "status"), [("gridDim.x * 4", "right"), ("M", "wrong")])
def test_rows_beyond_the_limit_of_a_grid(step: str, status: str, tmp_path: Path) -> None:
    found = judged(tmp_path, CAPPED.replace("STEP", step))
    assert (found.status, found.trials[-1].label) == (status, "beyond the largest grid")


VECTOR = """
__global__ void NAME(const float* A, const float* x, float* y, PARAMETERS) {
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= ROWS) return;
    float sum = 0.0f;
    for (int k = BEGIN; k < END; ++k) sum += A[row * COLUMNS + k] * x[k];
    y[row] = sum;
}
void run(const float* A, const float* x, float* y, PARAMETERS) {
    NAME<<<(ROWS + 63) / 64, 64>>>(A, x, y, PASSED);
}
"""


def vector_source(name: str, begin: str, end: str, columns: str, square: bool) -> str:
    found = VECTOR.replace("PARAMETERS", "int n" if square else "int M, int K")
    found = found.replace("PASSED", "n" if square else "M, K").replace("ROWS", "n" if square else "M")
    for word, text in (("NAME", name), ("BEGIN", begin), ("END", end), ("COLUMNS", columns)):
        found = found.replace(word, text)
    return found


@pytest.mark.parametrize(
    ("name", "begin", "end", "columns", "status", "formula"),
    [
        ("matvec", "0", "n", "n", "right", "A·x"),
        ("matvec", "0", "row + 1", "n", "right", "the triangular A (lower half)·x"),
        ("gemv", "1", "K", "K", "wrong", "A·x"),  # no launch is right, the name says what is meant
        ("gemv", "0", "K - 1", "K", "wrong", "A·x"),
        ("gemv", "0", "K", "M", "wrong", "A·x"),  # right for square matrices alone
    ],
)
def test_a_matrix_times_a_vector(
    name: str, begin: str, end: str, columns: str, status: str, formula: str, tmp_path: Path
) -> None:
    found = judged(tmp_path, vector_source(name, begin, end, columns, columns == "n"))
    assert (found.status, found.formula) == (status, formula)


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [("weights", "1", "n"), ("gemv", "max(0, row - 9)", "min(n, row + 9)"), ("spmv_gemv", "1", "n")],
)
def test_terms_may_be_left_out_on_purpose(name: str, begin: str, end: str, tmp_path: Path) -> None:
    """A band of a matrix, or no name that says which product is meant."""
    with pytest.raises(SignatureError):
        judged(tmp_path, vector_source(name, begin, end, "n", True))


@pytest.mark.parametrize("terms", ["sum = fmaxf(sum, A[row * K + k] + B[k * N + col]);",
                                   "sum += fabsf(A[row * K + k] - B[k * N + col]);"])  # fmt: skip
def test_what_no_formula_explains_is_refused(terms: str, tmp_path: Path) -> None:
    with pytest.raises(SignatureError):
        judged(tmp_path, source("distances", f"{AB}float* C, {SIZES}", terms, "C[row * N + col] = sum;"))


def test_a_guessed_launch_is_refused(tmp_path: Path) -> None:
    text = CASES["a slope"][0].partition("void run")[0]
    with pytest.raises(SignatureError):
        judged(tmp_path, text)


@pytest.mark.parametrize(
    ("comment", "limits", "multiple", "vague"),
    [
        ("// n <= 32", (("n", "<=", 32),), 1, ""),
        ("// p.n < 64; rows may be anything", (("n", "<", 64),), 1, ""),
        ("/* M, n and K are multiples of 16 */", (), 16, ""),
        ("// lda % 4 == 0, so that rows are aligned; K may be anything", (), 1, ""),
        ("// pitch ldh (even, >= n)", (), 1, ""),
        ("// K must be even", (), 2, ""),
        ("// K is a multiple of the tile", (), 1, "K"),
        ("// all sizes divisible by the tile", (), 1, "MnK"),
        ("int n = 5; // n tiles", (), 1, ""),
    ],
)
def test_what_comments_say_of_sizes(
    comment: str, limits: tuple[tuple[str, str, int], ...], multiple: int, vague: str
) -> None:
    found = documented(comment, ["M", "n", "K"])
    assert (found.limits, found.multiple, found.vague) == (limits, multiple, frozenset(vague))
