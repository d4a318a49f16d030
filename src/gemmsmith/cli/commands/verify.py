"""gemmsmith verify: the edge cases, kernel by kernel."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer
from rich.markup import escape

from gemmsmith.choose.precision import check_promise, precision_named
from gemmsmith.cli.job import CommandJob, cores, gpu_wanted, nodes_json, nodes_note, raise_failures, wants_gpu
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.groups import option_words
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.render.output import item, print_json, print_table, progress, say
from gemmsmith.cli.tasks.files import SentFiles, sent_files
from gemmsmith.cli.verify_run import KernelVerification, Part, Verified, VerifyAsked, keeps, parts_of
from gemmsmith.cluster.codec import decode, encode
from gemmsmith.cluster.task import CPU, LIMIT_S, Task, TaskResult
from gemmsmith.errors import UnsupportedError
from gemmsmith.ladder.registry import rungs
from gemmsmith.sim.schedule import NAMES
from gemmsmith.verify.verdict import Verdict

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
        bool, typer.Option("--full", help="Every pair of tile edges, every alpha and beta, every branch of the code.")
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
    on: OnOptions,
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
    asked = VerifyAsked(options, checks, full, precision, schedule, device.device)
    if on.asked or (not on.on and _is_worth_tasks(kernels, device)):
        results, skipped, name, ran = _on_workers(kernels or [], asked, device, cache, on, output)
    else:
        results, skipped, name = _here(kernels or [], asked, device, cache)
        ran = []
    wrong = [v for result in results for v in result.verdicts if not v.trusted]
    if output.json:
        print_json({
            "device": name, "ok": not wrong,
            "kernels": [
                {"name": r.name, "passed": r.passed, "failed": r.failed, "skipped": r.skipped,
                 "notes": [f"{note} ({count} cases)" for note, count in r.notes.items()], "worst_rho": r.worst}
                for r in results
            ],
            "skipped": skipped,
            "failures": [v.to_json() for v in wrong],
            **({"tasks": nodes_json(ran)} if ran else {}),
        })  # fmt: skip
    else:
        _print(name, results, skipped, wrong)
        if ran:
            item(nodes_note(ran), "dim")
    if wrong:
        raise typer.Exit(1)


def _is_worth_tasks(kernels: list[str] | None, device: DeviceOptions) -> bool:
    """Whether cores are used without being asked: for several kernels on the simulator."""
    return (not kernels or len(kernels) > 1) and not device.wants_gpu and (os.cpu_count() or 1) > 1


def _here(
    kernels: list[str], asked: VerifyAsked, device: DeviceOptions, cache: CacheOptions
) -> tuple[list[_Result], list[str], str]:
    """All kernels in this process, one case after another; what was left out; the device."""
    where = device.open(asked.schedule)
    names, skipped = _names(kernels, asked, device, where.kind == "gpu")
    chosen = [KernelVerification(name, asked, where, cache) for name in names]
    skipped += [kernel.lacks for kernel in chosen if kernel.lacks]
    chosen = [kernel for kernel in chosen if not kernel.lacks]
    _refuse_nothing(chosen, skipped)
    results = []
    with progress() as bar:
        task = bar.add_task("verifying", total=sum(len(kernel.cases) for kernel in chosen))
        for kernel in chosen:
            bar.update(task, description=kernel.spec.name)
            found = kernel.run(Part(), lambda: bar.advance(task))
            results.append(_gathered([found]))
    return results, skipped, where.name


def _on_workers(
    kernels: list[str], asked: VerifyAsked, device: DeviceOptions, cache: CacheOptions, on: OnOptions,
    output: OutputOptions,
) -> tuple[list[_Result], list[str], str, list[TaskResult]]:  # fmt: skip
    """The same as tasks, and their results."""
    on_gpu = wants_gpu(on, asked.device, lambda: device.wants_gpu)
    names, skipped = _names(kernels, asked, DeviceOptions(asked.device if not on_gpu else "gpu"), on_gpu)
    files = sent_files(names, asked.options.include) if not on.dry_run else SentFiles()
    tasks, owners = [], []
    for name in names:
        for part in parts_of(*find_kernel(name, asked.options), asked):
            sent = {"kernel": name, "asked": encode(asked), "on_gpu": on_gpu, "part": part.to_json()}
            tasks.append(Task("verify", sent, f"{name} {part}", files.digest, gpu_wanted(on) if on_gpu else CPU,
                              on.limit(LIMIT_S)))  # fmt: skip
            owners.append(name)
    command = shlex.join(["gemmsmith", "verify", *kernels, *option_words(asked.options, device, asked.checks),
                          *["--full"] * asked.full, "--precision", asked.precision,
                          "--schedule", asked.schedule])  # fmt: skip
    job = CommandJob(command, tasks, on, cores(), files.trees, recorded=on.named, cache_dir=cache.cache_dir,
                     json=output.json)  # fmt: skip
    ran = job.results()
    raise_failures(tasks, ran)
    found: dict[str, list[Verified]] = {}
    for owner, result in zip(owners, ran, strict=True):
        found.setdefault(owner, []).append(decode(Verified, result.value))
    skipped += [each[0].lacks for each in found.values() if each[0].lacks]
    kept = [each for each in found.values() if not each[0].lacks]
    _refuse_nothing(kept, skipped)
    return [_gathered(each) for each in kept], skipped, kept[0][0].device, ran if on.named else []


def _gathered(found: list[Verified]) -> _Result:
    result = _Result(found[0].name)
    for each in found:
        result.verdicts += each.verdicts
        result.skipped += each.skipped
        result.notes.update(each.notes)
    return result


def _names(kernels: list[str], asked: VerifyAsked, device: DeviceOptions, on_gpu: bool) -> tuple[list[str], list[str]]:
    """The kernels to verify, each checked to be one that can be, and why others are left out."""
    names, skipped = (kernels, []) if kernels else _ladder(asked.precision, simulated_only=not on_gpu)
    for name in names:
        spec, _ = find_kernel(name, asked.options)
        if not on_gpu:
            device.check_runs(spec, spec.problem(1, 1, 1))
        if not any(keeps(spec, dtype, asked.precision) for dtype in spec.dtypes):
            check_promise(spec, spec.dtypes[0], asked.precision)
    return names, skipped


def _refuse_nothing(chosen: Sequence[object], skipped: list[str]) -> None:
    if not chosen:
        raise UnsupportedError(skipped[0], "gemmsmith list shows what each rung needs")


def _ladder(precision: str, simulated_only: bool) -> tuple[list[str], list[str]]:
    """The rungs that keep ``precision``, and why each of those that the simulator does not run is left out."""
    keeping = [spec for spec in rungs() if any(keeps(spec, dtype, precision) for dtype in spec.dtypes)]
    if not simulated_only:
        return [spec.name for spec in keeping], []
    unknown = "is not simulated yet"
    return (
        [spec.name for spec in keeping if spec.simulated],
        [f"{spec.name} {unknown}" for spec in keeping if not spec.simulated],
    )


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
