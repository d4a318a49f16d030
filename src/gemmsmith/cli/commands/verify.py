"""gemmsmith verify: the edge cases, kernel by kernel."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

import typer
from rich.markup import escape

from gemmsmith.call.binding import CompileFn
from gemmsmith.choose.precision import check_promise, precision_named, promises
from gemmsmith.cli.check_prepare import Asked, prepare
from gemmsmith.cli.launch_report import repeat_words
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import ShapeOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.render.output import item, print_json, print_table, progress, say
from gemmsmith.compile.target import check_target
from gemmsmith.errors import GemmsmithError, UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import DType, Problem
from gemmsmith.sim.schedule import NAMES
from gemmsmith.verify.cases import Case, edge_cases, tile_of
from gemmsmith.verify.fit import fitted_trials
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.leniency import is_lenient, verify_leniently
from gemmsmith.verify.trial import Size
from gemmsmith.verify.trial_runner import TrialRunner
from gemmsmith.verify.verdict import Verdict

_USUAL_SIZE = 128
_SHOWN = 10  # failures printed in full


@dataclass
class _Result:
    """The cases of one kernel."""

    name: str
    verdicts: list[Verdict] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        return sum(not v.trusted for v in self.verdicts)

    @property
    def passed(self) -> int:
        return len(self.verdicts) - self.failed

    @property
    def worst(self) -> float | None:
        finite = [v.rho for v in self.verdicts if v.rho == v.rho and v.rho != float("inf")]
        return round(max(finite), 3) if finite else None


def command(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUNG|FILE.cu", help="Kernels to verify. Default: every rung that runs here."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Every pair of tile edges, every alpha and beta, every edge of the code.")
    ] = False,
    precision: Annotated[
        str, typer.Option("--precision", help="Only kernels and types that keep this precision.")
    ] = "",
    schedule: Annotated[
        str,
        typer.Option(
            "--schedule", help=f"Order of warps on the simulator: {', '.join(NAMES)}.", rich_help_panel="Device"
        ),
    ] = "lockstep",
    *,
    options: KernelOptions,
    device: DeviceOptions,
    checks: VerificationOptions,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Verify kernels at tile edges, with special values, scalars and strides.

    Exits 1 if any result is wrong.
    """
    precision_named(precision)
    where = device.open(schedule)
    names, skipped = (kernels, []) if kernels else _ladder(precision, simulated_only=where.kind != "gpu")
    chosen = []
    for spec, config in [find_kernel(name, options) for name in names]:
        device.check_runs(spec, spec.problem(1, 1, 1))
        if not any(_keeps(spec, dtype, precision) for dtype in spec.dtypes):
            check_promise(spec, spec.dtypes[0], precision)
        if all(_lacks(where.arch, spec, dtype) for dtype in spec.dtypes):
            skipped.append(_lacks(where.arch, spec, spec.dtypes[0]))
        else:
            chosen.append((spec, config))
    if not chosen:
        raise UnsupportedError(skipped[0], "gemmsmith list shows what each rung needs")
    words = repeat_words(options.launch, device.device, checks, schedule, 0)
    runners: dict[str, tuple[TrialRunner, Problem]] = {}
    for index, (spec, config) in enumerate(chosen):
        if not spec.is_rung or (full and where.kind == "sim"):
            try:
                runner, base = _runner(names[index], spec, config, options, checks, cache)
            except GemmsmithError:  # no product under any reading: it is judged as its file says
                continue
            runners[spec.name] = runner, base
            chosen[index] = runner.spec, config
    work = [
        (spec, config, [replace(case, skip=case.skip or _lacks(where.arch, spec, case.problem.dtype))
                        for case in edge_cases(spec, config, "full" if full else "quick")
                        if _keeps(spec, case.problem.dtype, precision)])
        for spec, config in chosen
    ]  # fmt: skip

    def judge(spec: KernelSpec, config: Config, case: Case, c: str) -> Verdict:
        on_simulator = where.kind == "sim" and spec.name in runners
        compile_fn = runners[spec.name][0].compile_fn if on_simulator else cache.compiler
        return verify_launch(where, spec, config, case.problem, compile_fn=compile_fn, fill=case.fill,
                             seed=case.seed, offsets=case.offsets, mode=case.mode, c=c, launch=words)  # fmt: skip

    results = []
    with progress() as bar:
        task = bar.add_task("verifying", total=sum(len(cases) for _, _, cases in work))
        for spec, config, cases in work:
            result, lenient = _Result(spec.name), is_lenient(spec, checks.c, checks.strict)
            bar.update(task, description=spec.name)
            for case in cases:
                if case.skip:
                    result.skipped.append(f"{case.label}: {case.skip}")
                else:
                    verdict, note = verify_leniently(partial(judge, spec, config, case), lenient, checks.fill)
                    result.verdicts.append(verdict)
                    result.notes.update([note.split("\n")[0]] if note else [])
                bar.advance(task)
            if spec.name in runners:
                runner, base = runners[spec.name]
                here = replace(runner, open_device=lambda *_: where, compile_fn=cache.compiler)
                for trial in fitted_trials(runner, base, checks.fill or ("set" if lenient else "unset"), full):
                    chosen_runner = here if where.kind == "gpu" and trial.size is Size.WHOLE else runner
                    result.verdicts.append(_labelled(chosen_runner.run(trial), trial.label, words))
            results.append(result)
    wrong = [v for result in results for v in result.verdicts if not v.trusted]
    if output.json:
        print_json({
            "device": where.name, "ok": not wrong,
            "kernels": [
                {"name": r.name, "passed": r.passed, "failed": r.failed, "skipped": r.skipped,
                 "notes": [f"{note} ({count} cases)" for note, count in r.notes.items()], "worst_rho": r.worst}
                for r in results
            ],
            "skipped": skipped,
            "failures": [v.to_json() for v in wrong],
        })  # fmt: skip
    else:
        _print(where.name, results, skipped, wrong)
    if wrong:
        raise typer.Exit(1)


