"""gemmsmith check: a user's own kernel, compiled, simulated under several schedules, and verified."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.kernel import KernelName, KernelOptions, find_kernel
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import ShapeOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.errors import UsageError

_SHAPE = ShapeOptions(128, 128, 128)
_DEVICE = DeviceOptions("sim")


def command(
    kernel: KernelName,
    options: KernelOptions,
    shape: ShapeOptions = _SHAPE,
    device: DeviceOptions = _DEVICE,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds that a simulated launch may take.", rich_help_panel="Device")
    ] = 120,
    *,
    arguments: ArgumentOptions,
    checks: VerificationOptions,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Check your own kernel: compile it, simulate it in several orders, verify it.

    Exits 1, with the reason, if it is wrong or races.
    """
    if not timeout > 0 or math.isnan(timeout):
        raise UsageError(f"--timeout {timeout:g} is not a number of seconds", "give more than 0; inf: no limit")
    if arguments.launches(kernel):
        from gemmsmith.cli.launch_commands import check_launches

        check_launches(kernel, options, arguments, device, timeout, cache, output.json)
        return
    spec, config = find_kernel(kernel, options)
    from gemmsmith.cli.check_run import Asked, run_check  # after every refusal that needs no device

    report = run_check(spec, config, Asked(kernel, options, shape, shape == _SHAPE, device, timeout, checks, cache))
    report.show(output.json)
    if not report.ok:
        raise typer.Exit(1)
