"""gemmsmith check on wrong products whose parameters' names say nothing, and on kernels that are no products."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checking import check

from gemmsmith.verify.meaning.footprints import likeness
from gemmsmith.verify.meaning.launch_probe import Touched

QUICK = ("--trial", "M, N and K all different")
# Rows, input and output channels of a linear layer; the weights have a row for each output.
LAYER = """
__global__ void forward(float* out, const float* inp, const float* weight, const float* bias, int places,
                        int ins, int outs) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= places || col >= outs) return;
    float sum = bias[col];
    for (int i = 0; i < ins; ++i) sum += inp[row * ins + i] * weight[col * ins + i];
    out[row * outs + col] = sum;
}
void run(float* out, const float* inp, const float* weight, const float* bias, int B, int T, int ins, int outs) {
    forward<<<dim3((outs + 15) / 16, (B * T + 15) / 16), dim3(16, 16)>>>(out, inp, weight, bias, B * T, ins, outs);
}
"""
SCORES = """
__global__ void scores(const float* Q, const float* K, float* S, int T, int D) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= T || col >= T) return;
    float sum = 0.0f;
    for (int i = 0; i < D; ++i) sum += Q[row * D + i] * K[col * D + i];
    S[row * T + col] = sum;
}
void run(const float* Q, const float* K, float* S, int T, int D) {
    scores<<<dim3((T + 15) / 16, (T + 15) / 16), dim3(16, 16)>>>(Q, K, S, T, D);
}
"""
OTHER = """
__global__ void pairs(const float* a, const float* b, float* c, int p, int q, int r) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= p || col >= r) return;
    float s = 0;
    for (int k = 0; k < q; ++k) STEP
    c[row * r + col] = STORED;
}
void run(const float* a, const float* b, float* c, int p, int q, int r) {
    pairs<<<dim3((r + 15) / 16, (p + 15) / 16), dim3(16, 16)>>>(a, b, c, p, q, r);
}
"""
PRODUCT = "s += a[row * q + k] * b[col * q + k];"
DISTANCE = "{ float d = a[row * q + k] - b[col * q + k]; s += d * d; }"


@pytest.mark.parametrize("source", [LAYER, SCORES])
def test_the_right_one(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found


@pytest.mark.parametrize(
    ("source", "before", "after", "said"),
    [
        (LAYER, "int i = 0", "int i = 1", "places is M, ins is K, outs is N"),
        (LAYER, "weight[col * ins", "weight[col * outs", "places is M, ins is K, outs is N"),
        (SCORES, "int i = 0", "int i = 1", "T is MN, D is K"),
    ],
)
def test_a_mistake_is_wrong(
    source: str, before: str, after: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, source.replace(before, after), capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found
    assert f"by what it reads and writes, {said}" in found["found"], found["found"]


@pytest.mark.parametrize(("step", "stored"), [(DISTANCE, "s"), (PRODUCT, "s * 0.125f")])
def test_what_is_no_product_is_refused(
    step: str, stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its indices and by what it touches it is like one, but not linear in A and B, or a multiple of a product."""
    code, found = check(tmp_path, OTHER.replace("STEP", step).replace("STORED", stored), capsys, *QUICK)
    assert code == 2, found
    assert "what p, q, r mean is not clear, and no reading of its parameters that was tried computes A·B" in found
    assert "--signature A,B,C,?,?,?" in found


@pytest.mark.parametrize(
    ("step", "stored", "why"),
    [(DISTANCE, "s", "not linear in A and in B"), (PRODUCT, "s * 0.125f", "it gives 0.125 times A·B")],
)
def test_what_is_no_product_is_refused_whatever_its_sizes_are_called(
    step: str, stored: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = OTHER.replace("STEP", step).replace("STORED", stored)
    for letter, role in zip("pqr", "MKN", strict=True):
        source = re.sub(rf"\b{letter}\b", role, source)
    code, found = check(tmp_path, source, capsys, *QUICK)
    assert code == 2, found
    assert why in found, found
    code, found = check(tmp_path, source.replace("pairs", "gemm"), capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), "its name says that it is a product"


def test_how_much_of_the_matrices_is_touched() -> None:
    shape = m, n, k = 64, 128, 192
    whole = Touched(m * k, k * n, m * n)
    assert likeness(whole, shape) == 3
    assert likeness(Touched(m * k, 17, m * n), shape) == 2
    assert likeness(Touched(m * (k - 1), (k - 1) * n, m * n), shape) == 1
    assert likeness(Touched(m * (k - 1), (k - 2) * n, m * n), shape) == 0
    assert likeness(Touched(m * k, m * k * n, m * n), shape) == 0  # a matrix for each row
    assert likeness(Touched(m * n, m * n, m * n), shape) == 0
