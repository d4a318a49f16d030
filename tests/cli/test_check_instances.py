"""gemmsmith check of a template of which host code launches several instances: all are judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from checking import check

from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.userfile.launches.launch_mistakes import flag_values
from gemmsmith.verify.host.instance_layouts import inconsistent_instance
from gemmsmith.verify.trials.trial import DISTINCT, ODD, ORDERS, PADDED, RAGGED, RANDOM, SCALED, UNREAD, Trial
from gemmsmith.verify.trials.trials import most_telling

SOURCE = """
template <char TA, char TB>
__global__ void gemm(const float* A, int lda, const float* B, int ldb, float* C, int M, int N, int K) {
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;
    if (i >= M || j >= N) return;
    float sum = 0.f;
    for (int k = 0; k < K; ++k) {
        float a = TA == 'N' ? A[i * lda + k] : A[k * lda + i], b = TB == 'N' ? B[k * ldb + j] : OTHER;
        sum += a * b;
    }
    C[i * N + j] = sum;
}
void run(bool ta, bool tb, const float* A, const float* B, float* C, int M, int N, int K) {
    const int lda = ta ? M : K, ldb = LDB;
    dim3 grid((N + 7) / 8, (M + 7) / 8), block(8, 8);
    if (!ta && !tb) gemm<'N', 'N'><<<grid, block>>>(A, lda, B, ldb, C, M, N, K);
    else if (ta && !tb) gemm<'T', 'N'><<<grid, block>>>(A, lda, B, ldb, C, M, N, K);
    else if (!ta) gemm<'N', 'T'><<<grid, block>>>(A, lda, B, ldb, C, M, N, K);
    else gemm<'T', 'T'><<<grid, block>>>(A, lda, B, ldb, C, M, N, K);
}
"""
RIGHT_B, RIGHT_LDB = "B[j * ldb + k]", "tb ? K : N"


def _source(other: str = RIGHT_B, ldb: str = RIGHT_LDB) -> str:
    return SOURCE.replace("OTHER", other).replace("LDB", ldb)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (_source(), ""),
        (_source(f"(TA == 'T' && k >= 64 ? 0.f : {RIGHT_B})"), "outputs wrong"),
        (_source(f"(TA == 'N' ? {RIGHT_B} : B[k * ldb + j])"), "ignores TB"),
        (_source(ldb="N"), "passes ldb = "),
    ],
    ids=["right", "the fourth", "a flag that one ignores", "a leading dimension"],
)
def test_all_four_transposes_are_judged(
    source: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, source, capsys)
    assert (code, found["status"]) == ((1, "wrong") if said else (0, "right")), found["found"]
    if said:
        assert said in str(found["trials"][-1]["reasons"])
    else:
        assert sum("which is judged too" in line for line in found["found"]) == 3


def test_leading_dimensions_that_variables_of_host_code_hold(tmp_path: Path) -> None:
    """By the flags that lead to a launch; not what the caller passes."""
    (tmp_path / "k.cu").write_text(_source(), encoding="utf-8")
    for flags, lda, ldb in (("NN", 32, 16), ("TN", 8, 16), ("NT", 32, 32)):
        spec = user_kernel(tmp_path / "k.cu", UserOptions(entry=f"gemm<{ord(flags[0])}, {ord(flags[1])}>"))
        passed: Any = spec.geometry.passed_strides(spec.signature, spec.problem(8, 16, 32))  # type: ignore[attr-defined]
        assert {name: value for name, (value, *_) in passed.items()} == {"lda": lda, "ldb": ldb}
    caller = _source().replace("const int lda = ta ? M : K, ldb = tb ? K : N;", "")
    caller = caller.replace("bool tb, ", "bool tb, int lda, int ldb, ")
    (tmp_path / "k.cu").write_text(caller, encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    assert spec.geometry.passed_strides(spec.signature, spec.problem(8, 16, 32)) == {}  # type: ignore[attr-defined]


def test_flags_that_conditions_leave_one_value() -> None:
    assert flag_values([("!ta && tb", True)]) == {"ta": "false", "tb": "true"}
    assert flag_values([("ta || !tb", False)]) == {"ta": "false", "tb": "true"}
    assert flag_values([("!ta && !tb", False), ("ta && !tb", False), ("!ta", True)]) == {"ta": "false", "tb": "true"}
    assert flag_values([("ta || tb", True), ("x && y", False), ("ta && tb || x", True), ("K % 4 == 0", True)]) == {}


def test_an_instance_that_ignores_a_flag() -> None:
    def of(a: str, b: str) -> tuple[tuple[str, str], ...]:
        return (("TA", a), ("T", "16"), ("TB", b))

    layouts = {of("0", "0"): (False, False), of("1", "0"): (True, False), of("0", "1"): (False, True)}
    assert inconsistent_instance(layouts) is None
    assert inconsistent_instance(layouts | {of("1", "1"): (True, True)}) is None
    assert inconsistent_instance(layouts | {of("1", "1"): (True, False)}) == (of("1", "1"), "TB")
    assert inconsistent_instance(layouts | {of("1", "1"): (False, True)}) == (of("1", "1"), "TA")
    tiles = {of(a, b): (False, b == "1") for a in "01" for b in "01"}  # TA is no flag of a layout
    assert inconsistent_instance(tiles) is None


def test_the_most_telling_trials() -> None:
    """Fewer for each of many instances; scalars and padding are tested together."""
    labels = ["integers, bit for bit", RANDOM, *ORDERS.values(), UNREAD, SCALED, PADDED, DISTINCT, ODD, RAGGED]
    trials = [Trial(label, Problem(8, 8, 8), "float", "normal", "lockstep") for label in labels]
    kept = [trial.label for trial in most_telling(trials)]
    assert kept == ["integers, bit for bit", UNREAD, PADDED, DISTINCT, ODD, RAGGED]
    unpadded = [trial for trial in trials if trial.label != PADDED]
    assert SCALED in [trial.label for trial in most_telling(unpadded)]
