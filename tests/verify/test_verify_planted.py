"""Planted bugs: each kernel is correct except for one mistake, which is detected and named."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from test_verify_fakes import FakeCall, Kernel, correct, run

from gemmsmith.problem import Problem


def one_past_the_end(call: FakeCall) -> None:
    correct(call)
    m, n, _ = call.shape
    call.view("C", m, n + 1)[-1, -1] = 0


def one_before_the_start(call: FakeCall) -> None:
    correct(call)
    call.device.arena[call.values["C"] - 4 : call.values["C"]] = 0


def a_row_below(call: FakeCall) -> None:
    correct(call)
    m, n, _ = call.shape
    call.view("C", m + 1, n)[m, 0] = 1


def row_padding(call: FakeCall) -> None:
    correct(call)
    m, n, _ = call.shape
    call.view("C", m, n + 1)[0, n] = 0


def skips_an_element(call: FakeCall) -> None:
    c = call.operands()[2]
    old = c[5, 7].copy()
    correct(call)
    c[5, 7] = old


def writes_nothing(_call: FakeCall) -> None:
    pass


def reads_c_at_beta_zero(call: FakeCall) -> None:
    c = call.operands()[2]
    old = c.copy()
    correct(call)
    c += np.float32(0) * old
    c[np.isnan(c)] = np.array(0x7FFFFFFF, np.uint32).view(np.float32)  # the payload is lost, as on a GPU


def reads_a_at_alpha_zero(call: FakeCall) -> None:
    a, b, c = call.operands()
    correct(call)
    c += np.float32(0) * (a.astype(np.float32) @ b.astype(np.float32))


def reads_padding(call: FakeCall) -> None:
    m, _, k = call.shape
    correct(call)
    call.operands()[2][:] += np.float32(0) * call.view("A", m, k + 1)[:, k:]


def transposes_a_tile(call: FakeCall) -> None:
    correct(call)
    tile = call.operands()[2][16:32, 0:16]
    tile[:] = tile.T.copy()


def changes_an_input(call: FakeCall) -> None:
    correct(call)
    call.operands()[1][3, 4] += 1


def zeroes_a_block(call: FakeCall) -> None:
    correct(call)
    call.operands()[2][8:32, 4:28] = 0


def zeroes_everything(call: FakeCall) -> None:
    call.operands()[2][:] = 0


def one_nan(call: FakeCall) -> None:
    correct(call)
    call.operands()[2][2, 3] = np.nan


def one_infinity(call: FakeCall) -> None:
    correct(call)
    call.operands()[2][2, 3] = np.inf


def swaps_alpha_and_beta(call: FakeCall) -> None:
    call.values["alpha"], call.values["beta"] = call.values["beta"], call.values["alpha"]
    correct(call)


def forgets_the_last_k(call: FakeCall) -> None:
    call.values["K"] -= 1
    correct(call)


def rounds_to_tf32(call: FakeCall) -> None:
    a, b, c = call.operands()
    short = [(x.copy().view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b)]
    c[:] = call.values["alpha"] * (short[0] @ short[1]) + np.float32(call.values["beta"]) * c


def ignores_ldc(call: FakeCall) -> None:
    call.values["ldc"] = call.values["N"]
    correct(call)


def wrong_at_the_edge(call: FakeCall) -> None:
    correct(call)
    call.operands()[2][32:, 32:] *= 2


PLAIN = Problem(40, 36, 20)
SCALED = Problem(40, 36, 20, alpha=0.7, beta=-1.3)
PADDED = Problem(40, 36, 20, lda=23, ldb=37, ldc=38)

PLANTED: list[tuple[Kernel, Problem, str]] = [
    (one_past_the_end, PLAIN, "C: 4 bytes overwritten past its end, the first at offset 5760"),
    (one_past_the_end, PADDED, "C: 4 bytes overwritten past its end"),
    (one_before_the_start, PLAIN, "C: 4 bytes overwritten before its start, the first at offset -4"),
    (a_row_below, PADDED, "overwritten past its end, the first at offset 60"),
    (row_padding, PADDED, "C: 4 bytes of the padding between rows overwritten, the first at row 0, column 36"),
    (skips_an_element, PLAIN, "1 of 1440 outputs were never written, the first at (5, 7)"),
    (skips_an_element, SCALED, "1 of 1440 outputs were never written, the first at (5, 7)"),
    (writes_nothing, PLAIN, "1440 of 1440 outputs were never written"),
    (writes_nothing, Problem(8, 8, 4, alpha=math.nan), "64 of 64 outputs were never written"),
    (writes_nothing, SCALED, "1440 of 1440 outputs were never written"),
    (reads_c_at_beta_zero, PLAIN, "1440 outputs are NaN and should not be: C was read although beta is 0"),
    (reads_a_at_alpha_zero, Problem(8, 8, 4, alpha=0.0, beta=1.0), "A or B was read although alpha is 0"),
    (reads_padding, PADDED.with_(lda=23, beta=1.0), "an operand was read outside its rows"),
    (transposes_a_tile, PLAIN, "this block holds the transpose of the expected values"),
    (transposes_a_tile, PLAIN, "rows 16 to 31, columns 0 to 15"),
    (changes_an_input, PLAIN, "B: an input was changed, 4 bytes, the first at row 3, column 4"),
    (zeroes_a_block, PLAIN, "the wrong outputs are in rows 8 to 31, columns 4 to 27"),
    (zeroes_a_block, PLAIN, "every wrong output is zero"),
    (zeroes_everything, PLAIN, "more than half of the output is zero"),
    (one_nan, PLAIN, "1 of 1440 outputs wrong, the worst at (2, 3): got nan"),
    (one_infinity, PLAIN, "1 of 1440 outputs wrong, the worst at (2, 3): got inf"),
    (swaps_alpha_and_beta, SCALED, "1440 of 1440 outputs wrong"),
    (forgets_the_last_k, PLAIN, "outputs wrong, the worst at"),
    (rounds_to_tf32, SCALED, "outputs wrong, the worst at"),
    (ignores_ldc, PADDED, "of the padding between rows overwritten"),
    (wrong_at_the_edge, PLAIN, "check how edge tiles are handled"),
]


@pytest.mark.parametrize(("kernel", "problem", "name"), PLANTED, ids=lambda x: getattr(x, "__name__", str(x))[:40])
def test_every_planted_bug_is_detected_and_named(tmp_path: Path, kernel: Kernel, problem: Problem, name: str) -> None:
    assert run(tmp_path, correct, problem, seed=3).trusted
    verdict = run(tmp_path, kernel, problem, seed=3)
    assert not verdict.ok
    assert not verdict.trusted
    assert name in str(verdict)
    assert str(verdict).startswith("WRONG: fake 40x36x20" if problem.m == 40 else "WRONG")
    assert f"repeat: gemmsmith run fake --m {problem.m} --n {problem.n}" in str(verdict)


@pytest.mark.parametrize("mode", ["exact", "bits", "projection", "float"])
@pytest.mark.parametrize(
    "kernel", [skips_an_element, zeroes_a_block, one_nan, forgets_the_last_k, transposes_a_tile, writes_nothing],
    ids=lambda k: k.__name__,
)  # fmt: skip
@pytest.mark.parametrize("beta", [0.0, -1.0])
def test_every_mode_catches(tmp_path: Path, mode: str, kernel: Kernel, beta: float) -> None:
    verdict = run(tmp_path, kernel, PLAIN.with_(alpha=2.0, beta=beta), mode=mode, fill="integers")
    assert not verdict.ok
    assert verdict.reasons


def test_one_term_dropped_of_16384_is_caught(tmp_path: Path) -> None:
    def drops_a_term(call: FakeCall) -> None:
        a, b, _ = call.operands()
        a, b = a.copy(), b.copy()
        correct(call)
        call.operands()[2][1, 2] -= a[1, 9000] * b[9000, 2]

    problem = Problem(4, 4, 16384)
    assert run(tmp_path, correct, problem).trusted
    verdict = run(tmp_path, drops_a_term, problem)
    assert not verdict.ok
    assert verdict.where == (1, 2)
    assert verdict.wrong == 1
    assert verdict.gate < verdict.rho < verdict.theory
