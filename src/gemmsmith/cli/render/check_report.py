"""What gemmsmith check says: the launch, each trial, what went wrong and what that means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gemmsmith.cli.launch_report import launch_line, read_note
from gemmsmith.cli.render.output import bytes_text, console, print_json
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.verdict import Verdict

DISTINCT = "M, N and K all different"
RAGGED = "a shape that is no multiple of the tile"
UNREAD = "C is not read when beta = 0"


@dataclass(frozen=True)
class Trial:
    """One launch to make: what it is for, the problem, the data, the oracle, the order of warps, and C before it."""

    label: str
    problem: Problem
    mode: str
    fill: str
    schedule: str
    c: str = "unset"

    @property
    def shape(self) -> str:
        return f"{self.problem.m}x{self.problem.n}x{self.problem.k}"


@dataclass
class Report:
    """All that a check found; ``verdicts`` grows as trials are made.

    skipped  trials that could not be made, with the reason
    strict   reading C when beta = 0 counts as a failure
    hints    what besides the kernel may be why a trial failed
    """

    spec: KernelSpec
    compiled: CompiledKernel
    base: Problem
    launch: dict[str, Any]
    trials: list[Trial]
    skipped: list[tuple[str, str]]
    strict: bool
    verdicts: list[tuple[Trial, Verdict]] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(v.trusted for t, v in self.verdicts if self.strict or t.label != UNREAD)

    @property
    def advice(self) -> list[Verdict]:
        """Failures that do not count: reading C when beta = 0."""
        return [v for t, v in self.verdicts if t.label == UNREAD and not v.trusted and not self.strict]

    @property
    def left(self) -> list[str]:
        """Trials that came after the failure."""
        return [trial.label for trial in self.trials[len(self.verdicts) :]]

    def show(self, json: bool) -> None:
        """Print it, as JSON or for people."""
        if json:
            print_json(self._json())
        else:
            self._print()

    def _json(self) -> dict[str, Any]:
        used = self.compiled.resources
        return {
            "kernel": self.spec.name, "entry": self.compiled.entry, "ok": self.ok, "arch": self.compiled.arch,
            "registers": used.registers, "static_smem": used.static_smem, "launch": self.launch,
            "trials": [{"label": t.label, "schedule": t.schedule, "c": t.c, **v.to_json()} for t, v in self.verdicts],
            "hints": self.hints, "note": self.note(),
            "warnings": [f"C is read when beta = 0: {reason}" for v in self.advice for reason in v.reasons[:2]],
            "skipped": [{"label": label, "reason": why} for label, why in self.skipped],
            "not_run": self.left,
        }  # fmt: skip

    def _print(self) -> None:
        out, used = console(), self.compiled.resources
        out.print(f"{self.spec.name}: {self.compiled.entry}, {used.registers} registers, "
                  f"{bytes_text(used.static_smem)} static shared memory, {self.compiled.arch}",
                  markup=False)  # fmt: skip
        if not self.spec.is_rung:
            out.print(launch_line(self.launch), markup=False)
        advice = self.advice
        for trial, verdict in self.verdicts:
            bad = "[yellow]note [/yellow]" if verdict in advice else "[red]WRONG[/red]"
            mark = "[green]ok   [/green]" if verdict.trusted else bad
            out.print(f"  {mark} {trial.label} ({trial.problem})")
        for label, why in self.skipped:
            out.print(f"  skipped {label}: {why}", markup=False, style="dim")
        for verdict in advice:
            out.print(read_note(verdict), markup=False, style="yellow")
        for hint in self.hints:
            out.print(hint, markup=False, style="yellow")
        for _, verdict in self.verdicts:
            if not verdict.trusted and verdict not in advice:
                out.print(str(verdict), markup=False, style="red")
        if note := self.note():
            out.print(note, markup=False)
        if self.left:
            out.print(f"[dim]not run after the failure: {', '.join(self.left)}[/dim]")

    def note(self) -> str:
        """What it means that only another shape failed, and no more than was tried; empty where it does not apply."""
        *before, (trial, verdict) = self.verdicts
        if trial.label not in (DISTINCT, RAGGED) or verdict.trusted:
            return ""
        passed = [t for t, v in before if v.trusted]
        others = [t.shape for t in passed if t.label == DISTINCT]
        same = f"All {len(passed) - len(others)} trials of {self.base} passed"
        if trial.label == DISTINCT:
            return (
                f"{same}, but not {trial.shape}, where M, N and K all differ: look for one of them in another's place, "
                "as a stride or the bound of a loop, and for a grid whose x and y are swapped."
            )
        apart = others or len({self.base.m, self.base.n, self.base.k}) == 3
        too = f" ({others[0]}, too)" if others else ""
        right = f"multiples of the tile are right{too}" if apart else "square multiples of the tile are right"
        outside = any("out-of-bounds" in reason for reason in verdict.reasons)
        return (
            f"{same}: {right}{', but beyond them the kernel leaves its matrices' if outside else ''}. "
            "To be right for every shape it needs guards at the edges: row < M, col < N, k < K."
        )
