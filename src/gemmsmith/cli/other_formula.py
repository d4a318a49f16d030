"""Kernels that are judged as a product, fail at once, and compute a formula that is none of the meanings of a product:
``H += relu(X·W)``, or what a function object does to the result. They are refused as products, and judged as formulas.
"""

from __future__ import annotations

from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.render.check_report import Report
from gemmsmith.cli.scaled_reading import asked_of
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import GemmsmithError, SignatureError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.kernels.formula_kernel import FormulaKernel, formula_kernel
from gemmsmith.userfile.kernels.struct_parameters import NO_MEMBER
from gemmsmith.verify.formula.case import Runner
from gemmsmith.verify.formula.documented import documented
from gemmsmith.verify.formula.find import find_formula
from gemmsmith.verify.formula.formula import Formula
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
        kernel = formula_kernel(*asked_of(asked.kernel, asked.options))
        formula = _formula(kernel, asked) if kernel is not None else None
    except GemmsmithError:
        return
    if kernel is None or formula is None:
        return
    objects = any(member.own == NO_MEMBER for member in kernel.members)
    if formula.late or formula.kind or (formula.function and objects):
        raise SignatureError(f"{report.entry} computes {formula.text()}, which is not a plain product")


def applies_object(spec: KernelSpec) -> bool:
    """Whether the kernel takes a function object, as an epilogue that its caller chooses."""
    return any(arg.name.endswith(f".{NO_MEMBER}") for arg in spec.signature.arguments)


def _formula(kernel: FormulaKernel, asked: Asked) -> Formula | None:
    """The formula that explains the first launch that can be made."""
    cache = CompileCache(asked.cache.cache_dir) if asked.cache.cache_dir is not None else None
    runner = Runner(kernel, takes(kernel), asked.timeout, cache)
    found = find_formula(runner, documented(kernel.text, runner.taken.extents), _SECONDS)
    return found.formula if found is not None and found.sure else None
