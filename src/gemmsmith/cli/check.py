"""gemmsmith check: a user's own kernel, compiled, simulated under several schedules, and verified.

On the simulator every trial looks for races as well: a kernel that races fails, even where its result is right.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

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
from gemmsmith.cli.output import bytes_text, console, print_json, progress
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernels.spec import KernelSpec
from gemmsmith.kernels.user import UserOptions
from gemmsmith.problem import Problem
from gemmsmith.verify.harness import refusal, verify_launch
from gemmsmith.verify.verdict import Verdict

# The forgiving order first, so that plain mistakes are named plainly; then orders that barriers must survive.
SCHEDULES = ("lockstep", "in_order", "reversed", "random", "starved")
RAGGED = "a shape that is no multiple of the tile"
UNREAD = "C is not read when beta = 0"


@dataclass(frozen=True)
class Trial:
    """One launch to make: what it is for, the problem, the data, the oracle and the order of warps."""

    label: str
    problem: Problem
    mode: str
    fill: str
    schedule: str
    c_is_set: bool = False


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
    strict: Annotated[bool, typer.Option("--strict", help="Reading C when beta = 0 fails, too.")] = False,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Check a kernel of your own: compile, simulate in several orders, verify; exits 1 with the reason."""
    spec, chosen = find_kernel(kernel, config, preset, define, UserOptions(entry, grid, block, smem, signature))
    base = Problem(m, n, k, dtype=spec.dtypes[0])
    spec.accepts(base)
    compiler = Compiler(cache_dir)
    first = find_device(device)
    compiled = compiler(spec, chosen, base, first.arch)
    first.load(compiled)  # what the device cannot run at all is no verdict on the kernel
    given = {"config": config, "preset": preset, "entry": entry, "grid": grid, "block": block, "smem": smem,
             "signature": signature}  # fmt: skip
    again = _again(kernel, base, device, define or [], given) + (" --strict" if strict else "")
    trials = list(_trials(spec, base, first.kind))
    verdicts: list[tuple[Trial, Verdict]] = []
    with progress() as bar:
        task = bar.add_task(spec.name, total=len(trials))
        for trial in trials:
            where = find_device(device, trial.schedule, hazards=True, timeout=timeout)
            verdict = verify_launch(where, spec, chosen, trial.problem, compile_fn=compiler, fill=trial.fill,
                                    mode=trial.mode, c_is_set=trial.c_is_set)  # fmt: skip
            verdicts.append((trial, replace(verdict, repeat=again)))
            bar.advance(task)
            if not verdict.trusted and trial.label != UNREAD:
                break  # the first failure is the one to mend; later ones often follow from it
    _report(spec, compiled, trials, verdicts, strict or spec.is_rung, json)


def _again(kernel: str, base: Problem, device: str, defines: list[str], given: dict[str, str]) -> str:
    """This very check as a command line; races and schedules have no other."""
    words = ["gemmsmith", "check", kernel, "--m", str(base.m), "--n", str(base.n), "--k", str(base.k)]
    words += ["--device", device] if device != "sim" else []
    words += [f"-D{define}" for define in defines]
    for name, value in given.items():
        words += [f"--{name}", value] if value else []
    return shlex.join(words)


def _trials(spec: KernelSpec, base: Problem, kind: str) -> Iterator[Trial]:
    # Many tutorials compute alpha·sum + beta·C whatever beta is: right, as long as C holds numbers. So C is set while
    # all else is tried, and whether it was read is asked separately.
    lenient = not spec.is_rung and spec.signature.has("beta")
    yield Trial("integers, bit for bit", base, "exact", "integers", "lockstep", lenient)
    yield Trial("random data", base, "float", "normal", "lockstep", lenient)
    for schedule in SCHEDULES[1:] if kind == "sim" else ():
        yield Trial(f"warps {schedule.replace('_', ' ')}", base, "float", "normal", schedule, lenient)
    if lenient:
        yield Trial(UNREAD, base, "float", "normal", "lockstep")
    # Last, so that a kernel without guards at the edges has passed all else before it fails.
    ragged = base.with_(m=base.m + 1, n=base.n - 1 or 1, k=base.k + 3)
    for label, problem in (
        ("alpha and beta", base.with_(alpha=0.7, beta=-1.5)),
        ("padded rows", base.with_(lda=base.k + 3, ldb=base.n + 5, ldc=base.n + 7)),
        (RAGGED, ragged),
    ):
        if not refusal(spec.signature, problem):
            yield Trial(label, problem, "float", "normal", "lockstep", lenient)


def _report(spec: KernelSpec, compiled: CompiledKernel, trials: list[Trial], verdicts: list[tuple[Trial, Verdict]],
            strict: bool, json: bool) -> None:  # fmt: skip
    advice = [v for t, v in verdicts if t.label == UNREAD and not v.trusted and not strict]
    ok = all(v.trusted for t, v in verdicts if strict or t.label != UNREAD)
    note = _note(verdicts)
    if json:
        print_json({
            "kernel": spec.name, "entry": compiled.entry, "ok": ok, "arch": compiled.arch,
            "registers": compiled.resources.registers, "static_smem": compiled.resources.static_smem,
            "trials": [_trial_json(t, v) for t, v in verdicts], "note": note,
            "warnings": [f"C is read when beta = 0: {reason}" for v in advice for reason in v.reasons[:2]],
            "not_run": [t.label for t in trials[len(verdicts) :]],
        })  # fmt: skip
    else:
        out = console()
        used = compiled.resources
        out.print(f"{spec.name}: {compiled.entry}, {used.registers} registers, "
                  f"{bytes_text(used.static_smem)} static shared memory, {compiled.arch}")  # fmt: skip
        for trial, verdict in verdicts:
            bad = "[yellow]note [/yellow]" if verdict in advice else "[red]WRONG[/red]"
            mark = "[green]ok   [/green]" if verdict.trusted else bad
            out.print(f"  {mark} {trial.label} ({trial.problem})")
        for verdict in advice:
            what = "; ".join(verdict.reasons[:2])
            out.print(f"C is read when beta = 0, where BLAS lets it hold anything, NaN too: test beta first.\n  {what}",
                      "\n  (--strict makes this a failure)", markup=False, style="yellow")  # fmt: skip
        for _, verdict in verdicts:
            if not verdict.trusted and verdict not in advice:
                out.print(str(verdict), markup=False, style="red")
        if note:
            out.print(note, markup=False)
        if left := trials[len(verdicts) :]:
            out.print(f"[dim]not run after the failure: {', '.join(t.label for t in left)}[/dim]")
    if not ok:
        raise typer.Exit(1)


def _note(verdicts: list[tuple[Trial, Verdict]]) -> str:
    """What it means that only the ragged shape failed; empty where it does not apply."""
    *passed, (trial, verdict) = verdicts
    if trial.label != RAGGED or verdict.trusted or not passed:
        return ""
    outside = any("out-of-bounds" in reason for reason in verdict.reasons)
    return (
        f"All {len(passed)} trials of {passed[0][0].problem} passed: multiples of the tile are right"
        f"{', but beyond them the kernel leaves its matrices' if outside else ''}. "
        "To be right for every shape it needs guards at the edges: row < M, col < N, k < K."
    )


def _trial_json(trial: Trial, verdict: Verdict) -> dict[str, Any]:
    return {"label": trial.label, "schedule": trial.schedule, **verdict.to_json()}
