"""gemmsmith check: a user's own kernel, compiled, simulated under several schedules, and verified.

On the simulator every trial looks for races as well: a kernel that races fails, even where its result is right.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import typer

from gemmsmith.call.binding import aligned_code, check_simulated
from gemmsmith.cli.launch_report import CText, Strict, c_fill, hints, is_lenient, launch_facts
from gemmsmith.cli.options import (
    Block,
    CacheDir,
    Compiler,
    ConfigText,
    Defines,
    DeviceName,
    Entry,
    Grid,
    Json,
    Kernel,
    PresetName,
    SignatureText,
    Smem,
    find_device,
    find_kernel,
)
from gemmsmith.cli.render.check_report import DISTINCT, RAGGED, UNREAD, Report, Trial
from gemmsmith.cli.render.output import progress
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem
from gemmsmith.userfile.user_kernel import UserOptions
from gemmsmith.verify.harness import refusal, verify_launch

# The forgiving order first, so that plain mistakes are named plainly; then orders that barriers must survive.
SCHEDULES = ("lockstep", "in_order", "reversed", "random", "starved")


def command(
    kernel: Kernel,
    m: Annotated[int, typer.Option("--m", help="Rows of C.")] = 128,
    n: Annotated[int, typer.Option("--n", help="Columns of C.")] = 128,
    k: Annotated[int, typer.Option("--k", help="Inner extent.")] = 128,
    device: DeviceName = "sim",
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    entry: Entry = "",
    grid: Grid = "",
    block: Block = "",
    smem: Smem = "",
    signature: SignatureText = "",
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds a simulated launch may take.")] = 120,
    c: CText = "",
    strict: Strict = False,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Check a kernel of your own: compile, simulate in several orders, verify; exits 1 with the reason."""
    options = UserOptions(entry, grid, block, smem, signature)
    spec, chosen = find_kernel(kernel, config, preset, define, options)
    options = replace(options, defines=spec.extra_defines)
    filled = c_fill(c)
    base = Problem(m, n, k, dtype=spec.dtypes[0])
    check_accepts(spec, base)
    launch = launch_facts(spec, chosen, base, options)
    compiler = Compiler(cache_dir)
    first = find_device(device)
    check_simulated(first, spec, base)
    compiled = compiler(spec, *aligned_code(spec, chosen, base), first.arch)
    first.load(compiled)  # what the device cannot run at all is no verdict on the kernel
    given = {"config": config, "preset": preset, "entry": entry, "grid": grid, "block": block, "smem": smem,
             "signature": signature, "c": c}  # fmt: skip
    again = _again(kernel, base, device, define or [], given) + (" --strict" if strict else "")
    planned = list(_trials(spec, base, first.kind, filled))
    skipped = [(trial.label, why) for trial in planned if (why := _obstacle(spec, chosen, trial))]
    if first.kind != "sim":
        skipped.append(("other orders of warps, races", "only the simulator can choose and see them"))
    trials = [trial for trial in planned if not _obstacle(spec, chosen, trial)]
    report = Report(spec, compiled, base, launch, trials, skipped, strict or spec.is_rung)
    with progress() as bar:
        task = bar.add_task(spec.name, total=len(trials))
        for trial in trials:
            where = find_device(device, trial.schedule, hazards=True, timeout=timeout)
            verdict = verify_launch(where, spec, chosen, trial.problem, compile_fn=compiler, fill=trial.fill,
                                    mode=trial.mode, c=trial.c)  # fmt: skip
            report.verdicts.append((trial, replace(verdict, repeat=again)))
            bar.advance(task)
            if not verdict.trusted and trial.label != UNREAD:
                # A wrong launch would have failed before the last trial.
                report.hints = hints(spec, launch, options, verdict, suspect_launch=trial.label != RAGGED)
                break  # the first failure is the one to mend; later ones often follow from it
    report.show(json)
    if not report.ok:
        raise typer.Exit(1)


def _again(kernel: str, base: Problem, device: str, defines: list[str], given: dict[str, str]) -> str:
    """This very check as a command line; races and schedules have no other."""
    words = ["gemmsmith", "check", kernel, "--m", str(base.m), "--n", str(base.n), "--k", str(base.k)]
    words += ["--device", device] if device != "sim" else []
    words += [f"-D{define}" for define in defines]
    for name, value in given.items():
        words += [f"--{name}", value] if value else []
    return shlex.join(words)


def _trials(spec: KernelSpec, base: Problem, kind: str, filled: str) -> Iterator[Trial]:
    # Many tutorials compute alpha·sum + beta·C whatever beta is: right, as long as C holds numbers. So C is set while
    # all else is tried, and whether it was read is asked separately.
    lenient = is_lenient(spec, filled, strict=False)
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
    """Still whole tiles, but M, N and K all different: on a square no one can tell them apart. None where they are."""
    m, n, k = base.m, base.n, base.k
    if len({m, n, k}) == 3:
        return None
    # Half of K costs the least; half of a small K may be no multiple of the tile any more.
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
