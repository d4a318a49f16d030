"""gemmsmith check: a user's own kernel, compiled, simulated under several schedules, and verified.

On the simulator every trial also looks for races: a kernel that races fails, even if its result is correct.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import typer

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.estimate import check_memory
from gemmsmith.cli.launch_report import hints, launch_facts
from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.groups import option_words
from gemmsmith.cli.options.kernel import KernelName, KernelOptions, find_kernel
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import ShapeOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.render.check_report import DISTINCT, RAGGED, UNREAD, Report, Trial
from gemmsmith.cli.render.output import progress
from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem
from gemmsmith.verify.harness import refusal, verify_launch
from gemmsmith.verify.leniency import is_lenient

# The order that hides most mistakes first, so that plain ones are named plainly; then orders that need the barriers.
SCHEDULES = ("lockstep", "in_order", "reversed", "random", "starved")
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
    user = replace(options.launch, defines=spec.extra_defines)
    base = Problem(*shape.extents, dtype=spec.dtypes[0])
    check_accepts(spec, base)
    check_memory(base)
    launch = launch_facts(spec, config, base, user)
    first = device.open()
    device.check_runs(spec, base)
    compiled = cache.compiler(spec, *aligned_code(spec, config, base), first.arch)
    first.load(compiled)  # an instruction that the device lacks is no verdict on the kernel
    planned = list(_trials(spec, base, first.kind, checks.fill))
    skipped = [(trial.label, why) for trial in planned if (why := _obstacle(spec, config, trial))]
    if first.kind != "sim":
        skipped.append(("other orders of warps, races", "only the simulator can choose and see them"))
    trials = [trial for trial in planned if not _obstacle(spec, config, trial)]
    report = Report(spec, compiled, base, launch, trials, skipped, checks.strict or spec.is_rung)
    again = _again(kernel, base, device, options, checks)
    with progress() as bar:
        task = bar.add_task(spec.name, total=len(trials))
        for trial in trials:
            where = device.open(trial.schedule, hazards=True, timeout=timeout)
            verdict = verify_launch(where, spec, config, trial.problem, compile_fn=cache.compiler, fill=trial.fill,
                                    mode=trial.mode, c=trial.c)  # fmt: skip
            report.verdicts.append((trial, replace(verdict, repeat=again)))
            bar.advance(task)
            if not verdict.trusted and trial.label != UNREAD:
                # A wrong launch would have failed before the ragged trial, which is the last.
                report.hints = hints(spec, launch, user, verdict, suspect_launch=trial.label != RAGGED)
                break  # later failures often follow from the first
    report.show(output.json)
    if not report.ok:
        raise typer.Exit(1)


def _again(
    kernel: str, base: Problem, device: DeviceOptions, options: KernelOptions, checks: VerificationOptions
) -> str:
    """The command line of this check: no other command repeats races and schedules."""
    words = ["gemmsmith", "check", kernel, "--m", str(base.m), "--n", str(base.n), "--k", str(base.k)]
    words += ["--device", device.device] if device != _DEVICE else []
    return shlex.join([*words, *option_words(options, checks)])


def _trials(spec: KernelSpec, base: Problem, kind: str, filled: str) -> Iterator[Trial]:
    # Many tutorials compute alpha·sum + beta·C for every beta, which is correct as long as C holds numbers. So C is set
    # in the other trials, and one trial alone tests whether it is read.
    lenient = is_lenient(spec, filled)
    c = filled or ("set" if lenient else "unset")
    yield Trial("integers, bit for bit", base, "exact", "integers", "lockstep", c)
    yield Trial("random data", base, "float", "normal", "lockstep", c)
    for schedule in SCHEDULES[1:] if kind == "sim" else ():
        yield Trial(f"warps {schedule.replace('_', ' ')}", base, "float", "normal", schedule, c)
    if lenient:
        yield Trial(UNREAD, base, "float", "normal", "lockstep")
    for label, problem in (
        ("alpha and beta", base.with_(alpha=0.7, beta=-1.5)),
        ("padded rows", base.with_(lda=base.k + 3, ldb=base.n + 5, ldc=base.n + 7)),
        (DISTINCT, _distinct(base)),
        # Last, so that a kernel without guards at the edges has passed all else before it fails.
        (RAGGED, _ragged(spec, base)),
    ):
        if problem is not None:
            yield Trial(label, problem, "float", "normal", "lockstep", c)


def _distinct(base: Problem) -> Problem | None:
    """Whole tiles with M, N and K all different: a square hides swapped extents. None where they differ already."""
    m, n, k = base.m, base.n, base.k
    if len({m, n, k}) == 3:
        return None
    # Half of K costs the least; half of a small K may not be a multiple of the tile any more.
    halves = [(m, 2 * n, k // 2)] if k % 128 == 0 else []
    shapes = [*halves, (m, 2 * n, 3 * k), (2 * m, n, 3 * k), (2 * m, 3 * n, k)]
    found = next((shape for shape in shapes if len(set(shape)) == 3), None)
    return found and base.with_(m=found[0], n=found[1], k=found[2])


def _ragged(spec: KernelSpec, base: Problem) -> Problem:
    ragged = base.with_(m=base.m + 1, n=base.n - 1 or 1, k=base.k + 3)
    cube = base.with_(m=base.n + 1, n=base.n + 1, k=base.n + 1)
    return cube if refusal(spec.signature, ragged) else ragged


def _obstacle(spec: KernelSpec, config: Config, trial: Trial) -> str:
    """Why a trial beyond the shape that was asked for cannot be made; empty where it can."""
    if trial.label not in ("alpha and beta", "padded rows", DISTINCT, RAGGED):
        return ""
    if why := refusal(spec.signature, trial.problem):
        return why
    try:
        spec.geometry(trial.problem, config)
    except GemmsmithError as error:
        return f"{trial.problem}: {error.message}"
    return ""
