"""gemmsmith check on products divided by √K where that factor is no parameter: attention's scores."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SIZES = ("--m", "16", "--n", "24", "--k", "8", "--trial", "integers, bit for bit")
SCORES = """
__global__ void scores(const float* Q, const float* K, float* S, int rows, int keys, int dim) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= rows || col >= keys) return;
    float sum = 0.0f;
    for (int i = 0; i < dim; ++i) sum += Q[row * dim + i] * K[col * dim + i];
    S[row * keys + col] = FORMULA;
}
void run(const float* Q, const float* K, float* S, int rows, int keys, int dim) {
    scores<<<dim3((keys + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(Q, K, S, rows, keys, dim);
}
"""
RIGHT = ("sum / sqrtf(dim)", "sum * rsqrtf((float)dim)", "sum * (1.0f / sqrtf(static_cast<float>(dim)))",
         "__fmul_rn(__frsqrt_rn(float(dim)), sum)", "sum / sqrt((double)dim)")  # fmt: skip
OTHERS = ("sum / sqrtf(rows)", "sum / sqrtf(keys)", "sum / sqrtf(dim + 1)",
          "sum * rsqrtf(dim) * rsqrtf(dim)", "col > row ? 0.0f : sum / sqrtf(dim)",
          "blockIdx.y * 16 + 16 <= rows ? sum / sqrtf(dim) : sum")  # fmt: skip


@pytest.mark.parametrize("formula", RIGHT)
def test_a_product_divided_by_the_root_of_its_depth(
    formula: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, SCORES.replace("FORMULA", formula), capsys, *SIZES)
    assert (code, found["status"]) == (0, "right"), found
    assert "divided by √K" in str(found["found"]), found["found"]


@pytest.mark.parametrize("formula", OTHERS)
def test_other_factors_are_not_judged(formula: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SCORES.replace("FORMULA", formula), capsys, *SIZES)
    assert code == 2, found


def test_a_product_multiplied_by_the_root(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, SCORES.replace("FORMULA", "sum * sqrtf(dim)"), capsys, *SIZES)
    assert code != 0, found


def test_a_wrong_product_under_the_factor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Right for whole pairs of k alone: the copy without the factor shows it, and is no right kernel."""
    source = SCORES.replace("FORMULA", RIGHT[0]).replace("i < dim; ++i)", "i < dim / 2 * 2; ++i)")
    code, found = check(tmp_path, source, capsys, "--trial", "a shape that is no multiple of the tile")
    assert found["status"] in ("wrong", "whole_tiles"), found
    assert code == (1 if found["status"] == "wrong" else 0)


def test_later_products_of_a_batch_have_the_factor_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batched = SCORES.replace("int rows", "int batch, int rows").replace("K, S, rows", "K, S, batch, rows")
    batched = batched.replace("Q[", "Q[blockIdx.z * rows * dim + ").replace("K[", "K[blockIdx.z * keys * dim + ")
    batched = batched.replace("S[", "S[blockIdx.z * rows * keys + ").replace("/ 16), dim3(16", "/ 16, batch), dim3(16")
    for formula, wanted in (("sum / sqrtf(dim)", 0), ("blockIdx.z ? sum : sum / sqrtf(dim)", 2)):
        code, found = check(tmp_path, batched.replace("FORMULA", formula), capsys, *SIZES)
        assert code == wanted, found
