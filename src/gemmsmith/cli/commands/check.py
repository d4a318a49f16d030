"""gemmsmith check: a user's own kernel, compiled, simulated under several schedules, and verified."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemmsmith.cli.check_clock import CheckClock
from gemmsmith.cli.entry_words import split_entry
from gemmsmith.cli.error_output import error_object
from gemmsmith.cli.kernels import is_file
from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.groups import option_words
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.on import KernelsOnOptions
from gemmsmith.cli.options.output import FormatOptions
from gemmsmith.cli.options.problem import FittedShapeOptions
from gemmsmith.cli.options.trial import TrialOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.render.findings import NOT_RUNNABLE
from gemmsmith.cli.render.format_names import Format
from gemmsmith.cli.render.output import print_json
from gemmsmith.cli.scaled_reading import asked_of, scaled_parameters
from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.errors import (
    CompileError,
    GemmsmithError,
    MissingDeviceError,
    SeveralKernelsError,
    SignatureError,
    TemplateValueError,
    TimeLimitError,
    TooLongError,
    UnknownKernelError,
    UnknownTrialError,
    UsageError,
)
from gemmsmith.userfile.files.read_once import files_read_once
from gemmsmith.userfile.kernels.formula_kernel import formula_kernel
from gemmsmith.userfile.kernels.user_kernel import is_product
from gemmsmith.userfile.launches.made_up_launch import made_up_launch

if TYPE_CHECKING:
    from gemmsmith.cli.check_races import BlockRaces
    from gemmsmith.cli.product_report import ProductReport

_SHAPE = FittedShapeOptions()
_DEVICE = DeviceOptions("sim")
# Exit codes of a kernel without a verdict: it cannot be run, or a device or tool is missing.
_NOT_RUNNABLE, _NO_DEVICE = 2, 3
_SHARED = "__shared__"
_MOST_STARTING_S = 1.5  # that the interpreter and imports take, which count in the budget, too


def command(
    kernels: Annotated[
        list[str],
        typer.Argument(
            metavar="RUNG|FILE.cu[:KERNEL]|FOLDER...",
            show_default=False,
            help="A rung, .cu files, Python files (with launches or kernels in strings), or folders.",
        ),
    ],
    options: KernelOptions,
    shape: FittedShapeOptions = _SHAPE,
    device: DeviceOptions = _DEVICE,
    timeout: Annotated[
        float, typer.Option("--timeout", help="CPU seconds that a simulated launch may take.", rich_help_panel="Device")
    ] = 60,
    cures: Annotated[
        float | None,
        typer.Option(
            "--cures",
            min=0,
            envvar="GEMMSMITH_CURES",
            help="Seconds for finding the cause of a failure, by trying changes in a copy. 0: none. "
            "Default: 10, or what the check leaves of its 15 seconds, at least 4.",
            rich_help_panel="Verification",
        ),
    ] = None,
    *,
    on: KernelsOnOptions,
    arguments: ArgumentOptions,
    checks: VerificationOptions,
    trial: TrialOptions,
    cache: CacheOptions,
    output: FormatOptions,
) -> None:
    """Check your own kernels: compile them, simulate them under several schedules.

    Verifies the result against a reference and looks for races. Exits 1, with the reason, if one is wrong or races,
    2 if it cannot be run, 3 if a device or tool is missing.
    """
    clock = CheckClock(seconds_used() - min(time.process_time(), _MOST_STARTING_S), command=True)
    if not timeout > 0 or math.isnan(timeout):
        raise UsageError(f"--timeout {timeout:g} is not a number of seconds", "give more than 0; inf: no limit")
    if "" in kernels:  # as a path it would be the current folder
        raise UsageError("the name of a kernel is empty", "give a .cu file, a folder or a rung")
    with files_read_once():
        _check(kernels, options, shape, device, timeout, arguments, checks, cache, trial, cures, on, output,
               clock)  # fmt: skip


def _check(
    kernels: list[str], options: KernelOptions, shape: FittedShapeOptions, device: DeviceOptions, timeout: float,
    arguments: ArgumentOptions, checks: VerificationOptions, cache: CacheOptions, trial: TrialOptions,
    cures: float | None, on: KernelsOnOptions, output: FormatOptions, clock: CheckClock,
) -> None:  # fmt: skip
    several = [] if len(kernels) > 1 or Path(kernels[0]).is_dir() else _several(kernels[0], options, arguments)
    if len(kernels) > 1 or Path(kernels[0]).is_dir() or several:
        from gemmsmith.cli.check_folder import check_folders

        kernels, options = several or kernels, replace(options, entry="") if several else options
        words = option_words(options, shape, device, checks, trial, cache, arguments)
        words += ["--cures", f"{cures:g}"] if cures is not None else []
        check_folders(kernels, words, seconds=timeout, jobs=on.jobs, on=on, form=output.form)
        return
    if on.dry_run:
        sys.stdout.write("1 task: one kernel is checked in this process, whatever --on says\n")
        return
    asked = _Asked(kernels[0], options, shape, device, timeout, arguments, checks, cache, output.form, trial, cures,
                   clock)  # fmt: skip
    try:
        ok = _check_launches(asked) if arguments.launches(kernels[0]) else _check_product(asked)
    except GemmsmithError as error:
        error.status = NOT_RUNNABLE
        error.exit_code = _NO_DEVICE if isinstance(error, MissingDeviceError) else _NOT_RUNNABLE
        if output.form.is_document:
            _print_document(asked, [error_object(error)])
        raise
    if not ok:
        raise typer.Exit(1)


def _several(kernel: str, options: KernelOptions, arguments: ArgumentOptions) -> list[str]:
    """The file, if it has several kernels and none is named; or all overloads of the named one. All are checked."""
    if arguments.launches(kernel):
        return []
    try:
        find_kernel(kernel, options)
    except SeveralKernelsError as error:
        return [f"{kernel}:{line}" for line in error.lines] or [kernel]
    except GemmsmithError:
        return []  # said again, and answered, where it is checked
    return []


@dataclass(frozen=True)
class _Asked:
    kernel: str
    options: KernelOptions
    shape: FittedShapeOptions
    device: DeviceOptions
    timeout: float
    arguments: ArgumentOptions
    checks: VerificationOptions
    cache: CacheOptions
    form: Format
    trial: TrialOptions
    cures: float | None
    clock: CheckClock  # since the command began

    @property
    def is_plain(self) -> bool:
        """Whether a file is checked on the simulator, and nothing else is said about its launch."""
        said = self.options.grid or self.options.block or self.options.smem or self.options.signature
        free = self.shape.is_free and not self.trial.trial and not self.device.wants_gpu
        return is_file(split_entry(self.kernel)[0]) and free and not (said or self.options.layout)

    @property
    def cure_seconds(self) -> float:
        from gemmsmith.cli.check_prepare import CURES_S

        return CURES_S if self.cures is None else self.cures


def _check_launches(asked: _Asked) -> bool:
    from gemmsmith.cli.launch_commands import check_launches

    return check_launches(asked.kernel, asked.options, asked.arguments, asked.device, asked.timeout, asked.cache,
                          asked.form, asked.trial)  # fmt: skip


def _check_product(asked: _Asked) -> bool:
    try:
        return _check_as_product(asked)
    except (CompileError, TemplateValueError, SeveralKernelsError, TimeLimitError, TooLongError, UnknownKernelError):
        raise
    except GemmsmithError as error:
        if isinstance(error, MissingDeviceError) or not asked.is_plain:
            raise
        path, options = asked_of(asked.kernel, asked.options)
        try:
            launch = made_up_launch(path, options, is_product)  # a refusal comes before slow imports
        except GemmsmithError:
            raise error from None
        if _SHARED not in launch.facts.reached:
            raise
        from gemmsmith.cli.check_races import block_races

        report = block_races(path, options, launch, asked.cache, error, asked.trial.verbose)
        if report is None:
            raise
    _show(asked, report)
    return report.ok


def _check_as_product(asked: _Asked) -> bool:
    try:
        return _check_plain_product(asked)
    except (SeveralKernelsError, TooLongError, UnknownTrialError):
        raise
    except (SignatureError, UsageError) as error:
        report = getattr(error, "report", None) or _other_report(asked, error)
    _show(asked, report)
    return report.ok


def _show(asked: _Asked, report: ProductReport | BlockRaces) -> None:
    if asked.form.is_document:
        _print_document(asked, [report.to_json()])
    elif asked.form is Format.JSON:
        print_json(report.to_json())
    else:
        report.show()


def _other_report(asked: _Asked, refused: SignatureError | UsageError) -> ProductReport:
    """The report on a product that is refused as a plain one: with scales, or as a formula has it."""
    if isinstance(refused, SignatureError):
        guessed = False
        try:
            # A refusal comes before slow imports.
            guessed = any(each.guessed for each in scaled_parameters(asked.kernel, asked.options, refused)[1])
            from gemmsmith.cli.check_scaled import scaled_report

            return scaled_report(asked.kernel, asked.options, asked.device, asked.timeout, asked.cache,
                                 asked.trial, refused, asked.clock.started, asked.cure_seconds)  # fmt: skip
        except SignatureError as error:
            refused = refused if guessed else error
    if asked.device.wants_gpu or not asked.shape.is_free or asked.options.signature:
        raise refused
    try:
        kernel = formula_kernel(*asked_of(asked.kernel, asked.options))
    except GemmsmithError:
        raise refused from None
    if kernel is None:
        raise refused
    from gemmsmith.cli.check_formula import formula_report

    return formula_report(kernel, asked.timeout, asked.cache, asked.trial.trial, asked.trial.verbose, refused,
                          asked.clock.started)  # fmt: skip


def _check_plain_product(asked: _Asked) -> bool:
    with suppress(TemplateValueError):  # every other refusal that needs no device comes before slow imports
        find_kernel(asked.kernel, asked.options)
    from gemmsmith.cli.check_attempts import check_product
    from gemmsmith.cli.check_run import Asked

    shape, free = asked.shape.shape, asked.shape.is_free
    report = check_product(Asked(asked.kernel, asked.options, shape, free, asked.device, asked.timeout,
                                 asked.checks, asked.cache, asked.trial,
                                 asked.cure_seconds, asked.cures is not None,
                                 clock=asked.clock))  # fmt: skip
    if asked.form.is_document:
        from gemmsmith.cli.render.check_json import report_json

        _print_document(asked, [report_json(report)])
    else:
        from gemmsmith.cli.render.check_text import show_report

        show_report(report, asked.form is Format.JSON)
    return report.ok


def _print_document(asked: _Asked, reports: Sequence[Mapping[str, Any]]) -> None:
    """What was found, in the format of another tool."""
    from gemmsmith.cli.render.findings import checked
    from gemmsmith.cli.render.formats import formatted

    found = [checked(Path(asked.kernel), report.get("entry", asked.options.entry), report) for report in reports]
    sys.stdout.write(formatted(found, asked.form))
