"""gemmsmith compare: two kernels side by side, the differences that matter first."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from gemmsmith.cli.ncu_profile import measured, measured_on
from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions, TargetOptions
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.options.kernel import KernelName, KernelOptions
from gemmsmith.cli.options.output import TableOptions
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.render.comparison_text import print_comparison
from gemmsmith.cli.render.diagnosis_text import check_json
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.cli.subject import Subject, find_subject
from gemmsmith.cli.subject_check import checked_subject
from gemmsmith.cli.timed_subject import time_subject, timed_rows
from gemmsmith.errors import UsageError
from gemmsmith.explain.comparison import Comparison, compare, to_json, without_gain
from gemmsmith.explain.comparison_rows import origin_of
from gemmsmith.explain.diagnosis import MODEL
from gemmsmith.explain.simulated_profile import counted_alike
from gemmsmith.explain.timing.step import step_json, step_of
from gemmsmith.explain.timing.summary import summary_of
from gemmsmith.explain.timing.timed import TIME_MODEL
from gemmsmith.explain.timing.timed import to_json as timed_to_json
from gemmsmith.run.cuda import cuda_device
from gemmsmith.verify.quick_check import QuickCheck

_CONFIG = "Parameters of the {} kernel, or macros of a file: BM=64,BN=64."
_PRESET = "A named configuration of the {} kernel, a rung."
_LAUNCH = "Launch of the {} kernel, a file: 'block=32,32; grid=ceil(N/32),ceil(M/32); entry=mine'."
_X, _Y = "first", "second"
_FIELDS = ("entry", "grid", "block", "smem", "signature", "layout")
_DEVICE = DeviceOptions("sim")


@dataclass(frozen=True)
class SideOptions(OptionGroup):
    """Configuration and launch of each kernel."""

    panel: ClassVar[str] = "Kernels"

    x_config: Annotated[str, typer.Option("--x-config", help=_CONFIG.format(_X))] = ""
    y_config: Annotated[str, typer.Option("--y-config", help=_CONFIG.format(_Y))] = ""
    x_preset: Annotated[str, typer.Option("--x-preset", help=_PRESET.format(_X))] = ""
    y_preset: Annotated[str, typer.Option("--y-preset", help=_PRESET.format(_Y))] = ""
    x_launch: Annotated[str, typer.Option("--x-launch", help=_LAUNCH.format(_X))] = ""
    y_launch: Annotated[str, typer.Option("--y-launch", help=_LAUNCH.format(_Y))] = ""
    include: Annotated[
        list[Path] | None,
        typer.Option("-I", metavar="DIR", help="A folder in which the files' includes are looked for; repeatable."),
    ] = None

    @property
    def x(self) -> KernelOptions:
        return side_options(self.x_config, self.x_preset, self.x_launch, self.include)

    @property
    def y(self) -> KernelOptions:
        return side_options(self.y_config, self.y_preset, self.y_launch, self.include)


def command(
    x: KernelName,
    y: KernelName,
    sides: SideOptions,
    problem: ProblemOptions,
    device: DeviceOptions = _DEVICE,
    *,
    arguments: ArgumentOptions,
    target: TargetOptions,
    cache: CacheOptions,
    output: TableOptions,
) -> None:
    """Compare two kernels: resources, memory, instructions, main loop.

    Users' kernels are checked first, on one shape; a wrong one is never called faster.
    On a GPU with ncu also what ncu measures.
    """
    if arguments.launches(x) or arguments.launches(y):
        from gemmsmith.cli.launch_commands import compare_two_launches

        compare_two_launches((x, sides.x), (y, sides.y), arguments, device, target, cache, output.json)
        return
    if "," in target.gpu:
        _on_several(x, y, sides, problem, device, arguments, target, cache, output)
        return
    gpu = target.model
    on_gpu = measured_on(device)
    arch = cuda_device().arch if on_gpu else target.architecture
    named = ((x, sides.x), (y, sides.y))
    both = [find_subject(name, options, problem, arch, cache.compiler) for name, options in named]
    _check_sizes(both)
    with progress() as bar:
        task = bar.add_task("comparing", total=4 if on_gpu else 2)
        checks = [checked_subject(subject, cache.compiler) for subject in both]
        counted = counted_alike([subject.profile for subject in both], lambda: bar.advance(task))
        seen = []
        for subject in both if on_gpu else ():
            seen.append(measured(subject))
            bar.advance(task)
    doubtful = any(check is not None and not check.ok for check in checks)
    found = compare(counted[0], counted[1], gpu, (seen[0], seen[1]) if on_gpu else None, doubtful)
    times = [time_subject(subject, gpu, check) for subject, check in zip(both, checks, strict=True)]
    one, other = ((name, summary_of(time)) for name, time in zip(_names(both), times, strict=True))
    step = step_of(one, other)
    if step is not None:
        sentences = (*step.sentences, *map(without_gain, found.sentences[1:]))
        found = replace(found, sentences=sentences, rows=timed_rows(found.rows, *times))
    if output.json:
        said = {side: check_json(check).get("checked") for side, check in zip("xy", checks, strict=True)}
        of_each = {side: timed_to_json(time) for side, time in zip("xy", times, strict=True)}
        how = {"model": TIME_MODEL} if step is not None else {}
        print_json(to_json(found) | how | {"step": step_json(step), "time": of_each, "checked": said})
    elif output.csv:
        sys.stdout.write(rows_csv(found))
    else:
        _print(both, found, checks, MODEL if step is None else TIME_MODEL)


def _names(both: Sequence[Subject]) -> tuple[str, str]:
    one, other = (each.spec.name for each in both)
    return (one, other) if one != other else (f"{one} {both[0].config}", f"{other} {both[1].config}")


def _on_several(
    x: str, y: str, sides: SideOptions, problem: ProblemOptions, device: DeviceOptions, arguments: ArgumentOptions,
    target: TargetOptions, cache: CacheOptions, output: TableOptions,
) -> None:  # fmt: skip
    """The comparison for each GPU of a list, one after the other."""
    if target.arch:
        raise UsageError("choose one of --arch and several GPUs", "each GPU has its own architecture")
    if output.json or output.csv:
        raise UsageError(
            f"--json and --csv are for one GPU, and --gpu names {target.gpu.count(',') + 1}", "ask for one at a time"
        )
    for name in target.gpu.split(","):
        one = replace(target, gpu=name.strip())
        command(x, y, sides, problem, device, arguments=arguments, target=one, cache=cache, output=output)
        say()


def _check_sizes(both: Sequence[Subject]) -> None:
    """Raise if the source of one kernel sets a size that the other is not asked for."""
    x, y = ((each.problem.m, each.problem.n, each.problem.k) for each in both)
    if x == y:
        return
    fixed, (m, n, k) = (both[0], x) if both[0].spec.signature.fixed else (both[1], y)
    raise UsageError(f"{fixed.spec.name} is compiled for {m}x{n}x{k} only", f"add --m {m} --n {n} --k {k}")


def side_options(config: str, preset: str, launch: str, include: list[Path] | None) -> KernelOptions:
    """'block=32,32; grid=…' as the options of a file."""
    given: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in launch.split(";"))):
        name, equals, value = part.partition("=")
        if name.strip() not in _FIELDS or not equals or not value.strip():
            raise UsageError(f"{part!r} says nothing about a launch", f"write NAME=VALUE; names: {', '.join(_FIELDS)}")
        given[name.strip()] = value.strip()
    return KernelOptions(config, preset, include=include, **given)


def rows_csv(found: Comparison) -> str:
    """section, name, x, y, origin: one row per quantity."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("section", "name", found.left.case.profile.kernel, found.right.case.profile.kernel, "origin"))
    for row in found.rows:
        values = [v if isinstance(v, str) else "" if v != v else f"{v:.10g}" for v in (row.left, row.right)]
        rows.writerow((row.section, row.name, *values, origin_of(row)))
    return text.getvalue()


def _print(both: list[Subject], found: Comparison, checks: Sequence[QuickCheck | None], model: str) -> None:
    titles, names = [subject.title for subject in both], [subject.spec.name for subject in both]
    print_comparison(titles, names, found.sentences, found.rows, checks, model, found.level)
