"""A flag that callers of host code choose, and that check found a value for by trying: a failure with that value may be
no failure with the other one, ``if (guarded && row >= M) return;``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import UsageError
from gemmsmith.kernel.signature import Signature
from gemmsmith.verify.code.kernel_body import kernel_decisions
from gemmsmith.verify.code.mode_values import chosen_by_callers, modes_of, with_values
from gemmsmith.verify.trials.trial_runner import TrialRunner

_MOST = 4  # launches


def refuse_callers_flag(report: Report, runner: TrialRunner) -> None:
    """Raise where the trial that failed passes with another value of such a flag."""
    failed = next((each for each in report.failed if not report.only_warns(*each)), None)
    others = list(_others(report))[:_MOST] if not report.spec.is_rung else []
    if failed is None or not others or runner.run(failed[0]).trusted:  # what fails may be host code
        return
    trial, verdict = failed
    for signature, own, other in others:
        spec = report.spec.read_as(signature, report.spec.layouts[0])
        if replace(runner, spec=spec).run(trial).trusted:
            raise UsageError(
                f"{report.entry} is right for {report.own(verdict.problem)} with {other} and not with {own}, which was "
                "found by trying: its host code leaves the choice to its callers",
                "pass a number for it in host code, or give its value in its place with --signature",
            )


def _others(report: Report) -> Iterator[tuple[Signature, str, str]]:
    """The signature with another value of one flag; the flag with its own value and with that one, as text."""
    signature, body = report.spec.signature, kernel_decisions(report.spec)
    for flag in chosen_by_callers(signature):
        for value in modes_of(flag, body, report.spec.code):
            if value != flag.role:
                changed, other = with_values(signature, {flag: value})
                yield changed, with_values(signature, {flag: flag.role})[1], other
