"""Kernels that are judged as a product, fail at once, and compute a formula that is none of the meanings of a product:
``H += relu(X·W)``. They are refused as products, and judged as formulas."""

from __future__ import annotations

from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.render.check_report import Report
from gemmsmith.cli.scaled_reading import asked_of
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import GemmsmithError, SignatureError
from gemmsmith.userfile.kernels.formula_kernel import formula_kernel
from gemmsmith.verify.formula.case import Runner
from gemmsmith.verify.formula.documented import documented
from gemmsmith.verify.formula.find import Found, find_formula
from gemmsmith.verify.formula.takes import takes
from gemmsmith.verify.verdict import is_hazard

_SECONDS = 4.0  # of one core, for a kernel that is wrong at its first trial


def refuse_other_formula(report: Report, asked: Asked) -> None:
    """Raise for such a kernel: its first trial failed, without a fault or a race, and a formula explains a launch."""
    _, first = report.verdicts[0]
    if report.spec.is_rung or asked.device.wants_gpu or first.trusted or is_hazard(first) or first.faulted:
        return
    if report.settled.reading is not None or asked.options.signature:
        return
    try:
        found = _found(asked)
    except GemmsmithError:
        return
    if found is not None and found.sure and (found.formula.late or found.formula.kind):
        raise SignatureError(f"{report.entry} computes {found.formula.text()}, which is not a plain product")


def _found(asked: Asked) -> Found | None:
    kernel = formula_kernel(*asked_of(asked.kernel, asked.options))
    if kernel is None:
        return None
    cache = CompileCache(asked.cache.cache_dir) if asked.cache.cache_dir is not None else None
    runner = Runner(kernel, takes(kernel), asked.timeout, cache)
    return find_formula(runner, documented(kernel.text, runner.taken.extents), _SECONDS)
