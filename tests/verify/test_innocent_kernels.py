"""Correct kernels that a trial could accuse: biases, narrow types, pairs of elements, blocks of several tiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.fills import Operands, fill_named
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP16, INT8, Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.faults.diagnosis import mostly_zero
from gemmsmith.verify.oracles.certificate import certify
from gemmsmith.verify.oracles.compare import Arithmetic, compare
from gemmsmith.verify.trials.axis_multiple import LaunchSteps
from gemmsmith.verify.trials.edge_trials import edge_trials
from gemmsmith.verify.trials.multiples import Multiples
from gemmsmith.verify.trials.raggedness import find_raggedness
from gemmsmith.verify.trials.sparse_launch import sparse_reasons
from gemmsmith.verify.trials.trial import Size, Trial
from gemmsmith.verify.trials.trial_subject import Subject
from gemmsmith.verify.verdict import Verdict

LINEAR = """
#include <cuda_bf16.h>
__global__ void linear(const __nv_bfloat16* A, const __nv_bfloat16* B, const __nv_bfloat16* bias, __nv_bfloat16* C,
                       int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += float(A[(size_t)row * K + k]) * float(B[(size_t)k * N + col]);
    C[(size_t)row * N + col] = __float2bfloat16(acc + BIAS);
}
// gemmsmith: block=16,16 grid=N/16,M/16
"""
PERSISTENT = """
__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    for (int tile = blockIdx.x; tile < (M / 32) * (N / 32); tile += gridDim.x)
        for (int i = threadIdx.x; i < 1024; i += 256) {
            int row = tile / (N / 32) * 32 + i / 32, col = tile % (N / 32) * 32 + i % 32;
            float acc = 0.0f;
            for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
            C[row * N + col] = acc;
        }
}
// gemmsmith: block=256 grid=6
"""
BATCHED = """
__global__ void gemm(int M, int N, int K, const float* A, long long strideA, const float* B, long long strideB,
                     float* C, long long strideC) {
    A += blockIdx.z * strideA; B += blockIdx.z * strideB; C += blockIdx.z * strideC;
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
"""


def kernel(folder: Path, source: str) -> KernelSpec:
    (folder / "mine.cu").write_text(source, encoding="utf-8")
    return user_kernel(folder / "mine.cu", UserOptions())


@pytest.mark.parametrize(("bias", "right"), [("float(bias[col])", True), ("float(bias[row % N])", False)])
def test_far_blocks_have_a_bias_and_round_as_c_does(bias: str, right: bool, tmp_path: Path) -> None:
    spec = kernel(tmp_path, LINEAR.replace("BIAS", bias))
    problem = spec.problem(70016, 32, 288).with_(bias="column")  # sums beyond 256, where bf16 has no odd integers
    found = sparse_reasons(SimDevice(), spec, spec.config(), problem, (0, 8751), 512, compile_for, 16)
    assert (not found) == right, found


def test_blocks_of_several_tiles_are_not_run_alone(tmp_path: Path) -> None:
    spec = kernel(tmp_path, PERSISTENT)
    subject = Subject(spec, spec.config(), spec.problem(64, 96, 64), (32, 32), KernelEdges(), samples=True)
    assert all(trial.size is not Size.SPARSE for trial in edge_trials(subject))
    one_each = kernel(tmp_path, PERSISTENT.replace("grid=6", "grid=(M/32)*(N/32)"))
    subject = Subject(one_each, one_each.config(), spec.problem(64, 96, 64), (32, 32), KernelEdges(), samples=True)
    assert any(trial.size is Size.SPARSE for trial in edge_trials(subject))


def test_a_kernel_without_beta_may_read_its_operands_when_alpha_is_0(tmp_path: Path) -> None:
    spec = kernel(tmp_path, PERSISTENT.replace("int K)", "int K, float alpha)").replace("= acc", "= alpha * acc"))
    subject = Subject(spec, spec.config(), spec.problem(64, 96, 64), (32, 32), KernelEdges())
    assert [trial.c for trial in edge_trials(subject) if trial.problem.alpha == 0] == ["set"]


SQUARE = """
__global__ void square(const float* A, const float* B, float* C, int n) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= n || col >= n) return;
    float acc = 0.0f;
    for (int k = 0; k < n; ++k) acc += A[row * n + k] * B[k * n + col];
    C[row * n + col] = acc;
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(N/16)
"""


def test_the_certificate_of_a_single_extent_tries_no_other_m(tmp_path: Path) -> None:
    spec = kernel(tmp_path, SQUARE)
    found = certify(spec, spec.config(), spec.problem(32, 32, 32), compile_for, "sm_90", any_m=True)
    assert found.ok, found.reason
    assert found.same_for == (32,)


HOSTS = {
    "a constant": "int main() { const int M = 64, N = 64, K = 64; const int batch = 4; CALL }",
    "a parameter": "void launch(int M, int N, int K, int batchCount) { int batch = batchCount; CALL }",
}


@pytest.mark.parametrize("host", HOSTS)
def test_a_batch_that_only_host_code_knows(host: str, tmp_path: Path) -> None:
    call = """float *A, *B, *C; dim3 grid(N / 16, M / 16, batch), block(16, 16);
    gemm<<<grid, block>>>(M, N, K, A, (long long)M * K, B, (long long)K * N, C, (long long)M * N);"""
    spec = kernel(tmp_path, BATCHED + HOSTS[host].replace("CALL", call))
    grids = [spec.geometry(spec.problem(64, 32, 48).with_(batch=n), spec.config()).grid for n in (1, 3)]
    assert grids == [(2, 4, 1), (2, 4, 3)]


def verdict(problem: Problem, reason: str) -> Verdict:
    return Verdict("mine", "", problem, "sim", "float", "normal", 0, 0.0, 16.0, 0.0, None, None, None, 0, 0, 1, False,
                   (reason,) if reason else (), (), "")  # fmt: skip


BASE = Problem(64, 64, 64)
RAGGED = Trial("ragged", BASE.with_(m=65, n=63, k=67), "float", "normal", "lockstep")
GUARDS = KernelEdges((16,), (), frozenset("MNK"), was_read=True)


@pytest.mark.parametrize(
    ("reason", "edges", "wrong"),
    [
        ("misaligned global read", KernelEdges((16,), (), frozenset("MN")), ""),  # float2: no guard helps
        ("64 outputs were never written", KernelEdges((16,)), ""),  # two columns for each block
        ("out-of-bounds global write", KernelEdges((16,), (), frozenset("MN")), "N"),  # col <= N
    ],
)
def test_pairs_of_columns(reason: str, edges: KernelEdges, wrong: str) -> None:
    def run(trial: Trial) -> Verdict:
        return verdict(trial.problem, reason if trial.problem.n % 2 or trial.problem.k % 16 else "")

    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (64, 64), edges)
    assert found.wrong == wrong
    assert found.multiples == (Multiples() if wrong else Multiples(1, 2, 16))


@pytest.mark.parametrize(
    ("parts", "lost", "wrong"), [(1, "rest", ""), (3, "rest", "K"), (1, "middle", "K"), (1, "rows", "")]
)
def test_what_is_lost_where_k_is_no_multiple_of_three(parts: int, lost: str, wrong: str) -> None:
    """The rest after the last k-tile, a share of the parts that K is divided into, or a term in the middle; or all,
    since rows begin at multiples of three: no such K was meant."""

    def run(trial: Trial) -> Verdict:
        seen = {"rest": "integers to", "middle": "integers to 1 ", "rows": "nothing"}[lost]
        cut = f"{trial.fill} ".startswith(seen)
        return replace(verdict(trial.problem, ""), wrong=int(trial.problem.k % 3 != 0 and not cut))

    base = BASE.with_(k=63)
    found = find_raggedness(run, RAGGED, run(RAGGED), base, (64, 64), KernelEdges((3,)),
                            launch=LaunchSteps(parts=parts))  # fmt: skip
    assert (found.wrong, found.multiples) == (wrong, Multiples() if wrong else Multiples(1, 1, 3))


@pytest.mark.parametrize(("masks", "axis"), [(False, ""), (True, "K")])
def test_vectors_beyond_the_last_whole_k_tile_are_lost(masks: bool, axis: str) -> None:
    """A K of whole vectors is right or not; a mask along K shows that it was meant to be."""

    def run(trial: Trial) -> Verdict:
        vectors, tiles = trial.problem.k % 4 == 0, trial.problem.k % 16 == 0
        found = verdict(trial.problem, "" if vectors else "misaligned global read")
        return replace(found, wrong=4096 if vectors and not tiles else 0, total=4096)

    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (64, 64), KernelEdges((16,), masks_k=masks))
    assert (found.wrong, found.multiples) == (axis, Multiples() if axis else Multiples(1, 1, 16))


@pytest.mark.parametrize(("masks", "axis"), [(False, ""), (True, "K")])
def test_words_beyond_the_last_pair_of_words_are_lost(masks: bool, axis: str) -> None:
    """int8 in words of four: a K of whole words is read without a fault, and the last is lost where K % 8 is 4."""

    def run(trial: Trial) -> Verdict:
        found = verdict(trial.problem, "misaligned global read" if trial.problem.k % 4 else "")
        if trial.problem.k % 8 == 4:
            found = replace(found, reasons=("4096 of 4096 outputs are wrong",), wrong=4096)
        return replace(found, total=4096)

    found = find_raggedness(
        run, RAGGED, run(RAGGED), BASE.with_(dtype=INT8), (64, 64), KernelEdges((32,), masks_k=masks)
    )
    assert (found.wrong, found.multiples) == (axis, Multiples() if axis else Multiples(1, 1, 8))


def test_a_race_at_a_multiple_that_is_tried() -> None:
    """No multiple of K was meant to avoid a race: the search ends with it."""

    def run(trial: Trial) -> Verdict:
        race = "read-write race on shared memory" if trial.problem.k % 16 == 8 else ""
        return verdict(trial.problem, race if trial.problem.k % 8 == 0 else "misaligned global read")

    found = find_raggedness(run, RAGGED, run(RAGGED), BASE.with_(dtype=FP16), (64, 64), KernelEdges((8,)))
    assert found.trial is not None
    assert (found.wrong, found.trial.problem.k % 16) == ("MNK", 8)


@pytest.mark.parametrize(("wrong", "axis"), [(4096, ""), (64, "K")])
def test_a_kernel_for_even_k_alone_errs_in_every_output(wrong: int, axis: str) -> None:
    """One column that is wrong for odd K is a mistake in its code."""

    def run(trial: Trial) -> Verdict:
        ragged = trial.problem.k % 2 and "integers to" not in trial.fill
        return replace(verdict(trial.problem, ""), wrong=wrong if ragged else 0, total=4096)

    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (64, 64), KernelEdges((2,)))
    assert (found.wrong, found.multiples) == (axis, Multiples() if axis else Multiples(1, 1, 2))


@pytest.mark.parametrize(("least", "axis"), [(32, ""), (16, "K")])
def test_a_part_of_a_k_tile_alone_was_meant(least: int, axis: str) -> None:
    """``k0 + 32 <= K || k0 == 0`` with masked loads: right for K below the k-tile, and not beyond."""

    def run(trial: Trial) -> Verdict:
        k = trial.problem.k
        right = k % 32 == 0 or (k < 32 and k % least == 0)
        return replace(verdict(trial.problem, "" if right else "all outputs wrong"), wrong=0 if right else 4096)

    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (64, 64), KernelEdges((32,)))
    assert (found.wrong, found.multiples) == (axis, Multiples() if axis else Multiples(1, 1, 32))


@pytest.mark.parametrize(("n", "k"), [(4, 4), (4, 1), (1, 4)])
def test_which_rows_must_start_on_16_bytes(n: int, k: int) -> None:
    """Vectors of B and C leave K free: other K than multiples of four are tried then."""

    def run(trial: Trial) -> Verdict:
        bad = trial.problem.n % n or trial.problem.k % k
        return verdict(trial.problem, "misaligned global read" if bad else "")

    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (64, 64), KernelEdges((16,)))
    assert (found.wrong, found.multiples) == ("", Multiples(1, n, k))


def test_a_single_extent_that_fails_is_wrong() -> None:
    def run(trial: Trial) -> Verdict:
        return verdict(trial.problem, "out-of-bounds" if trial.problem.n == 62 else "")

    assert find_raggedness(run, RAGGED, verdict(BASE, "out-of-bounds"), BASE, (64, 64), GUARDS).wrong == "N"


@pytest.mark.parametrize(
    ("edges", "trans_a", "unwritten", "wrong"),
    [
        (GUARDS, False, 1, "M"),  # min(32, M - m0 & ~3): no vector lies along the rows, and they are left out
        (GUARDS, True, 1, ""),  # a vector of A does
        (KernelEdges((16,)), False, 1, ""),  # nothing guards the rows
        (GUARDS, False, 0, ""),  # four rows for each thread: only whole ones were meant
    ],
)
def test_multiples_of_a_vector_in_m(edges: KernelEdges, trans_a: bool, unwritten: int, wrong: str) -> None:
    def run(trial: Trial) -> Verdict:
        ragged = trial.problem.m % 4 and not trial.slack
        return replace(
            verdict(trial.problem, "rows are missing" if ragged else ""), unwritten=unwritten if ragged else 0
        )

    base = BASE.with_(trans_a=trans_a)
    assert find_raggedness(run, RAGGED, run(RAGGED), base, (64, 64), edges).wrong == wrong


@pytest.mark.parametrize(("unit", "wrong"), [(16, "M"), (0, "")])
def test_a_grid_that_counts_parts_of_a_tile_asks_for_them(unit: int, wrong: str) -> None:
    """``(M / 16 + 1) / 2`` blocks of 32 rows."""

    def run(trial: Trial) -> Verdict:
        return verdict(trial.problem, "out-of-bounds" if trial.problem.m % 32 else "")

    launch = LaunchSteps(grid_unit=lambda axis, _extent, _tile: unit if axis == "M" else 0)
    found = find_raggedness(run, RAGGED, run(RAGGED), BASE, (32, 64), KernelEdges((16,)), launch=launch)
    assert (found.wrong, found.multiples.m) == (wrong, 1 if wrong else 32)


def test_zeros_that_underflow_explains() -> None:
    small, zeros = np.full((4, 4), 2.0**-20), np.zeros((4, 4), np.float16)
    assert mostly_zero(zeros, small)
    assert not mostly_zero(zeros, small, underflow=2.0**-18)
    assert mostly_zero(zeros, np.ones((4, 4)), underflow=2.0**-18)


def test_partial_sums_in_fp16_may_overflow() -> None:
    problem = Problem(1, 1, 3, dtype=FP16, out_dtype=FP16)
    a = np.array([[200.0, 200.0, -200.0]], np.float16)
    data = Operands(a, np.abs(a).T.copy(), np.zeros((1, 1), np.float16))

    def is_wrong(got: float, how: Arithmetic) -> bool:
        values = np.array([[got]], np.float16)
        return bool(compare("float", problem, Signature("mine", ()), data, values, "normal", 0, how).wrong[0, 0])

    assert not is_wrong(np.inf, Arithmetic(accumulator=FP16))
    assert is_wrong(np.inf, Arithmetic())
    assert is_wrong(1000.0, Arithmetic(accumulator=FP16))


def test_positive_data_has_the_gate_of_growing_errors() -> None:
    assert fill_named("zero sums").errors_grow
