"""gemmsmith verify: the edge matrix, rung by rung."""

from __future__ import annotations

from typing import Annotated

import typer

from gemmsmith.cli.options import (
    CacheDir,
    Compiler,
    DeviceName,
    Json,
    ScheduleName,
    find_device,
    find_kernel,
)
from gemmsmith.cli.output import console, print_json, progress, table
from gemmsmith.kernels.registry import rungs
from gemmsmith.verify.cases import edge_cases
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict


def command(
    kernels: Annotated[list[str] | None, typer.Argument(metavar="[RUNG|FILE.cu]...", help="Default: all.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Every pair of tile edges and every alpha and beta.")] = False,
    device: DeviceName = "auto",
    schedule: ScheduleName = "lockstep",
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Verify kernels over shapes at tile edges, scalars, strides and special values; exits 1 if any is wrong."""
    chosen = [find_kernel(name) for name in kernels or [s.name for s in rungs()]]
    where = find_device(device, schedule)
    compiler = Compiler(cache_dir)
    work = [(spec, config, list(edge_cases(spec, config, "full" if full else "quick"))) for spec, config in chosen]
    results: list[tuple[str, list[Verdict], list[str]]] = []
    with progress() as bar:
        task = bar.add_task("verifying", total=sum(len(cases) for _, _, cases in work))
        for spec, config, cases in work:
            verdicts, skipped = [], []
            bar.update(task, description=spec.name)
            for case in cases:
                if case.skip:
                    skipped.append(f"{case.label}: {case.skip}")
                else:
                    verdicts.append(
                        verify_launch(where, spec, config, case.problem, compile_fn=compiler, fill=case.fill,
                                      seed=case.seed, offsets=case.offsets, mode=case.mode)
                    )  # fmt: skip
                bar.advance(task)
            results.append((spec.name, verdicts, skipped))
    wrong = [v for _, verdicts, _ in results for v in verdicts if not v.trusted]
    if json:
        print_json({
            "device": where.name, "ok": not wrong,
            "kernels": [
                {"name": name, "passed": sum(v.trusted for v in verdicts),
                 "failed": sum(not v.trusted for v in verdicts), "skipped": skipped, "worst_rho": _worst(verdicts)}
                for name, verdicts, skipped in results
            ],
            "failures": [v.to_json() for v in wrong],
        })  # fmt: skip
    else:
        _print(where.name, results, wrong)
    if wrong:
        raise typer.Exit(1)


def _worst(verdicts: list[Verdict]) -> float | None:
    finite = [v.rho for v in verdicts if v.rho == v.rho and v.rho != float("inf")]
    return round(max(finite), 3) if finite else None


def _print(device: str, results: list[tuple[str, list[Verdict], list[str]]], wrong: list[Verdict]) -> None:
    out = console()
    rows = []
    for name, verdicts, skipped in results:
        failed = sum(not v.trusted for v in verdicts)
        state = "[red]WRONG[/red]" if failed else "[green]verified[/green]" if verdicts else "nothing run"
        worst = _worst(verdicts)
        rows.append((name, state, str(len(verdicts) - failed), str(failed), str(len(skipped)),
                     "" if worst is None else f"{worst:.2f}"))  # fmt: skip
    columns = (("kernel", "left"), ("", "left"), ("passed", "right"), ("failed", "right"), ("skipped", "right"),
               ("worst ρ", "right"))  # fmt: skip
    out.print(table(f"on {device}", columns, rows))
    for name, _, skipped in results:
        for reason in sorted(set(skipped)):
            out.print(f"[dim]skipped {name}: {reason}[/dim]")
    for verdict in wrong[:10]:
        out.print(str(verdict), markup=False, style="red")
    if len(wrong) > 10:
        out.print(f"… and {len(wrong) - 10} more; --json lists all")
