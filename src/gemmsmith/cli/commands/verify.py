"""gemmsmith verify: the edge matrix, rung by rung."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import typer

from gemmsmith.call.binding import check_simulated
from gemmsmith.choose.precision import check_promise, precision_named, promises
from gemmsmith.cli.launch_report import CText, Strict, c_fill, is_lenient, leniently, repeat_words
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
    PresetName,
    ScheduleName,
    SignatureText,
    Smem,
    find_device,
    find_kernel,
)
from gemmsmith.cli.precision_options import PrecisionName
from gemmsmith.cli.render.output import console, print_json, progress, table
from gemmsmith.compile.target import arch_number
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rungs_for
from gemmsmith.problem import DType, Problem
from gemmsmith.userfile.user_kernel import UserOptions
from gemmsmith.verify.cases import Case, edge_cases
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict


@dataclass
class _Result:
    """What became of one kernel's cases."""

    name: str
    verdicts: list[Verdict] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        return sum(not v.trusted for v in self.verdicts)

    @property
    def worst(self) -> float | None:
        finite = [v.rho for v in self.verdicts if v.rho == v.rho and v.rho != float("inf")]
        return round(max(finite), 3) if finite else None


def command(
    kernels: Annotated[
        list[str] | None, typer.Argument(metavar="[RUNG|FILE.cu]...", help="Default: all that run there.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Every pair of tile edges and every alpha and beta.")] = False,
    device: DeviceName = "auto",
    schedule: ScheduleName = "lockstep",
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    precision: PrecisionName = "",
    entry: Entry = "",
    grid: Grid = "",
    block: Block = "",
    smem: Smem = "",
    signature: SignatureText = "",
    c: CText = "",
    strict: Strict = False,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Verify kernels over shapes at tile edges, scalars, strides and special values; exits 1 if any is wrong.

    With --precision: the kernels, in the types, that keep it.
    """
    precision_named(precision)
    options = UserOptions(entry, grid, block, smem, signature)
    filled = c_fill(c)
    where = find_device(device, schedule)
    names = kernels or [
        spec.name for spec in rungs_for(arch_number(where.arch))
        if (spec.simulated or where.kind == "gpu") and any(_keeps(spec, dtype, precision) for dtype in spec.dtypes)
    ]  # fmt: skip
    chosen = [find_kernel(name, config, preset, define, options) for name in names]
    for spec, _ in chosen:
        check_simulated(where, spec, Problem(1, 1, 1, dtype=spec.dtypes[0]))
        if not any(_keeps(spec, dtype, precision) for dtype in spec.dtypes):
            check_promise(spec, spec.dtypes[0], precision)
    compiler = Compiler(cache_dir)
    words = repeat_words(options, device, c, strict, schedule, 0)
    work = [
        (spec, values, [case for case in edge_cases(spec, values, "full" if full else "quick")
                        if _keeps(spec, case.problem.dtype, precision)])
        for spec, values in chosen
    ]  # fmt: skip

    def judge(spec: KernelSpec, values: Config, case: Case, c_holds: str) -> Verdict:
        return verify_launch(where, spec, values, case.problem, compile_fn=compiler, fill=case.fill, seed=case.seed,
                             offsets=case.offsets, mode=case.mode, c=c_holds, launch=words)  # fmt: skip

    results = []
    with progress() as bar:
        task = bar.add_task("verifying", total=sum(len(cases) for _, _, cases in work))
        for spec, values, cases in work:
            result = _Result(spec.name)
            bar.update(task, description=spec.name)
            for case in cases:
                if case.skip:
                    result.skipped.append(f"{case.label}: {case.skip}")
                else:
                    verdict, note = leniently(partial(judge, spec, values, case), is_lenient(spec, c, strict), filled)
                    result.verdicts.append(verdict)
                    result.notes.update([note.split("\n")[0]] if note else [])
                bar.advance(task)
            results.append(result)
    wrong = [v for result in results for v in result.verdicts if not v.trusted]
    if json:
        print_json({
            "device": where.name, "ok": not wrong,
            "kernels": [
                {"name": r.name, "passed": len(r.verdicts) - r.failed, "failed": r.failed, "skipped": r.skipped,
                 "notes": [f"{note} ({count} cases)" for note, count in r.notes.items()], "worst_rho": r.worst}
                for r in results
            ],
            "failures": [v.to_json() for v in wrong],
        })  # fmt: skip
    else:
        _print(where.name, results, wrong)
    if wrong:
        raise typer.Exit(1)


def _keeps(spec: KernelSpec, dtype: DType, precision: str) -> bool:
    return not precision or precision in promises(spec, dtype)


def _print(device: str, results: list[_Result], wrong: list[Verdict]) -> None:
    out = console()
    rows = []
    for result in results:
        right = "[green]verified[/green]" if result.verdicts else "nothing run"
        state = "[red]WRONG[/red]" if result.failed else right
        passed = len(result.verdicts) - result.failed
        rows.append((result.name, state, str(passed), str(result.failed), str(len(result.skipped)),
                     "" if result.worst is None else f"{result.worst:.2f}"))  # fmt: skip
    columns = (("kernel", "left"), ("", "left"), ("passed", "right"), ("failed", "right"), ("skipped", "right"),
               ("worst ρ", "right"))  # fmt: skip
    out.print(table(f"on {device}", columns, rows))
    for result in results:
        for reason in sorted(set(result.skipped)):
            out.print(f"skipped {result.name}: {reason}", markup=False, style="dim")
        for note, count in result.notes.items():
            out.print(f"note on {result.name}: {note} ({count} cases; --strict makes this a failure)", markup=False,
                      style="yellow")  # fmt: skip
    for verdict in wrong[:10]:
        out.print(str(verdict), markup=False, style="red")
    if len(wrong) > 10:
        out.print(f"… and {len(wrong) - 10} more; --json lists all")
