"""gemmsmith check on strides: of both axes, by their names; a single pitch; and those that a launch passes wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

from gemmsmith.kernel.axis_strides import axis_strides, pitch_by_use, stored_by_columns
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

KERNEL = """
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K, NUMBERS) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[LEFT] * B[RIGHT];
    C[OUT] = sum;
}
"""
HOST = """
void run(const float* A, const float* B, float* C, int M, int N, int K) {
    mine<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, PASSED);
}
"""
STYLES = [
    "stride_am stride_ak stride_bk stride_bn stride_cm stride_cn",
    "rs_a cs_a rs_b cs_b rs_c cs_c",
    "lda_row lda_col ldb_row ldb_col ldc_row ldc_col",
    "strideA0 strideA1 strideB0 strideB1 strideC0 strideC1",
    "incRowA incColA incRowB incColB incRowC incColC",
]


def _source(names: str, passed: str = "", exchanged: bool = False) -> str:
    a0, a1, b0, b1, c0, c1 = names.split()
    b0, b1 = (b1, b0) if exchanged else (b0, b1)
    text = KERNEL.replace("NUMBERS", ", ".join(f"int {name}" for name in names.split()))
    text = text.replace("LEFT", f"row * {a0} + k * {a1}").replace("RIGHT", f"k * {b0} + col * {b1}")
    return text.replace("OUT", f"row * {c0} + col * {c1}") + (HOST.replace("PASSED", passed) if passed else "")


@pytest.mark.parametrize("names", STYLES)
def test_which_stride_is_of_which_axis(names: str) -> None:
    found = axis_strides(dict(enumerate(names.split())), {})
    assert list(found.values()) == ["lda", "1", "ldb", "1", "ldc", "1"]
    assert axis_strides(dict(enumerate(names.split()[:5])), {}) == {}
    by_columns = axis_strides(dict(enumerate(names.split())), {0: "1", 2: "1", 4: "1"})
    assert by_columns == {1: "lda", 3: "ldb", 5: "ldc"}
    roles = dict(zip(names.split(), ("1", "lda", "1", "ldb", "1", "ldc"), strict=True))
    assert stored_by_columns(roles) == (True, True, True)


def test_strides_of_both_axes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, _source(STYLES[0]), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(
        tmp_path, _source(STYLES[0], exchanged=True), capsys, *QUICK
    )  # no transposed B: names say which
    assert (code, found["status"]) == (1, "wrong"), found


@pytest.mark.parametrize(("passed", "role"), [("K, 1, N, 1, N, 1", ""), ("K, 1, K, 1, N, 1", "K = ")])
def test_strides_that_a_launch_passes(
    passed: str, role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel is right; rows of B overlap where K is less than N."""
    if not role:
        (tmp_path / "k.cu").write_text(_source(STYLES[1], passed), encoding="utf-8")
        spec = user_kernel(tmp_path / "k.cu", UserOptions())
        values = spec.geometry.passed_strides(spec.signature, spec.problem(8, 16, 32))  # type: ignore[attr-defined]
        assert {name: value for name, (value, *_) in values.items()} == {"lda": 32, "ldb": 16, "ldc": 16}
        return
    code, found = check(tmp_path, _source(STYLES[1], passed), capsys)
    assert (code, found["status"]) == (1, "wrong"), found
    (reason,) = found["trials"][-1]["reasons"]
    assert f"passes {role}" in reason, reason
    assert "as rs_b, where rows have" in reason, reason


def test_leading_dimensions_of_host_code_itself(tmp_path: Path) -> None:
    """What the caller chooses may be any number: nothing is said of it."""
    source = _source(STYLES[1], "lda, 1, ldb, 1, ldc, 1").replace("int K) {\n    mine", "int K, int lda, int ldb, int "
                                                                  "ldc) {\n    mine")  # fmt: skip
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    assert spec.geometry.passed_strides(spec.signature, spec.problem(8, 16, 32)) == {}  # type: ignore[attr-defined]


def test_one_pitch_beside_the_extents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = KERNEL.replace("NUMBERS", "int p").replace("LEFT", "row * p + k").replace("RIGHT", "k * N + col")
    code, found = check(tmp_path, one.replace("OUT", "row * N + col"), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found
    code, found = check(tmp_path, one.replace("OUT", "row * N + row"), capsys, *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("s += A[i * p + k] * B[k * N + j];", "lda"),
        ("s += A[i * K + k] * B[p * k + j];", "ldb"),
        ("C[i * p + j] = A[i * p + k];", ""),  # one number for two matrices
        ("s += A[(i * p + h) * K + k];", ""),  # heads
        ("s += A[z * p * K + i * K + k];", ""),  # products
        ("As[y][x] = A[i * K + t * p + x];", ""),  # the width of a tile
        ("As[y][x] = A[K * i + t * p + x];", ""),
        ("for (int r = 0; r < p; ++r) s += A[i * K + k];", ""),
        ("for (int k = p * z; k < K; ++k) s += A[i * K + k];", ""),
    ],
)
def test_which_matrix_a_pitch_is_of(body: str, role: str) -> None:
    assert pitch_by_use("p", {"A": "A", "B": "B", "C": "C"}, body, ["M", "N", "K"]) == role
