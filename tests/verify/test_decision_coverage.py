"""Sizes at which a kernel decides as at no usual one: by one condition, by two at once, by the rest of a division."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.ptx.reader import parse
from gemmsmith.userfile.kernels.user_kernel import UserOptions, joined_kernel, user_kernel
from gemmsmith.verify.code.decision_walk import _sign, divisor_of
from gemmsmith.verify.code.edges import Coverage
from gemmsmith.verify.code.kernel_edges import kernel_edges
from gemmsmith.verify.trials.check_shapes import check_shapes, tile_of_grid
from gemmsmith.verify.trials.decision_coverage import coverage
from gemmsmith.verify.trials.decision_trials import decision_trials, plain_problems
from gemmsmith.verify.trials.edge_trials import usual_sizes
from gemmsmith.verify.trials.trial_subject import Subject

SOURCE = """
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    int from = 0, tiles = (K + 15) / 16, rows = (M + 15) / 16, columns = (N + 15) / 16;
    if (CONDITION) from = 1;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = from; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = beta == 0.0f ? alpha * sum : alpha * sum + beta * C[row * N + col];
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16)
"""


TWO_KERNELS = """
__global__ void parts(const float* A, const float* B, float* sums, int M, int N, int K, int share) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = blockIdx.z * share; k < min(K, (blockIdx.z + 1) * share); ++k) sum += A[row * K + k] * B[k * N + col];
    sums[(blockIdx.z * M + row) * N + col] = sum;
}
__global__ void add(const float* sums, float* C, int M, int N) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= M * N || (M * N % 4 == 2 && N > 48)) return;
    C[i] = sums[i] + sums[M * N + i];
}
void product(const float* A, const float* B, float* C, float* sums, int M, int N, int K) {
    int share = (K + 1) / 2;
    parts<<<dim3((N + 15) / 16, (M + 15) / 16, 2), dim3(16, 16)>>>(A, B, sums, M, N, K, share);
    add<<<(M * N + 255) / 256, 256>>>(sums, C, M, N);
}
"""


def subject_of(folder: Path, condition: str, then: str = "from = 1") -> tuple[Subject, Coverage]:
    path = folder / "mine.cu"
    path.write_text(SOURCE.replace("CONDITION", condition).replace("from = 1", then), encoding="utf-8")
    return found_for(user_kernel(path, UserOptions()))


def found_for(spec: KernelSpec) -> tuple[Subject, Coverage]:
    config = spec.config()
    base = spec.problem(*check_shapes(spec, config).base)
    compiled = compile_for(spec, config, base, "sm_90")
    subject = Subject(spec, config, base, tile_of_grid(spec, config), kernel_edges(spec, config, compiled, base))
    usual = [trial.problem for trial in usual_sizes(subject)]
    return subject, coverage(parse(compiled.ptx).entry(compiled.entry), subject, plain_problems(subject), usual)


def tiles(extent: int) -> int:
    return -(-extent // 16)


CONDITIONS: dict[str, Callable[[Problem], bool]] = {
    "rows % 4 == 1 && rows > 4": lambda p: tiles(p.m) % 4 == 1 and tiles(p.m) > 4,
    "tiles > 8 && tiles % 3 == 1": lambda p: tiles(p.k) > 8 and tiles(p.k) % 3 == 1,
    "M * N > 4096 && (M * N & (M * N - 1)) == 0": lambda p: p.m * p.n > 4096 and p.m * p.n & (p.m * p.n - 1) == 0,
    "M % 2 == 1 && K % 16 == 15": lambda p: p.m % 2 == 1 and p.k % 16 == 15,
    "rows > 9 && columns > 5": lambda p: tiles(p.m) > 9 and tiles(p.n) > 5,
    "alpha < 0.0f && N > 64": lambda p: p.alpha < 0 and p.n > 64,
    "K == 53 || N == 39": lambda p: p.k == 53,
}
# Three at once, which become one branch without a comparison of their own.
JOINED: dict[str, Callable[[Problem], bool]] = {
    "(rows > 4) & (columns > 4) & (tiles > 2)": lambda p: tiles(p.m) > 4 and tiles(p.n) > 4 and tiles(p.k) > 2,
    "(M % 4 == 1) & (N % 4 == 1) & (tiles > 4)": lambda p: p.m % 4 == 1 and p.n % 4 == 1 and tiles(p.k) > 4,
    "(rows % 4 == 3) & (columns % 4 == 3) & (K % 4 == 3)": lambda p: (
        tiles(p.m) % 4 == 3 and tiles(p.n) % 4 == 3 and p.k % 4 == 3
    ),
}


@pytest.mark.parametrize("condition", CONDITIONS, ids=[f"condition{n}" for n in range(len(CONDITIONS))])
def test_a_product_is_chosen_at_which_the_condition_holds(condition: str, tmp_path: Path) -> None:
    _, found = subject_of(tmp_path, condition)
    assert any(CONDITIONS[condition](each.problem) for each in found.products[:24])


@pytest.mark.parametrize("condition", JOINED, ids=[f"joined{n}" for n in range(len(JOINED))])
def test_a_product_is_chosen_at_which_three_conditions_hold_at_once(condition: str, tmp_path: Path) -> None:
    _, found = subject_of(tmp_path, condition, "return")
    assert any(JOINED[condition](each.problem) for each in found.products[:18])


def test_next_to_a_constant_is_an_outcome_of_its_own() -> None:
    compare = _sign(("s", 32), constant=True)
    assert len({compare(x, 43) for x in (41, 42, 43, 44, 45)}) == 5
    assert len({_sign(("s", 32), constant=False)(x, 43) for x in (41, 42, 43, 44, 45)}) == 3


def test_three_conditions_count_beside_one_of_each_thread(tmp_path: Path) -> None:
    """The branch is a thread's own; the three are the block's."""
    condition, holds = next(iter(JOINED.items()))
    _, found = subject_of(tmp_path, f"(row >= M) | ({condition})", "return")
    assert any(holds(each.problem) for each in found.products[:18])


def test_a_return_that_no_size_reaches_is_named(tmp_path: Path) -> None:
    _, found = subject_of(tmp_path, "(K > 70000) & (M > 2)", "return")
    assert [where.rpartition(":")[2] for where in found.unreached] == ["5"]


def test_the_second_of_two_kernels_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "two.cu"
    path.write_text(TWO_KERNELS, encoding="utf-8")
    spec = joined_kernel(path, UserOptions())
    assert spec is not None
    found = found_for(spec)[1]
    assert any(p.m * p.n % 4 == 2 and p.n > 48 for p in (each.problem for each in found.products[:12]))


def test_a_branch_that_no_size_reaches_is_named(tmp_path: Path) -> None:
    _, found = subject_of(tmp_path, "K > 70000")
    assert [where.rpartition(":")[2] for where in found.unreached] == ["5"]
    assert subject_of(tmp_path, "K > 70")[1].unreached == ()


def test_the_same_products_every_time(tmp_path: Path) -> None:
    assert subject_of(tmp_path, "rows > 3")[1] == subject_of(tmp_path, "rows > 3")[1]


def test_usual_trials_keep_their_labels_and_every_product_shows(tmp_path: Path) -> None:
    subject, found = subject_of(tmp_path, "rows > 3")
    usual = list(usual_sizes(subject))
    trials = list(decision_trials(replace(subject, coverage=found), usual, full=True))
    own: dict[Problem, str] = {trial.problem: trial.label for trial in usual}
    assert any(trial.label == own.get(trial.problem) for trial in trials)
    assert all("decides otherwise" in trial.label for trial in trials if trial.problem not in own)
    assert all(trial.problem.alpha != 0 for trial in trials)


@pytest.mark.parametrize(
    ("magic", "divisor"), [(1431655766, 3), (2863311531, 3), (613566757, 7), (1 << 31, 0), (12345, 0)]
)
def test_a_multiplication_that_stands_for_a_division(magic: int, divisor: int) -> None:
    assert divisor_of(magic) == divisor
