"""gemmsmith check of a kernel whose file leaves something open that has to be tried: sizes that are too large for the
simulator, and template parameters that no launch gives a value. What was tried is said in the report."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gemmsmith.cli.check_dispatch import check_instantiations
from gemmsmith.cli.check_root_factor import report_without_root
from gemmsmith.cli.check_run import Asked, run_check
from gemmsmith.cli.options.kernel import find_kernel
from gemmsmith.cli.render.check_report import Report
from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.errors import (
    CompileError,
    GemmsmithError,
    MissingKernelError,
    OneGridError,
    SignatureError,
    TemplateValueError,
    TimeLimitError,
    UnsupportedError,
)
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.kernels.conditional_kernel import hidden_entry
from gemmsmith.userfile.kernels.user_kernel import guessed_values
from gemmsmith.userfile.launches.smaller_sizes import smaller_sizes
from gemmsmith.verify.trials.check_shapes import check_shapes, sampled_blocks

Check = Callable[[KernelSpec, Config, Asked], Report]
_MOST_WORK = 1 << 24  # multiply-adds: a few seconds of the simulator
_TRYING_S = 10.0  # after which no further values of a template are tried


def check_product(asked: Asked, check: Check = run_check) -> Report:
    """The report on the kernel that ``asked`` names, as it is where that is possible."""
    try:
        spec, config = find_kernel(asked.kernel, asked.options)
    except TemplateValueError as error:
        if (found := _with_guessed_values(asked, check)) is None:
            raise error from None
        return found
    try:
        if spec.is_rung or not spec.signature.fixed or asked.device.wants_gpu or _affordable(spec, config):
            return check_instantiations(spec, config, asked, check, _tried)
        return _with_smaller_sizes(asked, check) or check(spec, config, asked)
    except MissingKernelError as error:
        return _with_condition(spec, asked, check, error)
    except OneGridError as error:
        return _at_its_own_size(spec, config, asked, check, error)
    except SignatureError as error:
        report = report_without_root(spec, config, asked, check)
        if report is None:
            raise error from None
        return report


def _with_condition(spec: KernelSpec, asked: Asked, check: Check, error: MissingKernelError) -> Report:
    """The report on a kernel behind an ``#if`` that the build decides, with the macros that make it hold."""
    hidden = hidden_entry(spec)
    if hidden is None or not hidden.defines:
        raise error
    report = _tried(asked, hidden.defines, check)
    _add_line(report, f"it is inside {hidden}, so it is compiled with {hidden.options}")
    return report


def _at_its_own_size(spec: KernelSpec, config: Config, asked: Asked, check: Check, error: OneGridError) -> Report:
    """The report on a kernel for one size alone: the user's, or the one that its launch passes as numbers."""
    passed = {arg.role: arg.passed for arg in spec.signature.arguments if arg.role in EXTENTS}
    given = dict(zip(EXTENTS, map(str, asked.shape.extents), strict=True))
    sizes = {role: int(text) for role, text in (passed if asked.free else given).items() if text.isdecimal()}
    if set(sizes) != set(EXTENTS) or not 0 < math.prod(sizes.values()) <= _MOST_WORK:
        raise error
    signature = replace(spec.signature, fixed=tuple((role, sizes[role]) for role in EXTENTS))
    report = check(spec.read_as(signature, spec.layouts[0]), config, asked)
    shown = ", ".join(f"{role}={sizes[role]}" for role in EXTENTS)
    who = "its launch passes" if asked.free else "were given"
    _add_line(report, f"its grid is the same for every size, so it is judged only at the sizes that {who}: {shown}")
    return report


def _with_smaller_sizes(asked: Asked, check: Check) -> Report | None:
    """The first report that is not "wrong", else the last: a kernel may need more of a size than the first try gives
    it, or sizes that are equal, as those of its file are. Causes are looked for at the reported sizes alone."""
    report: Report | None = None
    for smaller in smaller_sizes(Path(asked.kernel), replace(asked.options.launch, defines=asked.options.pairs)):
        try:
            report = _tried(replace(asked, cures=0.0), smaller.defines, check)
        except UnsupportedError:
            continue
        reported = smaller
        if report.status != "wrong":
            break
    if report is None:
        return None
    if asked.cures > 0 and any(not verdict.trusted for _, verdict in report.verdicts):
        report = _tried(asked, reported.defines, check)
    _add_line(report, f"its own size would take the simulator too long, so it is compiled with {reported}")
    return report


def _with_guessed_values(asked: Asked, check: Check) -> Report | None:
    """A report on a template with values that such parameters usually have; None unless the kernel is right with some:
    it may need others. What does not compile with any of them raises, with the compiler's reason."""
    refused: CompileError | None = None
    compiled = False
    start = seconds_used()
    options = replace(asked.options.launch, defines=asked.options.pairs)
    for values in guessed_values(Path(asked.kernel), options):
        if seconds_used() - start > _TRYING_S:
            break
        try:
            report = _tried(replace(asked, only_right=True), values, check)
        except TimeLimitError:
            raise
        except CompileError as error:
            refused = refused or error
            continue
        except GemmsmithError:
            continue
        compiled = True
        if report.ok:
            shown = ", ".join(f"{name}={value}" for name, value in values)
            _add_line(report, f"no launch in the repository gives its template values, so it is checked with {shown}; "
                              "-D NAME=VALUE sets others")  # fmt: skip
            return report
    if refused is not None and not compiled:
        raise refused
    return None


def _tried(asked: Asked, defines: tuple[tuple[str, str], ...], check: Check) -> Report:
    define = [*(asked.options.define or ()), *(f"{name}={value}" for name, value in defines)]
    options = replace(asked.options, define=define)
    return check(*find_kernel(asked.kernel, options), replace(asked, options=options))


def _add_line(report: Report, line: str) -> None:
    report.settled = replace(report.settled, lines=(line, *report.settled.lines))


def _affordable(spec: KernelSpec, config: Config) -> bool:
    try:
        sampled_blocks(spec, config, check_shapes(spec, config).base)
    except UnsupportedError:
        return False
    return True
