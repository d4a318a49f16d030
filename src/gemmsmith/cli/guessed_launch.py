"""Failures under a launch that was guessed, and that may be the guess's own fault: refusals, not verdicts."""

from __future__ import annotations

from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import UsageError
from gemmsmith.verify.verdict import Verdict, is_hazard

_HINT = "say how it is launched: --grid 'ceil(N/64),ceil(M/64)' --block 256 (and --smem, where it needs any)"


def refuse_guessed_grid(report: Report) -> None:
    """Raise where host code's launch is not understood, and the guess in its place leaves outputs as they are."""
    place, failed = getattr(report.spec.geometry, "misread", ""), _failed(report)
    if not place or failed is None or is_hazard(failed) or failed.faulted:
        return
    if 0 < failed.unwritten >= failed.wrong:
        raise UsageError(
            f"{report.entry}: its launch at {place} is not understood, and the one that was guessed leaves "
            f"{failed.unwritten} of the {failed.total} outputs of {report.own(failed.problem)} unwritten",
            _HINT,
        )


def refuse_mere_guess(report: Report) -> None:
    """Raise where nothing tells the launch, and the guess races, leaves the arrays or leaves outputs unwritten: another
    number of threads or blocks may do neither."""
    failed = _failed(report)
    if failed is None or not getattr(report.spec.geometry, "is_mere_guess", False):
        return
    races = any(" race on " in reason for reason in failed.reasons)
    if races or failed.faults or failed.faulted or 0 < failed.unwritten >= failed.wrong:
        raise UsageError(
            f"{report.entry}: no launch of it is in its repository, and with the one that was guessed it fails for "
            f"{report.own(failed.problem)}, which may be the guess's fault",
            _HINT,
        )


def _failed(report: Report) -> Verdict | None:
    return next((verdict for trial, verdict in report.failed if not report.only_warns(trial, verdict)), None)
