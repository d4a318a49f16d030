"""gemmsmith check of a product that two kernels make together: the first leaves partial sums, the second adds them up.

    a launch whose blocks share every sum, and a launch that takes its result ─► both are run in every trial

A chain that is right is right. A kernel that takes the result of another may do anything with it, so one that is wrong
is judged only where it is meant as a product: by its results, which are a product for some shape or in a good part of
C; by its code, where both kernels show that they divide a sum; or where it races, whatever it computes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import GemmsmithError, TimeLimitError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.kernels.kernel_facts import SAMPLE
from gemmsmith.userfile.kernels.user_kernel import joined_kernel, prepared_kernel
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.userfile.text.names_derived import derived_names, loop_heads
from gemmsmith.userfile.text.parts import KernelSource

Check = Callable[[KernelSpec, Config, Asked], Report]
_BUDGET_S = 6.0  # for the trials of a kernel that is right and the one before it
_SOME = 1 / 8  # of the outputs: integers agree by chance in one of hundreds
_INDEX = re.compile(r"\[[^\[\]]*\]")
# Of numbers that are no indices: to one, of two elements, or into an element or a variable of a floating type.
_FLOATING = r"(?:float\d?|double\d?|half2?|__half2?|\w*bfloat16\d?|T|acc_t)"
_ADDS = re.compile(rf"\w\s*\+=|@\s*\+\s*[\w(*]|(?:@|\b{_FLOATING}\s+\w+)"
                   r"\s*=[^;=]*\+|\bfmaf?\s*\(|__hadd|__fadd")  # fmt: skip
_OTHER_FUNCTIONS = re.compile(r"(?<!\w)(?:__)?(?:exp|tanh|erf|log|sqrt|rsqrt|pow|sin|cos|h2?exp|h2?rsqrt)\w*\s*\(")


def chain_report(spec: KernelSpec, config: Config, asked: Asked, check: Check) -> Report | None:
    """The report on ``spec`` and the kernel that finishes its product; None where it is to be judged by itself."""
    first = spec.geometry
    if not isinstance(first, UserLaunch) or first.second is not None:
        return None
    by_workspace = bool(first.workspace_read_by)
    if not (first.passed_on or by_workspace):
        return None
    if spec.batched and not first.products:  # a number that the grid has as its last extent may be of parts of K
        return None
    try:
        if not by_workspace and first(SAMPLE.with_(batch=2) if spec.batched else SAMPLE, config).grid[2] == 1:
            return None
        options = replace(asked.options.launch, defines=asked.options.pairs, edited=spec.edited)
        joined = joined_kernel(Path(spec.source), replace(options, entry=options.entry or first.facts.kernel.qualified))
        if joined is None or joined.signature.unknown or joined.signature.fixed:
            return None
        assert isinstance(joined.geometry, UserLaunch)
        assert joined.geometry.second is not None
        divided, added = by_workspace or divides_sums(first.facts.kernel), adds_up(joined.geometry.second.kernel)
        report = check(joined, joined.config(), asked)
    except TimeLimitError:
        raise
    except GemmsmithError:
        return None
    return report if report.ok or (divided and added) or is_product(report) else None


def with_kernel_before(spec: KernelSpec, asked: Asked, report: Report, check: Check) -> Report:
    """The report on a kernel that is right; or on it and the kernel before it, where that one errs."""
    if not report.ok or not asked.free:
        return report
    quick = replace(asked, clock=None, budget=min(asked.budget, _BUDGET_S), certified=False)
    found = kernel_before(spec, quick, report.spec.signature.accumulates, check)
    fewer = found is not None and not report.failed  # right for fewer shapes, whole tiles only perhaps
    return found if found is not None and (not found.ok or fewer) else report


def kernel_before(spec: KernelSpec, asked: Asked, adds: bool, check: Check) -> Report | None:
    """The report on a kernel and the one before it, which writes one of its operands (a transposed copy, for example)
    or, where it ``adds`` to its result, sets that; if both together give a product for some shapes and a wrong one for
    others. None where they do not, or there is no such kernel."""
    launch = spec.geometry
    if not isinstance(launch, UserLaunch) or launch.second is not None or spec.batched or asked.device.wants_gpu:
        return None
    options = replace(asked.options.launch, defines=asked.options.pairs, edited=spec.edited)
    options = replace(options, entry=options.entry or launch.facts.kernel.qualified)
    try:
        both = prepared_kernel(Path(spec.source), options, adds, launch)
        if both is None or both.signature.unknown or both.signature.fixed:
            return None
        found = check(both, both.config(), asked)
    except TimeLimitError:
        raise
    except GemmsmithError:
        return None
    # The room of an operand may not be known; that of the result is.
    faulted = not adds and any(verdict.faulted for _, verdict in found.failed)
    return found if found.failed and not faulted and is_product(found, unset=adds) else None


def is_product(report: Report, unset: bool = False) -> bool:
    """Whether the results of two kernels show that they make a product, though a wrong one. ``unset``: a part of it may
    be none, since the first kernel is to set it and does not."""
    settled = report.settled
    if settled.reading is not None or settled.only or any(verdict.trusted for _, verdict in report.verdicts):
        return True
    _, first = report.verdicts[0]
    right = first.total - first.wrong
    return not first.faulted and (unset or not first.unwritten) and right >= _SOME * first.total


def divides_sums(kernel: KernelSource) -> bool:
    """Whether the number of the block along z bounds a loop, as over a part of K."""
    derived = derived_names(kernel.body, r"blockIdx\s*\.\s*z\b")
    heads = loop_heads(kernel.body)
    return any("blockIdx.z" in head or set(re.findall(r"[A-Za-z_]\w*", head)) & derived for head in heads)


def adds_up(kernel: KernelSource) -> bool:
    """Whether a kernel adds numbers, and applies no function that is judged by nobody here."""
    body = kernel.body
    while _INDEX.search(body):
        body = _INDEX.sub("@", body)
    return _ADDS.search(body) is not None and _OTHER_FUNCTIONS.search(kernel.body) is None
