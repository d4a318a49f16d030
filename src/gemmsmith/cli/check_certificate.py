"""The certificate of a kernel that passed its check."""

from __future__ import annotations

import math

from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import GemmsmithError, TimeLimitError
from gemmsmith.problem import Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import in_rounds
from gemmsmith.verify.oracles.certificate import Certificate, certify
from gemmsmith.verify.trials.trial import DISTINCT, RAGGED
from gemmsmith.verify.trials.trial_runner import TrialRunner

# Multiply-adds of the shapes that are proven, if the trials have ones so small: a second or two.
_ENOUGH = 1 << 22
_LONGEST = 60.0  # seconds of one run
_TO_END = 0.6  # seconds of the budget, to stop and for the report


def add_certificate(report: Report, runner: TrialRunner) -> None:
    """Try to prove what the trials tested, in the seconds that they left. Only on the simulator, and only where all
    blocks were run."""
    device = runner.open_device("lockstep", False)
    if not report.ok or not report.verdicts or not isinstance(device, SimDevice):
        return
    if runner.blocks is not None:
        report.certificate = Certificate(report.base, reason="only some of its blocks were simulated")
        return
    if in_rounds(report.spec):
        joined = getattr(report.spec.geometry, "second", None) is not None
        why = "two kernels make the product" if joined else "its host code launches it for parts of the product"
        report.certificate = Certificate(report.base, reason=why)
        return
    left = report.budget - report.seconds - _TO_END if report.budget else math.inf
    no_time = f"no time in {report.budget:g} s; with --m, --n and --k there is no such limit"
    if left <= 0:
        report.certificate = Certificate(report.base, reason=no_time)
        return
    passed = {trial.label: trial.problem for trial, verdict in report.verdicts if verdict.trusted}
    failed = {trial.label for trial, verdict in report.verdicts if not verdict.trusted}
    distinct, ragged = passed.get(DISTINCT), passed.get(RAGGED)
    base = distinct if distinct is not None and _size(distinct) <= _ENOUGH else report.base
    also = ragged if ragged is not None and _size(ragged) <= _ENOUGH else None
    other_m = not report.square and not report.spec.signature.fixed and DISTINCT not in failed
    try:
        report.certificate = certify(runner.spec, runner.config, base, runner.compile_fn, report.compiled.arch,
                                     also=also, any_m=ragged is not None, other_m=other_m,
                                     timeout=min(_LONGEST, left), seconds=left, loads=device.loads)  # fmt: skip
    except TimeLimitError as error:
        report.certificate = Certificate(base, reason=no_time if left < _LONGEST else error.message)
    except GemmsmithError as error:  # what the trials did not meet is no proof of anything
        report.certificate = Certificate(base, reason=error.message)


def _size(problem: Problem) -> int:
    return problem.m * problem.n * problem.k
