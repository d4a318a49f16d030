"""gemmsmith check of a product that a formula describes: its report."""

from __future__ import annotations

from gemmsmith.cli.options.device import CacheOptions
from gemmsmith.cli.product_report import ProductReport
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.errors import GemmsmithError
from gemmsmith.userfile.kernels.formula_kernel import FormulaKernel
from gemmsmith.verify.formula.instances import check_formula
from gemmsmith.verify.formula.judge import FormulaCheck


def formula_report(
    kernel: FormulaKernel, timeout: float, cache: CacheOptions, only: str, verbose: bool, refused: GemmsmithError,
    started: float,
) -> ProductReport:  # fmt: skip
    """The report on such a product; raises ``refused`` for any other kernel."""
    own = CompileCache(cache.cache_dir) if cache.cache_dir is not None else None
    check = check_formula(kernel, timeout, own, refused, only)
    return checked_report(check, seconds_used() - started, verbose)


def checked_report(check: FormulaCheck, seconds: float, verbose: bool) -> ProductReport:
    """The report on what was found."""
    why = "as its function object is called" if check.named else "one launch gave exactly that"
    line = f"{check.kernel.name}: taken to compute {check.formula}: {why}"
    return ProductReport(
        check, (line, *_found(check.kernel), *(f"  {each}" for each in check.also)), _source(check.kernel), seconds,
        verbose,
    )  # fmt: skip


def _source(kernel: FormulaKernel) -> str:
    """Where its launch comes from: it is never guessed."""
    if kernel.launch.described:
        return "from a comment"
    block, grid = kernel.launch.sources(kernel.problem(dict.fromkeys(kernel.bound, 64)))
    return block if block == grid else f"block {block}, grid {grid}"


def _found(kernel: FormulaKernel) -> list[str]:
    return [f"  {each}" for each in kernel.launch.found(kernel.problem(dict.fromkeys(kernel.bound, 64)))]