def _runner(
    name: str,
    spec: KernelSpec,
    config: Config,
    options: KernelOptions,
    checks: VerificationOptions,
    cache: CacheOptions,
) -> tuple[TrialRunner, Problem]:
    """What finds out, on the simulator, which trials fit a kernel, and a product of whole tiles that it takes."""
    size = max(tile_of(spec, config)[:2]) if spec.is_rung else _USUAL_SIZE
    asked = Asked(name, options, ShapeOptions(size, size, _USUAL_SIZE), not spec.is_rung, DeviceOptions(device="sim"),
                  math.inf, checks, cache)  # fmt: skip
    prepared = prepare(spec, config, asked)
    compile_fn: CompileFn = cache.compiler if spec.is_rung else lambda *_: prepared.compiled
    return TrialRunner(prepared.spec, config, prepared.compiled, prepared.bench.open, compile_fn), prepared.base


def _labelled(verdict: Verdict, label: str, words: tuple[str, ...]) -> Verdict:
    """A failure with the trial's purpose, and a command that repeats it; of a sparse launch, all of it."""
    if verdict.trusted:
        return verdict
    repeat = verdict.repeat or shlex.join(["gemmsmith", "verify", "--full", verdict.kernel])
    return replace(verdict, reasons=(label, *verdict.reasons), repeat=shlex.join([*shlex.split(repeat), *words]))


def _keeps(spec: KernelSpec, dtype: DType, precision: str) -> bool:
    return not precision or precision in promises(spec, dtype)


def _ladder(precision: str, simulated_only: bool) -> tuple[list[str], list[str]]:
    """The rungs that keep ``precision``, and why each of those that the simulator does not run is left out."""
    keeping = [spec for spec in rungs() if any(_keeps(spec, dtype, precision) for dtype in spec.dtypes)]
    if not simulated_only:
        return [spec.name for spec in keeping], []
    unknown = "is not simulated yet"
    return (
        [spec.name for spec in keeping if spec.simulated],
        [f"{spec.name} {unknown}" for spec in keeping if not spec.simulated],
    )


def _lacks(arch: str, spec: KernelSpec, dtype: DType) -> str:
    """Why ``spec`` does not run on ``arch`` with inputs of ``dtype``; empty if it does."""
    try:
        check_target(spec, arch, dtype)
    except UnsupportedError as error:
        return error.message
    return ""


def _print(device: str, results: list[_Result], skipped: list[str], wrong: list[Verdict]) -> None:
    rows = []
    for result in results:
        correct = "[green]verified[/green]" if result.verdicts else "nothing run"
        state = "[red]WRONG[/red]" if result.failed else correct
        rows.append((escape(result.name), state, str(result.passed), str(result.failed), str(len(result.skipped)),
                     "" if result.worst is None else f"{result.worst:.2f}"))  # fmt: skip
    columns = (("kernel", "left"), ("", "left"), ("passed", "right"), ("failed", "right"), ("skipped", "right"),
               ("worst ρ", "right"))  # fmt: skip
    print_table(columns, rows, f"on {device}")
    for reason in skipped:
        item(f"skipped: {reason}", "dim")
    for result in results:
        for reason in sorted(set(result.skipped)):
            item(f"skipped {result.name}: {reason}", "dim")
        for note, count in result.notes.items():
            item(f"note on {result.name}: {note} ({count} cases; --strict makes this a failure)", "yellow")
    for verdict in wrong[:_SHOWN]:
        item(str(verdict), "red")
    if len(wrong) > _SHOWN:
        say(f"… and {len(wrong) - _SHOWN} more; --json lists all")
