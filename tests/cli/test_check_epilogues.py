"""Files whose kernel adds a bias or ends in max(0, x), and kernels that host code launches part by part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

KERNEL = """
#include <cuda_fp16.h>
__global__ void {name}(const {kind}* A, const {kind}* B, {more}{kind}* C, int M, int N, int K) {{
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) {{
        sum += float(A[row * K + k]) * float(B[k * N + col]);
        {each}
    }}
    C[row * N + col] = {kind}({result});
}}
void launch(const {kind}* A, const {kind}* B, {more}{kind}* C, int M, int N, int K) {{
    {name}<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A, B, {given}C, M, N, K);
}}
"""


def checked(
    path: Path, capsys: pytest.CaptureFixture[str], result: str, *, each: str = "", name: str = "layer",
    kind: str = "float", bias: str = "", trial: str = "",
) -> tuple[int, dict[str, object]]:  # fmt: skip
    more, given = (f"const {bias}* bias, ", "bias, ") if bias else ("", "")
    path.write_text(KERNEL.format(name=name, kind=kind, more=more, given=given, each=each, result=result))
    code = run_command(["check", str(path), "--json", "--cures", "0", *(["--trial", trial] if trial else [])])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("result", ["fmaxf(sum, 0.f)", "sum > 0.f ? sum : 0.f"])
def test_relu_of_the_product_is_right_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], result: str
) -> None:
    code, found = checked(tmp_path / "layer.cu", capsys, result)
    assert (code, found["status"]) == (0, "right")
    assert "as relu(A·B)" in str(found["verdict"])


def test_a_bias_may_have_another_type_than_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = checked(tmp_path / "layer.cu", capsys, "fmaxf(sum + bias[col], 0.f)", kind="half", bias="float",
                          trial="random data")  # fmt: skip
    assert (code, found["status"]) == (0, "right")
    assert "as relu(A·B + bias)" in str(found["verdict"])


def test_relu_of_partial_sums_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = checked(tmp_path / "layer.cu", capsys, "sum", each="sum = fmaxf(sum, 0.f);", name="gemm_relu")
    assert (code, found["status"]) == (1, "wrong")


def test_another_function_of_the_product_is_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless it is a usual one, with a usual slope."""
    code, found = checked(tmp_path / "layer.cu", capsys, "sum > 0.f ? sum : 0.15f * sum", name="gemm_leaky_relu")
    assert code == 2
    assert "relu" in str(found["error"])


PARTS = """
__global__ void add_part(const float* A, const float* B, float* C, int M, int N, int kc, int lda, int ldb, int ldc,
                         bool first) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = first ? 0.f : C[row * ldc + col];
    for (int k = 0; k < kc; ++k) sum += A[row * lda + k] * B[k * ldb + col];
    C[row * ldc + col] = sum;
}
void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    int k = 0;
    while (k < K) {
        int kc = K - k < 40 ? K - k : 40;
        add_part<<<dim3((N + 7) / 8, (M + 7) / 8), dim3(8, 8)>>>(A + k, B + k * N, C, M, N, kc, K, N, N, k == 0);
        k += kc;
    }
}
"""


@pytest.mark.parametrize(("old", "new", "status"), [
    ("", "", "right"),
    ("B + k * N", "B + k * K", "wrong"),
    ("k == 0", "k <= 40", "wrong"),
    ("A + k,", "A + k + 1,", "wrong"),
])  # fmt: skip
def test_a_loop_over_parts_of_k_is_judged_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, status: str
) -> None:
    path = tmp_path / "parts.cu"
    path.write_text(PARTS.replace(old, new) if old else PARTS)
    code = run_command(["check", str(path), "--json", "--cures", "0", "--trial", "M, N and K all different"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["status"]) == (int(status == "wrong"), status)
    if status == "right":
        assert any("parts.cu:12, where k changes): the whole loop" in line for line in found["found"]), found["found"]


def test_a_loop_that_is_not_understood_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "parts.cu"
    unknown = PARTS.replace("k += kc;", "k += advance(kc);").replace("void launch", "int advance(int);\nvoid launch")
    path.write_text(unknown)
    code = run_command(["check", str(path), "--json", "--cures", "0", "--trial", "random data"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["status"]) == (0, "right")
    assert any("one launch is judged, not the loop" in line for line in found["found"]), found["found"]
