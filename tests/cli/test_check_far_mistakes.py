"""Mistakes that show only at sizes, or with data, that small whole tiles do not have."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

FLAT = """
__global__ void flat(const float* A, const float* B, float* C, size_t M, size_t N, size_t K) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < LIMIT; i += (size_t)gridDim.x * blockDim.x) {
        size_t row = i / N, col = i % N;
        float sum = 0.0f;
        for (size_t k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + COLUMN];
        C[i] = sum;
    }
}
void run(const float* A, const float* B, float* C, size_t M, size_t N, size_t K) {
    int blocks = (int)((M * N + 127) / 128);
    if (blocks > 512) blocks = 512;
    flat<<<blocks, 128>>>(A, B, C, M, N, K);
}
"""
PLAIN = """
__device__ bool ends(const float* a) { return a[0] == 0.0f && a[1] == 0.0f && a[2] == 0.0f; }
__global__ void plain(const float* A, const float* B, float* C, int M, int N, int K) {
    unsigned col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < DEPTH; ++k) sum += *(const float*)((const char*)A + OFFSET) * B[(size_t)k * N + col];
    C[(size_t)row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    plain<<<dim3((N + 15) / 16, (M + 7) / 8), dim3(16, 8)>>>(A, B, C, M, N, K);
}
"""
EARLY = """
__global__ void early(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0.0f;
    a[y][x] = row < M && x < K ? A[(size_t)row * K + x] : 0.0f;
    b[y][x] = col < N && y < K ? B[(size_t)y * N + col] : 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
        int k = k0 + 16;
        a[y][x] = row < M && k + x < K ? A[(size_t)row * K + k + x] : 0.0f;
        b[y][x] = col < N && k + y < K ? B[(size_t)(k + y) * N + col] : 0.0f;
    }
    EMPTY
    if (row < M && col < N) C[(size_t)row * N + col] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    early<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""
SPLIT = """
__global__ void partial(const float* A, const float* B, float* W, int M, int N, int K, int chunk) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x, z = blockIdx.z;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = z * chunk; k < min(K, (z + 1) * chunk); ++k) sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];
    W[((size_t)z * M + row) * N + col] = sum;
}
__global__ void reduce(const float* W, float* C, int M, int N, int parts) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)M * N) return;
    float sum = 0.0f;
    for (int z = 0; z < COUNT; ++z) sum += W[(size_t)z * M * N + i];
    C[i] = sum;
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    const int parts = 4;
    int chunk = (K + parts - 1) / parts;
    CHUNK
    float* W;
    cudaMalloc(&W, sizeof(float) * parts * M * N);
    partial<<<dim3((N + 15) / 16, (M + 7) / 8, parts), dim3(16, 8)>>>(A, B, W, M, N, K, chunk);
    reduce<<<(M * N + 127) / 128, 128>>>(W, C, M, N, parts);
    cudaFree(W);
}
"""
ROWS_IN_BYTES = "((size_t)row * K + k) * 4"


def filled(source: str, **holes: str) -> str:
    for name, text in holes.items():
        source = source.replace(name, text)
    return source


RIGHT = {
    "flat": filled(FLAT, LIMIT="M * N", COLUMN="col"),
    "plain": filled(PLAIN, DEPTH="K", OFFSET=ROWS_IN_BYTES),
    "early": filled(EARLY, EMPTY=""),
    "split": filled(SPLIT, COUNT="parts", CHUNK=""),
}
WRONG = {
    "outputs beyond the largest grid": filled(FLAT, LIMIT="min(M * N, (size_t)gridDim.x * 128)", COLUMN="col"),
    "outputs beyond a number": filled(FLAT, LIMIT="M * N", COLUMN="(i < 90000 ? col : (col + 1) % N)"),
    "K beyond a minimum": filled(PLAIN, DEPTH="min(K, 12000)", OFFSET=ROWS_IN_BYTES),
    "zeros that end a sum": filled(
        PLAIN, DEPTH="K && !(k > 2 && ends(A + (size_t)row * K + k - 3))", OFFSET=ROWS_IN_BYTES
    ),
    "bytes in an int": filled(PLAIN, DEPTH="K", OFFSET="(int)((row * (unsigned)K + k) * 4)"),
    "a part beyond an area": filled(SPLIT, COUNT="parts - (M * N > 40000)", CHUNK=""),
    "a chunk that is rounded down": filled(SPLIT, COUNT="parts", CHUNK="if (chunk >= 40) chunk = chunk / 8 * 8;"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_stay_right(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, RIGHT[name], capsys)
    assert (code, found["status"]) == (0, "right"), found["verdict"]


@pytest.mark.parametrize("name", WRONG)
def test_far_mistakes_are_found(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, WRONG[name], capsys)
    assert (code, found["status"]) == (1, "wrong"), found["verdict"]


def test_a_race_where_k_is_0_alone_is_a_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, filled(EARLY, EMPTY="if (K == 0) sum = a[x][y];"), capsys)
    assert (code, found["status"]) == (0, "right"), found["verdict"]
    assert [trial["label"] for trial in found["trials"] if not trial["ok"]] == ["K = 0"]


def test_a_zero_does_not_take_a_nan_of_the_next_row_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A is read beyond K, in blocks behind the first; B is zero there."""
    beyond = EARLY.replace(
        "row < M && k + x < K ?", "row < M && (k + x < K || (blockIdx.x > 0 && row + 1 < M && k < K)) ?"
    )
    code, found = check(tmp_path, filled(beyond, EMPTY=""), capsys)
    assert (code, found["status"]) == (1, "wrong"), found["verdict"]
    assert "several tiles" in found["trials"][-1]["label"]


SCORES = """
// S[b] = Q[b] * K[b]^T for every b.SAID
__global__ void scores(const float* Q, const float* K, float* S, int seq, int dim) {
    const int b = blockIdx.z, row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    const float* q = Q + OFFSET * seq * dim;
    const float* k = K + OFFSET * seq * dim;
    float* s = S + OFFSET * seq * seq;
    if (row >= seq || col >= seq) return;
    float sum = 0.0f;
    for (int i = 0; i < dim; ++i) sum += q[row * dim + i] * k[col * dim + i];
    s[row * seq + col] = sum;
}
void run(const float* Q, const float* K, float* S, int bh, int seq, int dim) {
    scores<<<dim3((seq + 15) / 16, (seq + 15) / 16, bh), dim3(16, 16)>>>(Q, K, S, seq, dim);
}
"""
ANY_TOTAL = " The total size may be anything that fits in memory."


@pytest.mark.parametrize(
    ("said", "offset", "status"),
    [("", "b", "right"), (ANY_TOTAL, "b", "wrong"), (ANY_TOTAL, "(size_t)b", "right"),
     (" Not for anything that fits in memory.", "b", "right")],
)  # fmt: skip
def test_offsets_of_products_beyond_32_bits(
    said: str, offset: str, status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One number is the rows and the columns of C."""
    _, found = check(tmp_path, SCORES.replace("SAID", said).replace("OFFSET", offset), capsys)
    assert found["status"] == status, found
