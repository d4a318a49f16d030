"""Judge what a launch left in C: which outputs are wrong, which were never written, and the words for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gemmsmith.fills import Array, Operands
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.memory import Damage
from gemmsmith.verify.faults.diagnosis import mostly_zero, reasons, unwritten
from gemmsmith.verify.faults.wrong_sums import sums
from gemmsmith.verify.oracles.bounds import absolute_floor
from gemmsmith.verify.oracles.clamped import clamp_of
from gemmsmith.verify.oracles.compare import Arithmetic, Comparison, compare
from gemmsmith.verify.oracles.covered import written_part
from gemmsmith.verify.oracles.epilogue import SMOOTH
from gemmsmith.verify.oracles.promises import keeps_nan
from gemmsmith.verify.verdict import Verdict

_SMOOTH_TAIL = 2.0**-12  # 1 + tanh(x) is 0 in fp32 from x = -9 on, and in fp16 from -4


def judge_result(
    blank: Verdict, spec: KernelSpec, data: Operands, got: Array, damage: tuple[Damage, ...], c_is_set: bool,
    total: int | None = None, written: int | None = None,
) -> Verdict:  # fmt: skip
    """``blank`` with the judgement of C as it was read back, ``got``.

    c_is_set  C held numbers before the launch, not NaN
    total     blocks of the grid, where only some were run; ``written``: how many outputs these must write, if known
    """
    problem, mode = blank.problem, blank.mode
    how = Arithmetic(spec.tensor_cores, spec.accumulator, "" if spec.is_rung else spec.arithmetic, spec.rounds_again,
                     bool(spec.own_activation) and keeps_nan(spec))  # fmt: skip
    comparison = compare(mode, problem, spec.signature, data, got, blank.fill, blank.seed, how)
    if spec.signature.has("D"):  # the output is poisoned, whatever C holds
        problem, c_is_set = replace(problem, beta=0.0), False
    untouched = unwritten(problem, got, data.c, comparison, mode, c_is_set)
    if total is not None:
        comparison, untouched = written_part(problem, comparison, got, data.c, c_is_set, total, written)
    equal_to: list[str] = []
    if (
        mode not in ("projection", "mod32")
        and comparison.wrong.any()
        and blank.fill in ("normal", "integers", "uniform")
    ):
        equal_to = sums(problem, data, got, comparison.expected, comparison.wrong & ~untouched)
    if spec.signature.column_major and problem.batch == 1 and mode != "projection":
        comparison, got, untouched = comparison.transposed(), got.T, untouched.T  # rows and columns of the user's C
    worst = comparison.worst()
    known = None if mode == "projection" else comparison.expected
    return replace(
        blank,
        rho=worst.rho if worst else 0.0,
        gate=comparison.gate,
        where=(worst.row, worst.column) if worst else None,
        got=worst.got if worst else None,
        expected=worst.expected if worst else None,
        unwritten=int(np.count_nonzero(untouched)),
        wrong=int(np.count_nonzero(comparison.wrong)),
        mistrusted=mostly_zero(got, known, nearly_zero(problem, spec)),
        reasons=reasons(problem, got, comparison, untouched, mode, c_is_set, equal_to),
        damage=damage,
        nan_for_inf=bool(comparison.wrong.any()) and _nan_for_inf(comparison),
        clamped=clamp_of(comparison),
    )


def with_zeros_judged(verdict: Verdict, got: Array) -> Verdict:
    """With sums of +0 only, -0 is wrong: no order of summation gives it."""
    negative = (got == 0) & np.signbit(got)
    count = int(np.count_nonzero(negative))
    if not count or got.dtype.kind == "i" or verdict.problem.alpha <= 0:
        return verdict
    row, column = (int(i) for i in np.argwhere(negative)[0])
    reason = f"{count} of {got.size} outputs are -0 where every sum is +0, the first at ({row}, {column})"
    return replace(verdict, wrong=count, where=(row, column), got=-0.0, expected=0.0, reasons=(reason,))


def nearly_zero(problem: Problem, spec: KernelSpec) -> float:
    """The largest result that may come out as 0: of gelu and silu, that of a large negative argument."""
    return _SMOOTH_TAIL if spec.own_activation in SMOOTH else absolute_floor(problem, spec.accumulator)


def _nan_for_inf(comparison: Comparison) -> bool:
    got, expected = (values[comparison.wrong] for values in (comparison.got, comparison.expected))
    return got.dtype.kind == "f" and bool(np.isnan(got).all() and np.isinf(expected).all())
