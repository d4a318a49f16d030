"""gemmsmith check of an instance of a template that is no plain product, beside one that is: judged as a formula.

switch (act) { case 0: linear<Identity><<<…>>>(…); break; case 1: linear<Relu6><<<…>>>(…); }
"""

from __future__ import annotations

from dataclasses import replace

from gemmsmith.cli.check_formula import checked_report
from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.product_report import ProductReport
from gemmsmith.cli.scaled_reading import asked_of
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import GemmsmithError, SignatureError
from gemmsmith.userfile.kernels.formula_kernel import formula_kernel
from gemmsmith.userfile.launches.shape_dispatch import Pairs
from gemmsmith.verify.formula.instances import check_instance


class WrongInstanceError(SignatureError):
    """An instance that a formula describes is wrong: ``report`` is the verdict on the file."""

    def __init__(self, report: ProductReport) -> None:
        super().__init__(report.conclusion())
        self.report = report


def instance_report(asked: Asked, values: Pairs, own: Pairs, refused: GemmsmithError) -> ProductReport | None:
    """The report on the instance with these template values, beside the one with ``own``; None where no formula
    explains it."""
    cache = CompileCache(asked.cache.cache_dir) if asked.cache.cache_dir is not None else None
    path, options = asked_of(asked.kernel, asked.options)
    try:
        kernel, beside = (formula_kernel(path, replace(options, defines=(*options.defines, *each)))
                          for each in (values, own))  # fmt: skip
        if kernel is None:
            return None
        check = check_instance(kernel, beside, asked.timeout, cache, refused, asked.budget)
    except GemmsmithError:
        return None
    if check is None or not check.trials:
        return None
    return checked_report(check, asked.budget, asked.trial.verbose)
