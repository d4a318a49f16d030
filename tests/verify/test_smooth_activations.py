"""Kernels that apply gelu or silu to their product: integers are too far from 0 to tell them from relu."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.verify.meaning.said_functions import said_function
from gemmsmith.verify.oracles.epilogue import activated

KERNEL = """#include <cuda_fp16.h>
__device__ float f(float x) { FUNCTION }
__global__ void linear(const IN* A, const IN* B, const float* bias, IN* C, int M, int N, int K) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;
    if (i >= M || j >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += float(A[i * K + k]) * float(B[k * N + j]);
    C[i * N + j] = RESULT;
}
void run(const IN* A, const IN* B, const float* bias, IN* C, int M, int N, int K) {
    linear<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, bias, C, M, N, K);
}
"""
GELU = "return 0.5f * x * (1.0f + erff(x * 0.70710678f));"
GELU_TANH = "return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));"
SILU = "return x / (1.0f + __expf(-x));"


def _checked(folder: Path, function: str, kind: str, result: str = "f(sum + bias[j])") -> int:
    text = KERNEL.replace("FUNCTION", function).replace("RESULT", result).replace("IN", kind)
    (folder / "k.cu").write_text(text, encoding="utf-8")
    return run_command(["check", str(folder / "k.cu"), "--cures", "0", "--trial", "random data"])


@pytest.mark.parametrize(
    ("function", "kind", "name"),
    [(GELU, "float", "gelu"), (GELU_TANH, "float", "gelu_tanh"), (SILU, "float", "silu"), (SILU, "__half", "silu")],
)
def test_what_is_applied_is_found(
    function: str, kind: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _checked(tmp_path, function, kind) == 0
    assert f"as {name}(A·B + bias)" in " ".join(capsys.readouterr().out.split())


def test_a_function_that_is_not_known_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Mish is relu of large results, like gelu and silu.
    assert _checked(tmp_path, "return x * tanhf(log1pf(expf(x)));", "float") == 2
    assert "may apply a function to its product that check does not know" in " ".join(capsys.readouterr().err.split())


def test_a_scalar_may_belong_to_the_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = KERNEL.replace("FUNCTION", SILU).replace("RESULT", "sum / (1.0f + __expf(-beta * sum)) + bias[j]")
    text = text.replace("IN", "float").replace("linear", "swish_linear")
    text = re.sub(r"(__global__[^{]*?)\)\s*\{", r"\1, float beta) {", text, count=1)
    text = re.sub(r"(>>>\([^;]*?)\);", r"\1, 1.5f);", text, count=1)
    (tmp_path / "k.cu").write_text(text, encoding="utf-8")
    assert run_command(["check", str(tmp_path / "k.cu"), "--cures", "0", "--trial", "random data"]) == 2
    assert "check does not know" in " ".join(capsys.readouterr().err.split())


def test_a_bias_after_gelu_is_wrong_where_the_name_says_gelu(tmp_path: Path) -> None:
    text = KERNEL.replace("FUNCTION", GELU).replace("RESULT", "f(sum) + bias[j]").replace("IN", "float")
    (tmp_path / "k.cu").write_text(text.replace("linear", "bias_gelu"), encoding="utf-8")
    assert run_command(["check", str(tmp_path / "k.cu"), "--cures", "0", "--trial", "random data"]) == 1
    assert said_function("gemm_bias_gelu") == "gelu"
    assert said_function("fused_swish_gemm") == "silu"
    assert not said_function("gemm_gelu_dropout")


def test_a_wrong_constant_is_no_gelu() -> None:
    x = np.linspace(-4, 4, 101)
    close = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert np.abs(activated("gelu_tanh", x) - close).max() < 1e-15
    assert 1e-4 < np.abs(activated("gelu_tanh", x) - activated("gelu", x)).max() < 1e-3
