"""Code of a kernel's own for ragged extents: an error there is a mistake, and no limit to whole tiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.fills import operands
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.code.kernel_edges import kernel_edges
from gemmsmith.verify.leniency import tests_beta as asks_for_beta
from gemmsmith.verify.trials.axis_multiple import LaunchSteps
from gemmsmith.verify.trials.multiples import Multiples
from gemmsmith.verify.trials.raggedness import find_raggedness
from gemmsmith.verify.trials.trial import Trial
from gemmsmith.verify.verdict import Verdict

FOURS = """
__global__ void fours(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = (blockIdx.x * 16 + threadIdx.x) * 4, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum[4] = {};
    REST
    for (int k = 0; k < K; ++k)
        for (int j = 0; j < 4; ++j) sum[j] += A[row * K + k] * B[k * N + col + j];
    for (int j = 0; j < 4; ++j) C[row * N + col + j] = sum[j];
}
// gemmsmith: block=16,8 grid=ceil(N/64),ceil(M/8)
"""
REST = """if (col + 4 > N) {
        for (int j = 0; col + j < N; ++j) {
            for (int k = 0; k < K; ++k) sum[0] += A[row * K + k] * B[k * N + col + j];
            C[row * N + col + j] = sum[0];
            sum[0] = 0.0f;
        }
        return;
    }"""
BY_LENGTH = """if (N % 4) {
        for (int j = 0; j < 4 && col + j < N; ++j) C[row * N + col + j] = A[row * K] * B[col + j];
        return;
    }"""
WHOLE = "if (col + 4 > N) return;"


@pytest.mark.parametrize(("rest", "has_code"), [("", False), (WHOLE, False), (REST, True), (BY_LENGTH, True)],
                         ids=["no rest", "left out", "by column", "by length"])  # fmt: skip
def test_code_that_no_whole_vector_leads_to(tmp_path: Path, rest: str, has_code: bool) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(FOURS.replace("REST", rest), encoding="utf-8")
    spec = user_kernel(path, UserOptions())
    base = spec.problem(64, 64, 64)
    found = kernel_edges(spec, spec.config(), compile_for(spec, spec.config(), base, "sm_90"), base)
    assert ("N" in found.tails, "M" in found.tails) == (has_code, False)


@pytest.mark.parametrize(("rest", "has_code"), [(WHOLE, False), (REST, True)], ids=["left out", "by column"])
def test_code_for_columns_that_end_within_a_block(tmp_path: Path, rest: str, has_code: bool) -> None:
    """The block has 128 columns, C has 64: neither the first nor the last thread of a row takes the rest."""
    path = tmp_path / "mine.cu"
    wide = FOURS.replace("Idx.x * 16", "Idx.x * 32").replace("Idx.y * 8", "Idx.y * 32")
    wide = wide.replace("block=16,8 grid=ceil(N/64),ceil(M/8)", "block=32,32 grid=ceil(N/128),ceil(M/32)")
    path.write_text(wide.replace("REST", rest), encoding="utf-8")
    spec = user_kernel(path, UserOptions())
    base = spec.problem(64, 64, 64)
    found = kernel_edges(spec, spec.config(), compile_for(spec, spec.config(), base, "sm_90"), base)
    assert ("N" in found.tails, "M" in found.tails) == (has_code, False)


BASE = Problem(64, 64, 64)
RAGGED = Trial("ragged", BASE.with_(m=65, n=63, k=67), "float", "normal", "lockstep")
DEPTH = KernelEdges((16,))
GUARDS = KernelEdges((16,), guards=frozenset("MNK"), was_read=True)


def verdict(problem: Problem, wrong: int = 0, reason: str = "", unwritten: int = 0) -> Verdict:
    return Verdict("mine", "", problem, "sim", "float", "normal", 0, 0.0, 16.0, 0.0, None, None, None, unwritten, wrong,
                   4096, False, (reason,) if reason else (), (), "")  # fmt: skip


@pytest.mark.parametrize(("tails", "reason", "axis"), [
    ("", "", ""), ("M", "", ""), ("N", "", "N"), ("N", "misaligned global read", "")
])  # fmt: skip
def test_columns_that_the_code_for_the_rest_gets_wrong(tails: str, reason: str, axis: str) -> None:
    """No code could mend a vector that is misaligned: rows of whole vectors were meant."""

    def run(trial: Trial) -> Verdict:
        ragged = trial.problem.n % 4 != 0
        return verdict(trial.problem, 2016 if ragged and not reason else 0, reason if ragged else "")

    edges = replace(DEPTH, tails=frozenset(tails))
    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (64, 64), edges)
    assert (found.wrong, found.multiples) == (axis, Multiples() if axis else Multiples(1, 4, 1))


@pytest.mark.parametrize(("short", "wrong", "unwritten", "reason", "axis"), [
    ("m", 2016, 0, "", "M"), ("n", 64, 0, "", "N"),
    ("n", 2016, 0, "", ""),  # columns in pairs, across rows of odd length
    ("n", 64, 64, "", ""), ("m", 64, 0, "misaligned global read", ""),
])  # fmt: skip
def test_what_stays_inside_its_matrices_was_meant_to(
    short: str, wrong: int, unwritten: int, reason: str, axis: str
) -> None:
    """Without code for the edge a last tile reads rows and columns that there are not."""

    def run(trial: Trial) -> Verdict:
        ragged = getattr(trial.problem, short) % 4 != 0
        return verdict(trial.problem, *((wrong, reason, unwritten) if ragged else ()))

    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (64, 64), DEPTH)
    assert found.wrong == axis


@pytest.mark.parametrize(("edges", "axis"), [(DEPTH, ""), (GUARDS, "N")], ids=["no guard", "guards"])
def test_guards_are_judged_where_host_code_launches_the_kernel(edges: KernelEdges, axis: str) -> None:
    """``assert(N % 4 == 0)``, and columns are missing where N is no multiple of 32."""

    def run(trial: Trial) -> Verdict | None:
        n = trial.problem.n
        return verdict(trial.problem, 256 if n % 32 else 0, unwritten=256 if n % 32 else 0) if n % 4 == 0 else None

    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (32, 32), edges)
    assert (found.wrong, found.multiples) == (axis, Multiples() if axis else Multiples(1, 32, 1))
    assert found.trial is None or found.trial.problem.n == 60


@pytest.mark.parametrize(("tails", "axis"), [("", ""), ("K", "K")])
def test_a_least_k_of_host_code_hides_no_rest(tails: str, axis: str) -> None:
    """Another kernel is launched for K below 64: this one is tried a little below 80."""

    def run(trial: Trial) -> Verdict | None:
        k = trial.problem.k
        rest = k % 16 and not ("integers to" in trial.fill and not tails)  # without code for it, it is left out
        return verdict(trial.problem, 4096 if rest else 0) if k >= 64 else None

    edges = replace(DEPTH, tails=frozenset(tails))
    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (64, 64), edges)
    assert (found.wrong, found.multiples) == (axis, Multiples() if axis else Multiples(1, 1, 16))
    assert found.trial is None or 64 < found.trial.problem.k < 80


@pytest.mark.parametrize(("rest_is_there", "axis"), [(True, ""), (False, "K")])
def test_a_last_k_tile_that_is_moved_back(rest_is_there: bool, axis: str) -> None:
    """``min(k, K - 16)`` adds terms of the tile before it twice. That is no loss; a last tile that is stale is one."""

    def run(trial: Trial) -> Verdict:
        k = trial.problem.k
        whole = k // 16 * 16
        right = ["integers to 1", f"integers to {whole - 16}"] + [f"integers from {whole}"] * rest_is_there
        return verdict(trial.problem, 4096 if k % 16 and trial.fill not in right else 0)

    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (64, 64), DEPTH)
    assert (found.wrong, found.multiples) == (axis, Multiples() if axis else Multiples(1, 1, 16))


@pytest.mark.parametrize(("step", "rounds_down", "axis"), [
    (2, False, "M"), (8, False, "M"), (2, True, ""), (64, False, "")
])  # fmt: skip
def test_rows_that_a_part_of_a_tile_leaves_out(step: int, rounds_down: bool, axis: str) -> None:
    """No vector lies along the rows: who is right for a part of a tile counts its rows. A grid may round down."""

    def run(trial: Trial) -> Verdict:
        missing = trial.problem.m % step
        return verdict(trial.problem, 64 * missing, unwritten=64 * missing)

    launch = LaunchSteps(rounds_down=lambda *_: rounds_down)
    found = find_raggedness(run, RAGGED, run(RAGGED), BASE.with_(m=128), (64, 64), DEPTH, launch=launch)
    assert (found.wrong, found.multiples) == (axis, Multiples() if axis else Multiples(step, 1, 1))


def test_integers_in_a_part_of_k() -> None:
    problem = Problem(3, 5, 8)
    for fill, there in (("integers to 3", slice(3)), ("integers from 3", slice(3, None))):
        made = operands(problem, fill)
        kept = np.zeros(8, dtype=bool)
        kept[there] = True
        assert np.array_equal(made.a != 0, np.broadcast_to(kept, (3, 8)))
        assert np.array_equal(made.b != 0, np.broadcast_to(kept[:, None], (8, 5)))


SCALED = """
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = STORED;
}
// gemmsmith: block=16,16 grid=N/16,M/16
"""


@pytest.mark.parametrize(("stored", "asked"), [
    ("alpha * sum + beta * C[row * N + col]", False),
    ("fmaf(C[row * N + col], beta, alpha * sum) /* beta == 0 */", False),
    ("beta == 1.0f ? sum : beta * C[row * N + col]", False),
    ("beta == 0.5f ? sum : beta * C[row * N + col]", False),
    ("beta != 0.f ? sum + beta * C[row * N + col] : sum", True),
    ("0 == beta ? sum : sum + beta * C[row * N + col]", True),
    ("beta == (float)0 ? sum : sum + beta * C[row * N + col]", True),
    ("beta ? sum + beta * C[row * N + col] : sum", True),
    ("!beta ? sum : sum + beta * C[row * N + col]", True),
])  # fmt: skip
def test_a_kernel_that_asks_whether_beta_is_zero(tmp_path: Path, stored: str, asked: bool) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(SCALED.replace("STORED", stored), encoding="utf-8")
    assert asks_for_beta(user_kernel(path, UserOptions())) is asked
