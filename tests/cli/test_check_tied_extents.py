"""gemmsmith check of kernels in which one parameter is two of M, N and K: they are judged where these are equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.other_readings import readings
from gemmsmith.kernel.roles import recognise
from gemmsmith.problem import Problem
from gemmsmith.verify.harness import refusal

PARAMETERS = [("const float*", "A"), ("const float*", "B"), ("float*", "C"), ("int", "rows"), ("int", "n")]
SOURCE = """__global__ void mine(const float* A, const float* B, float* C, int rows, int n) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= LAST || col >= n) return;
    float sum = 0.0f;
    for (int k = FIRST; k < n; ++k) sum += A[row * n + k] * B[k * n + col];
    C[row * n + col] = sum;
}
void run(float* A, float* B, float* C, int rows, int n) {
    dim3 block(16, 16), grid((n + 15) / 16, (rows + 15) / 16);
    mine<<<grid, block>>>(A, B, C, rows, n);
}
"""


def test_every_pair_of_extents_may_be_one_parameter() -> None:
    found = [reading for reading in readings(recognise("mine", PARAMETERS)) if reading.tied]
    assert [reading.declaration() for reading in found] == [
        "A,B,C,M,NK", "A,B,C,NK,M", "A,B,C,N,MK", "A,B,C,MK,N", "A,B,C,K,MN", "A,B,C,MN,K"
    ]  # fmt: skip


@pytest.mark.parametrize("tied", ["NK", "MK", "MN"])
def test_products_are_refused_where_the_extents_differ(tied: str) -> None:
    single = next(role for role in "MNK" if role not in tied)
    signature = recognise("mine", PARAMETERS, declared=f"A,B,C,{single},{tied}")
    problem = Problem(5, 6, 7)
    assert "takes one size for" in refusal(signature, problem)
    assert refusal(signature, signature.tie(problem)) == ""
    first, second = (getattr(signature.tie(problem), extent.lower()) for extent in tied)
    assert first == second == getattr(problem, tied[0].lower())


def test_of_the_transposed_product_the_extents_change_places() -> None:
    signature = recognise("mine", PARAMETERS, declared="A,B,C,M,NK")
    turned = signature.transposed()
    assert turned.tied == "MK"
    assert turned.transposed() == signature
    assert turned.declaration() == "A,B,C,M,NK"


def test_three_sizes_are_three_extents() -> None:
    three = recognise("mine", [*PARAMETERS, ("int", "depth")])
    assert not any(reading.tied for reading in readings(three))


def test_an_unknown_pair_is_refused() -> None:
    with pytest.raises(SignatureError, match="unknown role 'KN'"):
        recognise("mine", PARAMETERS, declared="A,B,C,M,KN")


@pytest.mark.parametrize(("first", "last", "more", "code"), [
    ("0", "rows", (), 0),
    ("0", "n", (), 1),  # guards rows by the number of columns
    ("1", "rows", ("--signature", "A,B,C,M,NK"), 1),
])  # fmt: skip
def test_such_a_kernel_is_judged(
    first: str, last: str, more: tuple[str, ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = check(tmp_path, SOURCE.replace("FIRST", first).replace("LAST", last), capsys, *more)
    assert found[0] == code, found[1]
    if not more:
        assert any("n is N and K: it is judged where they are equal" in line for line in found[1]["found"])
