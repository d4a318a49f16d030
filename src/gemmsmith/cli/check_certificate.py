"""The certificate of a kernel that passed its check."""

from __future__ import annotations

from typing import Any

from gemmsmith.call.binding import CompileFn
from gemmsmith.cli.render.check_report import DISTINCT, RAGGED, Report
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.verify.certificate import Certificate, certify


def add_certificate(
    report: Report, config: Config, compile_fn: CompileFn, loads: dict[Any, Any], whole_grid: bool
) -> None:
    """Try to prove what the trials tested. Only on the simulator, and only where all blocks were run."""
    if not report.ok or not report.verdicts:
        return
    spec, arch = report.spec, report.compiled.arch
    if not whole_grid:
        report.certificate = Certificate(report.base, reason="only some of its blocks were simulated")
        return
    passed = {trial.label: verdict.trusted for trial, verdict in report.verdicts}
    other_m = not report.square and not spec.signature.fixed and passed.get(DISTINCT, True)
    try:
        report.certificate = certify(spec, config, report.base, compile_fn, arch, any_m=passed.get(RAGGED, False),
                                     other_m=other_m, loads=loads)  # fmt: skip
    except GemmsmithError as error:  # what the trials did not meet, they did not meet: no verdict changes
        report.certificate = Certificate(report.base, reason=error.message)
