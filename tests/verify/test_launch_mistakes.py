"""What host code passes to a kernel that is right: sizes from the wrong axis of a tensor, strides that are short."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.verify.host.launch_mistakes import launch_mistake
from gemmsmith.verify.trials.trial import BATCHES, SCALED_ONLY, STRIDES, TENSORS
from gemmsmith.verify.verdict import Verdict

POINTERS = """
#include <torch/extension.h>
__global__ void product(const float* a, const float* b, float* c, int M, int N, int K) {
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    if (i >= M || j >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
    c[i * N + j] = sum;
}
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
    SIZES
    product<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), M, N, K);
    return c;
}
"""
BATCH = """
__global__ void products(const float* A, const float* B, float* C, int M, int N, int K, int strideA, int strideB,
                         int strideC) {
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y, b = blockIdx.z;
    if (i >= M || j >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[b * strideA + i * K + k] * B[b * strideB + k * N + j];
    C[b * strideC + i * N + j] = sum;
}
void run(float* A, float* B, float* C, int batch, int M, int N, int K) {
    products<<<dim3((N + 15) / 16, (M + 15) / 16, batch), dim3(16, 16)>>>(A, B, C, M, N, K, STRIDES);
}
"""


MADE = "\n    auto c = torch::empty({M, N}, a.options());"


def mistake(source: str, folder: Path, sizes: tuple[int, int, int] = (32, 64, 96)) -> tuple[str, str] | None:
    """The name of the check that fails, and its reason."""
    path = folder / "k.cu"
    path.write_text(source, encoding="utf-8")
    spec = user_kernel(path, UserOptions())
    problem = spec.problem(*sizes)
    like = Verdict("k", "", problem, "sim", "float", "normal", 0, 0.0, 16.0, 0.0, None, None, None, 0, 0, 1, False, (),
                   (), "gemmsmith check k.cu")  # fmt: skip
    found = launch_mistake(spec, spec.config(), problem, like, problem)
    return (found[0], found[1].reasons[0]) if found is not None else None


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ("int M = a.size(0), K = a.size(1), N = b.size(1);" + MADE, ""),
        ("int M = a.size(0), K = a.size(1), N = b.size(0);" + MADE, "b.size(0)"),
        ("int M = a.size(-2), K = b.size(-2), N = b.size(-1);" + MADE, ""),
        ("int M = a.size(1), K = a.size(0), N = b.size(1);" + MADE, "a.size(1)"),
        ("const auto K = a.size(1); int M = a.size(0), N = b.size(1);\n    auto c = torch::zeros({M, a.size(1)});",
         "a.size(1)"),
        # Where a name may stand for another shape, nothing is said.
        ("b = b.t().contiguous();\n    int M = a.size(0), K = a.size(1), N = b.size(0);" + MADE,
         ""),
        ("int M = a.size(1), K = a.size(-1), N = b.size(1);" + MADE, ""),
        ("int M = a.size(0), K = a.size(1), N = w.size(0);" + MADE, ""),
    ],
)  # fmt: skip
def test_sizes_of_tensors(sizes: str, named: str, tmp_path: Path) -> None:
    found = mistake(POINTERS.replace("SIZES", sizes), tmp_path)
    if not named:
        assert found is None
        return
    assert found is not None
    assert found[0] == TENSORS
    assert f"takes {named} for" in found[1]


def test_one_number_for_all_sizes_may_come_from_any_axis(tmp_path: Path) -> None:
    square = """
#include <torch/extension.h>
__global__ void rows(const float* A, const float* B, float* C, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = 0; i < size && j < size; ++j) {
        float sum = 0;
        for (int k = 0; k < size; ++k) sum += A[i * size + k] * B[k * size + j];
        C[i * size + j] = sum;
    }
}
torch::Tensor product(torch::Tensor a, torch::Tensor b) {
    int size = (int)a.size(0);
    torch::Tensor c = torch::empty_like(b);
    rows<<<(size + 15) / 16, 16>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), size);
    return c;
}
"""
    assert mistake(square, tmp_path, (64, 64, 64)) is None


@pytest.mark.parametrize(
    ("strides", "named"),
    [
        ("M * K, K * N, M * N", ""),
        ("M * K, M * N, M * N", "as strideB, where a matrix B of the batch has"),
        ("M * K, 0, M * N", ""),  # one B for all
        ("M * K, K * N, (int)M * K", "as strideC, where a matrix C of the batch has"),
        ("M * K, 2 * K * N, M * N", ""),  # with room between them
    ],
)
def test_strides_of_a_batch(strides: str, named: str, tmp_path: Path) -> None:
    found = mistake(BATCH.replace("STRIDES", strides), tmp_path)
    assert (found is None) == (not named), found
    if found is not None:
        assert found[0] == STRIDES
        assert named in found[1]


SCALED = """
__global__ void product(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    if (i >= M || j >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[i * K + k] * B[k * N + j];
    C[i * N + j] = alpha * sum + beta * C[i * N + j];
}
int run(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    CHECK
    product<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(M, N, K, alpha, A, B, beta, C);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        ("if (M == 0 || N == 0 || alpha == 0.0f) return 0;", True),
        ("if (M == 0 || N == 0 ||\n        alpha == 0.0f) {\n        return cudaSuccess;\n    }", True),
        ("if (M == 0 || N == 0 || (alpha == 0.0f && beta == 1.0f)) return 0;", False),
        ("if (M == 0 || N == 0 || K == 0) return 0;", True),
        ("if (M <= 0 || N <= 0 || K <= 0) return 0;", True),
        ("if (K < 0) return 0;", False),
        ("if (K == 0) { scale(C, beta, M * N); return 0; }", False),
        ("if (K == 0 && beta == 1.0f) return 0;", False),
        ("if (K <= 0) return -1;", False),
        ("if (alpha == 0.0f) return -1;", False),  # not supported
        ("if (alpha == 0.0f) { scale(C, beta, M * N); return 0; }", False),
        ("if (alpha == 0.0f) return scale(C, beta, M * N);", False),
    ],
)
def test_host_code_that_returns_without_scaling_c(check: str, wrong: bool, tmp_path: Path) -> None:
    found = mistake(SCALED.replace("CHECK", check), tmp_path)
    assert (found[0] if found else "") == (SCALED_ONLY if wrong else "")


@pytest.mark.parametrize(
    ("said", "blocks", "code", "found"),
    [
        ("any batch count", "batch", "", "65,535"),
        ("M and N are small", "batch", "", ""),
        ("not for any number of matrices", "batch", "", ""),
        ("any batch count", "batch < 65535 ? batch : 65535", "", ""),
        ("any batch count", "batch", "if (batch > 65535) return;", ""),
    ],
    ids=["promised", "not promised", "denied", "a limit", "a check"],
)
def test_a_batch_beyond_the_grid(said: str, blocks: str, code: str, found: str, tmp_path: Path) -> None:
    source = BATCH.replace("STRIDES", "M * K, K * N, M * N").replace("15) / 16, batch", f"15) / 16, {blocks}")
    source = source.replace("int K) {\n    products", f"int K) {{\n    {code}\n    products")
    failed = mistake(f"// {said}\n{source}", tmp_path)
    assert (failed is not None) == bool(found), failed
    assert failed is None or (failed[0] == BATCHES and found in failed[1])
